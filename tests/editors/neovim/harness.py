"""Neovim without a screen, set up for one test: its own home, folders and engine."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pynvim  # pyright: ignore[reportMissingTypeStubs]

ROOT = Path(__file__).parents[3]
PLUGIN = ROOT / "editor-clients" / "neovim"
SCREENSHOTS = ROOT / "build" / "screenshots"
LIMIT_S = 60.0

INIT = """
vim.opt.runtimepath:prepend({plugin})
vim.opt.swapfile = false
vim.cmd.filetype("plugin indent on")
_G.notices = {{}}
vim.notify = function(message, level) table.insert(_G.notices, {{ message, level or 2 }}) end
{before}
require("composer").setup({options})
"""

# Both name spaces: Neovim 0.12 draws by its own, the plugin by its own.
GHOST_TEXT = """
local found = {}
for _, name in ipairs({ "nvim.lsp.inline_completion", "composer" }) do
  local id = vim.api.nvim_create_namespace(name)
  for _, mark in ipairs(vim.api.nvim_buf_get_extmarks(0, id, 0, -1, { details = true })) do
    local lines = { mark[4].virt_text or {} }
    vim.list_extend(lines, mark[4].virt_lines or {})
    for _, line in ipairs(lines) do
      local text = ""
      for _, chunk in ipairs(line) do text = text .. chunk[1] end
      table.insert(found, text)
    end
  end
end
return table.concat(found, "\\n")
"""

# For `wait_request` and `settle`.
COUNT_REQUESTS = """
vim.api.nvim_create_autocmd("LspRequest", { callback = function(event)
  local request = event.data.request
  if request.method ~= "textDocument/inlineCompletion" then return end
  vim.g.num_asked = (vim.g.num_asked or 0) + (request.type == "pending" and 1 or 0)
  vim.g.num_answered = (vim.g.num_answered or 0) + (request.type == "complete" and 1 or 0)
end })
"""

# Neovim 0.12 asks this long after the last key; what is scheduled for the answer comes behind it.
SETTLE = """
vim.g.settled = false
vim.defer_fn(vim.schedule_wrap(function() vim.g.settled = true end), 300)
"""


class Neovim:
    """One Neovim with the plugin set up, driven over its API."""

    def __init__(
        self,
        program: Path,
        home: Path,
        environment: Mapping[str, str],
        *,
        init: str | None = None,
        before: str = "",
        options: str = "{}",
    ) -> None:
        """`init` is the user's whole configuration, where Neovim looks for it."""
        self.home = home
        self._is_closed = False
        command = [str(program), "--embed", "--headless", "-n", "-i", "NONE"]
        if init is None:
            command += ["-u", str(write_init(home, before=before, options=options))]
        else:
            file = home / ".config" / "nvim" / "init.lua"
            file.parent.mkdir(parents=True)
            file.write_text(init)
        # pynvim starts the child with this process's environment, so `env` sets the child's.
        self.api = pynvim.attach("child", argv=with_environment(command, environment))

    def lua(self, code: str, *arguments: Any) -> Any:
        return self.api.exec_lua(code, *arguments)

    @property
    def server_processes(self) -> list[int]:
        """Ids of the language servers that this Neovim runs."""
        neovim = psutil.Process(self.api.funcs.getpid())
        return [
            child.pid
            for child in neovim.children(recursive=True)
            if child.status() != psutil.STATUS_ZOMBIE and "serve" in child.cmdline()
        ]

    def edit(self, file: Path, line: int = 1) -> None:
        self.api.command(f"edit {file}")
        self.wait_attached()
        self.api.current.window.cursor = (line, 0)

    def wait_attached(self) -> None:
        self.wait(
            "the language server",
            lambda: self.lua(
                'local c = vim.lsp.get_clients({ bufnr = 0, name = "composer-lsp" })[1]\n'
                "return c ~= nil and c.initialized == true "
                "and vim.lsp.buf_is_attached(vim.api.nvim_get_current_buf(), c.id)"
            ),
        )

    def keys(self, keys: str) -> None:
        self.api.input(keys)

    @property
    def ghost(self) -> str:
        return self.lua(GHOST_TEXT)

    @property
    def is_shown(self) -> bool:
        return self.lua('return require("composer").is_shown()')

    @property
    def text(self) -> str:
        return "\n".join(self.api.current.buffer[:])

    @property
    def notices(self) -> list[str]:
        return [message for message, _ in self.lua("return _G.notices")]

    def errors(self) -> str:
        """What Neovim itself complained about, as `:messages` keeps it."""
        return self.api.command_output("messages")

    def wait(self, what: str, ready: Callable[[], Any], limit_s: float = LIMIT_S) -> None:
        wait_for(what, ready, self._describe, limit_s)

    def _describe(self) -> str:
        return (
            f"buffer: {self.text!r}\nghost: {self.ghost!r}\n"
            f"notices: {self.notices}\nmessages: {self.errors()}"
        )

    def wait_ghost(self, text: str, limit_s: float = LIMIT_S) -> None:
        self.wait(f"ghost text {text!r}", lambda: self.is_shown and self.ghost == text, limit_s)

    def wait_text(self, text: str) -> None:
        self.wait(f"buffer text {text!r}", lambda: self.text == text)

    def close(self) -> None:
        """May be called again, without effect."""
        if not self._is_closed:
            self._is_closed = True
            with suppress(OSError, EOFError):  # It closes the connection, as asked.
                self.api.command("qall!")
            self.api.close()


def wait_for(
    what: str,
    ready: Callable[[], Any],
    describe: Callable[[], str] = lambda: "",
    limit_s: float = LIMIT_S,
) -> None:
    deadline = time.monotonic() + limit_s
    while not ready():
        assert time.monotonic() < deadline, f"never came: {what}\n{describe()}"
        time.sleep(0.02)


def count(neovim: Neovim, name: str) -> int:
    return neovim.api.vars.get(name) or 0


def wait_request(neovim: Neovim) -> None:
    neovim.wait("a request", lambda: count(neovim, "num_asked") > 0)


def settle(neovim: Neovim) -> None:
    """Waits until Neovim asked all that it will ask, and did what follows the last answer."""
    for _ in range(2):
        neovim.lua(SETTLE)
        neovim.wait("Neovim's own pause", lambda: neovim.api.vars["settled"])
        neovim.wait(
            "all answers", lambda: count(neovim, "num_asked") == count(neovim, "num_answered")
        )


def write_init(home: Path, *, before: str = "", options: str = "{}") -> Path:
    """A configuration that sets up the plugin of this repository."""
    init = home / "init.lua"
    init.write_text(INIT.format(plugin=lua(str(PLUGIN)), before=before, options=options))
    return init


def with_environment(command: list[str], environment: Mapping[str, str]) -> list[str]:
    """The command with this environment and nothing else."""
    words = [f"{name}={value}" for name, value in environment.items()]
    return ["/usr/bin/env", "-i", *words, *command]


def lua(value: str) -> str:
    """A Lua string; JSON's escapes for plain text are Lua's too."""
    return json.dumps(value)


@contextmanager
def scripted_engine(
    rules: list[dict[str, Any]], home: Path, environment: Mapping[str, str]
) -> Generator[None]:
    """The engine with canned answers, where the language server will look for it."""
    script = home / "script.json"
    script.write_text(json.dumps({"rules": rules, "default": {"text": ""}}))
    with running_engine(["--backend", "scripted", "--script", str(script)], home, environment):
        yield


@contextmanager
def running_engine(
    arguments: list[str], home: Path, environment: Mapping[str, str]
) -> Generator[None]:
    """`composer-lsp engine` with these arguments, where the language server will look for it."""
    log = home / "engine.log"
    command = [server_program(), "engine", *arguments]
    ready = Path(environment["COMPOSER_RUNTIME_DIR"]) / "engine.sock"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        wait_for("the engine's socket", lambda: ready.exists() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield
    finally:
        process.terminate()
        process.wait(timeout=LIMIT_S)


def drain_engine(runtime: Path) -> None:
    """Asks the engine that the language server started, where there is one, to leave."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(runtime / "engine.sock"))
        except (FileNotFoundError, ConnectionRefusedError):
            return
        connection.sendall(b"POST /composer/drain HTTP/1.0\r\nContent-Length: 0\r\n\r\n")
        connection.recv(1024)


def server_program() -> str:
    """`composer-lsp` of the environment that runs the tests."""
    return os.environ.get("COMPOSER_TEST_PROGRAM", f"{sys.prefix}/bin/composer-lsp")


def user_environment(home: Path, runtime: Path) -> dict[str, str]:
    """The environment of a user with an empty home, in the virtual environment of `composer-lsp`."""
    prefix = Path(server_program()).parent.parent
    return {
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "PATH": "/usr/bin:/bin",
        "VIRTUAL_ENV": str(prefix),
        "COMPOSER_RUNTIME_DIR": str(runtime),
        **{f"COMPOSER_{kind}_DIR": str(home / kind.lower()) for kind in ("DATA", "CACHE", "STATE")},
    }


@contextmanager
def short_folder() -> Generator[Path]:
    """A folder whose path leaves room for a Unix socket's name, which the system limits."""
    folder = Path(tempfile.mkdtemp(prefix="c-"))
    try:
        yield folder
    finally:
        drain_engine(folder)
        shutil.rmtree(folder, ignore_errors=True)
