"""VS Code in code-server, set up for one test: its own settings, folders and engine."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SCREENSHOTS = ROOT / "build" / "screenshots"
LIMIT_S = 60

USER_SETTINGS: Mapping[str, Any] = {
    "chat.disableAIFeatures": True,
    "editor.inlineSuggest.enabled": True,
    "editor.minimap.enabled": False,
    "editor.quickSuggestions": {"other": "off", "comments": "off", "strings": "off"},
    "editor.wordBasedSuggestions": "off",
    "extensions.ignoreRecommendations": True,
    "files.autoSave": "off",
    "git.enabled": False,
    "telemetry.telemetryLevel": "off",
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.startupEditor": "none",
}


class VSCode:
    """One code-server that serves one folder."""

    def __init__(self, *, testbed: Path, extensions: Path, home: Path, environment: dict[str, str]):
        self.testbed = testbed
        self.home = home
        self._extensions = extensions
        self._environment = environment
        self._port = free_port()

    @contextmanager
    def running(self, *, settings: Mapping[str, Any], trust_everything: bool) -> Iterator[None]:
        user = self.home / "vscode" / "User"
        user.mkdir(parents=True, exist_ok=True)
        (user / "settings.json").write_text(json.dumps({**USER_SETTINGS, **settings}))
        command = [
            str(self.testbed / "bin" / "code-server"),
            *("--auth", "none", "--bind-addr", f"127.0.0.1:{self._port}"),
            *("--user-data-dir", str(user.parent), "--extensions-dir", str(self._extensions)),
            *(
                "--disable-telemetry",
                "--disable-update-check",
                "--disable-getting-started-override",
            ),
            *(["--disable-workspace-trust"] if trust_everything else []),
        ]
        with spawned(command, self.home / "code-server.log", self._environment) as process:
            wait_for("code-server answers", lambda: self._answers(process))
            yield

    def run(self, flow: str, folder: Path, *, limit_s: float = LIMIT_S, **arguments: Any) -> Any:
        """Runs `flows/FLOW.mjs` on a folder in a new browser window; returns what the flow saw.
        Whatever it waits for has `limit_s` to come."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        options = {
            "url": f"http://127.0.0.1:{self._port}/?folder={folder}",
            "testbed": str(self.testbed),
            "screenshots": str(SCREENSHOTS),
            "limitMs": limit_s * 1000,
            "arguments": arguments,
        }
        node = str(self.testbed / "bin" / "node")
        result = subprocess.run(
            [node, str(HERE / "run_flow.mjs"), flow, json.dumps(options)],
            capture_output=True,
            text=True,
            timeout=5 * limit_s,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    def _answers(self, process: subprocess.Popen[bytes]) -> bool:
        assert process.poll() is None, (self.home / "code-server.log").read_text()
        try:
            with urlopen(f"http://127.0.0.1:{self._port}/healthz", timeout=5):
                return True
        except (URLError, TimeoutError, ConnectionError):
            return False


def install_extensions(testbed: Path, folder: Path, *packages: Path) -> None:
    """Installs packaged extensions into an extensions folder."""
    with tempfile.TemporaryDirectory() as user:
        subprocess.run(
            [
                str(testbed / "bin" / "code-server"),
                *("--extensions-dir", str(folder), "--user-data-dir", user, "--force"),
                *(word for package in packages for word in ("--install-extension", str(package))),
            ],
            check=True,
            capture_output=True,
            env={"HOME": user, "PATH": "/usr/bin:/bin"},
        )


@contextmanager
def scripted_engine(
    rules: list[dict[str, str]], home: Path, environment: dict[str, str]
) -> Iterator[None]:
    """The engine with canned answers, where the language server will look for it."""
    script = home / "script.json"
    script.write_text(json.dumps({"rules": rules, "default": {"text": ""}}))
    command = ["composer-lsp", "engine", "--backend", "scripted", "--script", str(script)]
    socket_path = Path(environment["COMPOSER_RUNTIME_DIR"]) / "engine.sock"
    log = home / "engine.log"
    with spawned(command, log, environment) as process:

        def ready() -> bool:
            assert process.poll() is None, log.read_text()
            return socket_path.exists()

        wait_for("the engine's socket", ready)
        yield


def drain_engine(runtime: Path) -> None:
    """Asks the engine that the language server started, where there is one, to leave."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(runtime / "engine.sock"))
        except (FileNotFoundError, ConnectionRefusedError):
            return
        connection.sendall(b"POST /composer/drain HTTP/1.0\r\nContent-Length: 0\r\n\r\n")
        connection.recv(1024)


@contextmanager
def spawned(
    command: list[str], log: Path, environment: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    program = shutil.which(command[0], path=environment["PATH"])
    assert program is not None, f"{command[0]} is not on the test's PATH"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program, *command[1:]], stdout=output, stderr=output, env=environment
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(timeout=LIMIT_S)


def server_program() -> str:
    """`composer-lsp` of the environment that runs the tests."""
    return f"{sys.prefix}/bin/composer-lsp"


def user_environment(home: Path, runtime: Path) -> dict[str, str]:
    """The environment of a user with an empty home who started VS Code in the virtual environment
    that holds `composer-lsp`. (VS Code takes the PATH from a login shell.)"""
    prefix = Path(server_program()).parent.parent
    return {
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PATH": os.pathsep.join([str(prefix / "bin"), "/usr/bin", "/bin"]),
        "VIRTUAL_ENV": str(prefix),
        "COMPOSER_RUNTIME_DIR": str(runtime),
        **{f"COMPOSER_{kind}_DIR": str(home / kind.lower()) for kind in ("DATA", "CACHE", "STATE")},
    }


def wait_for(what: str, ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not ready():
        assert time.monotonic() < deadline, f"never came: {what}"
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def short_folder() -> Path:
    """A folder whose path leaves room for a Unix socket's name, which the system limits."""
    return Path(tempfile.mkdtemp(prefix="c-"))
