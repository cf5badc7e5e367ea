"""Editors as a user of docs/other-editors.md has them: its snippets, a home of their own, canned answers."""

import os
import re
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.editors.neovim.harness import (
    LIMIT_S,
    ROOT,
    server_program,
    user_environment,
    wait_for,
    with_environment,
)

DOCUMENT = ROOT / "docs" / "other-editors.md"
DRIVE = Path(__file__).with_name("drive.el")


def snippet(name: str) -> str:
    """The code block of the document between `<!-- NAME:begin -->` and `<!-- NAME:end -->`."""
    block = rf"<!-- {name}:begin -->\s+```\w+\n(.*?)```\s+<!-- {name}:end -->"
    found = re.search(block, DOCUMENT.read_text(), re.DOTALL)
    assert found, f"{DOCUMENT} has no snippet {name}"
    return found[1]


def environment_with_server(home: Path, runtime: Path) -> dict[str, str]:
    """A user's environment with `composer-lsp` on the PATH."""
    environment = user_environment(home, runtime)
    folder = Path(server_program()).parent
    return {**environment, "PATH": f"{folder}:{environment['PATH']}"}


def server_processes(runtime: Path) -> list[psutil.Process]:
    """The language servers that run for a user with this runtime folder."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            is_ours = process.environ().get("COMPOSER_RUNTIME_DIR") == str(runtime)
            command = process.cmdline()
        except psutil.Error:
            continue
        if is_ours and "engine" not in command and any("composer-lsp" in word for word in command):
            found.append(process)
    return found


class EmacsError(AssertionError):
    """Emacs failed; the message is what it printed."""


class BatchEmacs:
    """Emacs without a screen: it loads a configuration, runs steps and leaves."""

    def __init__(self, program: Path, home: Path, environment: Mapping[str, str]) -> None:
        self._program = program
        self._home = home
        self._environment = environment

    def run(self, init: str, *steps: str) -> str:
        """Runs the steps, which may call what drive.el defines, and returns what they printed."""
        file = self._home / "init.el"
        file.write_text(init)
        code = [word for step in steps for word in ("--eval", step)]
        command = [str(self._program), "--batch", "-l", str(file), "-l", str(DRIVE), *code]
        done = subprocess.run(
            with_environment(command, self._environment),
            capture_output=True,
            text=True,
            timeout=2 * LIMIT_S,
            cwd=self._home,
        )
        if done.returncode != 0:
            raise EmacsError(done.stderr)
        return done.stdout


class Terminal:
    """A program in a terminal, with the keys and the screen of a user."""

    def __init__(self, socket: Path) -> None:
        self._tmux = ["tmux", "-f", "/dev/null", "-S", str(socket)]

    def start(self, command: Sequence[str], environment: Mapping[str, str], folder: Path) -> None:
        words = with_environment(list(command), environment)
        self._run("new-session", "-d", "-x", "100", "-y", "30", "-c", str(folder), "--", *words)
        self._run("set-option", "-g", "escape-time", "0")

    def type(self, text: str) -> None:
        self._run("send-keys", "-l", "--", text)

    def keys(self, *names: str) -> None:
        self._run("send-keys", *names)

    @property
    def screen(self) -> str:
        return self._run("capture-pane", "-p")

    def wait_screen(self, text: str) -> None:
        wait_for(f"{text!r} on the screen", lambda: text in self.screen, lambda: self.screen)

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True)

    def _run(self, *words: str) -> str:
        done = subprocess.run([*self._tmux, *words], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextmanager
def terminal(folder: Path) -> Generator[Terminal]:
    """`folder` should be short: it takes a Unix socket."""
    opened = Terminal(folder / "tmux")
    try:
        yield opened
    finally:
        opened.close()


def find_program(*candidates: str) -> Path | None:
    """The first of these programs that exists."""
    return next((Path(path) for path in candidates if os.access(path, os.X_OK)), None)
