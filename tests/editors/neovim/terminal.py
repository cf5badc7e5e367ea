"""Neovim in a terminal, as a person sees it: keys go in by tmux, and the screen comes out."""

import io
import shlex
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from rich.console import Console
from rich.text import Text

from .harness import LIMIT_S, SCREENSHOTS, wait_for, with_environment

COLUMNS, ROWS = 88, 24


class Terminal:
    """A tmux server of its own with one window."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def tmux(self, *words: str) -> str:
        command = ["tmux", "-S", str(self._socket), "-f", "/dev/null", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def keys(self, *keys: str) -> None:
        """Presses keys by tmux's names."""
        self.tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        self.tmux("send-keys", "-l", text)

    @property
    def screen(self) -> str:
        return self.tmux("capture-pane", "-p")

    def wait_screen(self, *texts: str, limit_s: float = LIMIT_S) -> None:
        wait_for(
            f"{texts} on the screen",
            lambda: all(text in self.screen for text in texts),
            lambda: self.screen,
            limit_s,
        )

    def wait_gone(self, text: str) -> None:
        wait_for(f"no {text!r}", lambda: text not in self.screen, lambda: self.screen)

    def save_screenshot(self, name: str) -> Path:
        """The screen with its colours as build/screenshots/NAME.svg."""
        console = Console(record=True, width=COLUMNS, file=io.StringIO())
        console.print(Text.from_ansi(self.tmux("capture-pane", "-e", "-p")))
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        picture = SCREENSHOTS / f"{name}.svg"
        # It is a part of CSS selectors, where a dot means something else.
        console.save_svg(str(picture), title="Neovim", unique_id=name.replace(".", "-"))
        return picture


@contextmanager
def terminal(
    folder: Path, command: Sequence[str], environment: Mapping[str, str]
) -> Generator[Terminal]:
    """Runs a command in a terminal; `folder` has to be short, for tmux's socket."""
    opened = Terminal(folder / "tmux.sock")
    size = ["-x", str(COLUMNS), "-y", str(ROWS)]
    words = shlex.join(with_environment(list(command), environment))
    opened.tmux("new-session", "-d", *size, words)
    # Colours as programs write them, not the nearest of 256.
    opened.tmux("set-option", "-sa", "terminal-features", ",*:RGB")
    try:
        yield opened
    finally:
        with suppress(subprocess.CalledProcessError):  # The program may have ended.
            opened.tmux("kill-server")
