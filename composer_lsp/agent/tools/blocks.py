"""What ripgrep prints of many files, as it comes: of each file the path, and its lines below."""

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import IO

OPTIONS = ("--null", "--line-number", "--heading", "--with-filename", "--color=never")
"""That it is to be run with."""

Line = tuple[int, bytes]
"""Its number, and its text without its end."""

_BYTES = 1 << 16
_END = b"\n\n"
"""Of a file's lines, but for the last file. No line looks like it: each has a number."""


class OddOutputError(Exception):
    """It cannot be taken apart."""


class Block:
    """The lines of some files."""

    def __init__(self, output: bytes, paths: Sequence[str], starts: Sequence[int]) -> None:
        """`output`: each line with its number, a colon, and its end. `paths`: relative to the folder
        that was searched in, with `/` between their parts. `starts`: where the lines of each begin.
        """
        self._output = output
        self._paths = paths
        self._starts = starts

    @cached_property
    def lines(self) -> list[bytes]:
        return self._output.split(b"\n")[:-1]

    @cached_property
    def paths(self) -> list[str]:
        """Of each line."""
        ends = [*self._starts[1:], len(self._output)]
        files = zip(self._paths, self._starts, ends, strict=True)
        counts = ((path, self._output.count(b"\n", start, end)) for path, start, end in files)
        return [path for path, num_lines in counts for _ in range(num_lines)]

    @cached_property
    def texts(self) -> bytes:
        """The lines' own texts, each with its end."""
        return b"\n".join([*(line.partition(b":")[2] for line in self.lines), b""])

    def with_text(self, text: bytes) -> Iterator[tuple[int, str, Line]]:
        """The lines with it, by where they begin, and their paths. Raises: OddOutputError."""
        at = self._output.find(text)
        while at >= 0:
            start, end = self._output.rfind(b"\n", 0, at) + 1, self._output.find(b"\n", at)
            number, line = parsed(self._output[start:end])
            if text in line:
                yield start, self._paths[bisect_right(self._starts, start) - 1], (number, line)
            at = self._output.find(text, end)


def blocks(output: IO[bytes], max_bytes: int) -> Iterator[Block]:
    """Raises: OddOutputError, also if it is more than that."""
    num_bytes, begun = 0, b""
    while read := output.read(_BYTES):
        num_bytes += len(read)
        if num_bytes > max_bytes:
            raise OddOutputError
        whole, end, rest = read.rpartition(_END)
        if end:
            yield _block(begun + whole)
        begun = rest if end else begun + rest
    if begun:
        yield _block(begun.removesuffix(b"\n"))


def _block(output: bytes) -> Block:
    paths: list[str] = []
    starts: list[int] = []
    lines_of_all: list[bytes] = []
    start = 0
    for file in output.split(_END):
        path, null, lines = file.partition(b"\0")
        if not null or b"\n" in path:
            raise OddOutputError
        if lines.startswith(path + b": ", last := lines.rfind(b"\n") + 1):
            lines = lines[: max(0, last - 1)]  # It says that the file is binary.
        paths.append(relative(path.decode("utf-8", "replace")))
        starts.append(start)
        lines_of_all.append(lines)
        start += len(lines) + 1
    return Block(b"\n".join([*lines_of_all, b""]), paths, starts)


def parsed(line: bytes) -> Line:
    """Raises: OddOutputError."""
    number, _, text = line.partition(b":")
    if not number.isdigit():
        raise OddOutputError
    return int(number), text


def relative(path: str) -> str:
    """To the folder that was searched in, of a path as ripgrep writes it."""
    return os.path.normpath(path).replace(os.sep, "/")
