"""Searches that a turn asks for at the same time, made in one pass over the files.

What takes the time of a search is to open thousands of files. One run of ripgrep finds the lines that
match any of the patterns; which of them a line matches, ripgrep says again, of those lines alone.
"""

import asyncio
import os
import re
import subprocess
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, islice
from typing import Any

Found = list[tuple[str, int, str]]
"""Paths below the folder, lines, texts with their ends."""

_Hit = tuple[bytes, int, bytes]

_FILES = ("--null", "--line-number", "--no-heading", "--with-filename", "--color=never")
_LINES = ("--text", "--line-number", "--no-heading", "--no-filename", "--color=never")
_IS_BINARY = re.compile(rb'[^\0]+: binary file matches \(found "\\0" byte around offset \d+\)')
_OF_WHOLE_TEXT = re.compile(r"\\[Az]|\(\?[a-zA-Z]*R")
"""What means something else in a line alone."""
_IGNORE_CASE = "--ignore-case"
_LITERALS = re.compile(r"""[A-Za-z0-9_ "'=:;,/<>@%&~!`-]+(?:\|[A-Za-z0-9_ "'=:;,/<>@%&~!`-]+)*""")
"""A pattern that matches its alternatives and nothing else."""
_MAX_BYTES = 8_000_000
"""Of the lines that match any pattern; where there are more, each pattern is searched alone."""


@dataclass(frozen=True, slots=True)
class Pass:
    """What one run of ripgrep looks at."""

    command: Sequence[str]
    """The program and its options, but for the pattern and how it prints."""
    folder: str
    target: str
    max_hits: int
    """Of each pattern, those that come first."""


@dataclass(slots=True)
class _Batch:
    patterns: list[str] = field(default_factory=list[str])
    task: "asyncio.Task[Together | None] | None" = None
    num_waiting: int = 0


class Together:
    """What several searches found."""

    def __init__(self, hits: "dict[str, Found]") -> None:
        self.hits = hits
        """By pattern."""
        self.paths = {path for found in hits.values() for path, _, _ in found}
        self._hidden: asyncio.Task[set[str]] | None = None

    async def hidden(self, ask: Callable[[set[str]], Coroutine[Any, Any, set[str]]]) -> set[str]:
        """The answer for all paths, asked once."""
        self._hidden = self._hidden or asyncio.create_task(ask(self.paths))
        return await asyncio.shield(self._hidden)


class _AloneError(Exception):
    """The patterns cannot be searched together."""


_batches: dict[tuple[int, Pass], _Batch] = {}
"""Of this round of an event loop, by the loop."""


async def search_together(of: Pass, pattern: str) -> Together | None:
    """None: nothing else was asked for at the same time, or the patterns do not go together, and this
    one has to be searched alone."""
    key = (id(asyncio.get_running_loop()), of)
    batch = _batches.setdefault(key, _Batch())
    batch.patterns.append(pattern)
    task = batch.task = batch.task or asyncio.create_task(_begun(key, batch))
    batch.num_waiting += 1
    try:
        return await asyncio.shield(task)
    finally:
        batch.num_waiting -= 1
        if not batch.num_waiting and not task.done():
            task.cancel()
            await asyncio.wait([task])


async def _begun(key: tuple[int, Pass], batch: _Batch) -> Together | None:
    try:
        await asyncio.sleep(0)  # Calls of one turn come to here in the same round of the loop.
    finally:
        del _batches[key]
    patterns = list(dict.fromkeys(batch.patterns))
    if len(patterns) == 1 or any(_OF_WHOLE_TEXT.search(pattern) for pattern in patterns):
        return None
    try:
        return Together(await _found(key[1], patterns))
    except _AloneError:
        return None


async def _found(of: Pass, patterns: Sequence[str]) -> dict[str, Found]:
    command = [*of.command, *_FILES]
    for pattern in patterns:
        command += ["-e", pattern]
    lines = await asyncio.to_thread(_Lines, await _output([*command, "--", of.target], of.folder))
    has_case = _IGNORE_CASE not in of.command
    literals = {each for each in patterns if has_case and _LITERALS.fullmatch(each)}
    others = [pattern for pattern in patterns if pattern not in literals]
    # The first begins ripgrep, and what the second does is done while it runs.
    parts = await asyncio.gather(
        _with_patterns(of, lines, others), _with_literals(of, lines, literals)
    )
    chosen = {pattern: found for part in parts for pattern, found in part.items()}
    return {pattern: [_decoded(hit) for hit in found] for pattern, found in chosen.items()}


async def _with_patterns(
    of: Pass, lines: "_Lines", patterns: Sequence[str]
) -> dict[str, list[_Hit]]:
    if not patterns:
        return {}
    with tempfile.NamedTemporaryFile(prefix="composer-grep-") as file:
        # An empty line first: the mark of an encoding counts at the beginning alone.
        file.write(b"\n" + lines.texts)
        file.flush()
        numbers = await asyncio.gather(*(_numbers(of, pattern, file.name) for pattern in patterns))
    return {
        pattern: [lines.hit(number - 2) for number in found if number > 1]
        for pattern, found in zip(patterns, numbers, strict=True)
    }


async def _with_literals(
    of: Pass, lines: "_Lines", patterns: Iterable[str]
) -> dict[str, list[_Hit]]:
    return {
        pattern: lines.with_literals(pattern.encode().split(b"|"), of.max_hits)
        for pattern in patterns
    }


async def _numbers(of: Pass, pattern: str, path: str) -> list[int]:
    """The lines of the file that match."""
    # One more than is wanted: the first line is none of the hits.
    options = [*_LINES, f"--max-count={of.max_hits + 1}", "-e", pattern]
    output = await _output([*of.command, *options, "--", path], of.folder)
    return [int(line.partition(b":")[0]) for line in output.split(b"\n")[:-1]][: of.max_hits + 1]


class _Lines:
    """What one run of ripgrep found, of which only the lines that are wanted are taken apart."""

    def __init__(self, output: bytes) -> None:
        """Raises: _AloneError for what cannot be told apart, such as a path with a line end in it."""
        if output.count(b"\n") != output.count(b"\0"):
            output = b"".join(b"%s\n" % line for line in output.split(b"\n") if _is_hit(line))
        self._output = output
        self._lines = output.split(b"\n")[:-1]

    @property
    def texts(self) -> bytes:
        """The lines' own texts, each with its end."""
        return b"".join(
            b"%s\n" % line.partition(b"\0")[2].partition(b":")[2] for line in self._lines
        )

    def hit(self, index: int) -> _Hit:
        """Raises: _AloneError."""
        path, _, rest = self._lines[index].partition(b"\0")
        number, _, text = rest.partition(b":")
        if not number.isdigit():
            raise _AloneError
        return path, int(number), text

    def with_literals(self, literals: Sequence[bytes], max_hits: int) -> list[_Hit]:
        """Raises: _AloneError."""
        found = {
            index: hit for each in literals for index, hit in islice(self._with(each), max_hits)
        }
        return [found[index] for index in sorted(found)[:max_hits]]

    def _with(self, literal: bytes) -> Iterator[tuple[int, _Hit]]:
        """The lines in whose texts it stands, by their indices."""
        starts = self._starts
        at = self._output.find(literal)
        while at >= 0:
            index = bisect_right(starts, at) - 1
            hit = self.hit(index)
            if literal in hit[2]:
                yield index, hit
            end = starts[index + 1] if index + 1 < len(starts) else len(self._output)
            at = self._output.find(literal, end)

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *accumulate(len(line) + 1 for line in self._lines[:-1])]


def _is_hit(line: bytes) -> bool:
    """Raises: _AloneError."""
    if b"\0" in line:
        return True
    if line and _IS_BINARY.fullmatch(line) is None:
        raise _AloneError
    return False


def _decoded(hit: _Hit) -> tuple[str, int, str]:
    path, number, text = hit
    return path.decode("utf-8", "replace"), number, text.decode("utf-8", "replace")


async def _output(command: Sequence[str], folder: str) -> bytes:
    """Raises: _AloneError if it is too much, or ripgrep refuses."""
    process = subprocess.Popen(  # noqa: ASYNC220 - it is read in a thread
        [os.fsencode(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
    )
    try:
        # ripgrep writes file by file, and an event loop would wake up for each of them.
        return await asyncio.to_thread(_read, process)
    finally:
        process.kill()


def _read(process: subprocess.Popen[bytes]) -> bytes:
    """Raises: as `_output`."""
    assert process.stdout is not None
    with process:
        output = process.stdout.read(_MAX_BYTES + 1)
        if len(output) > _MAX_BYTES:
            process.kill()
            raise _AloneError
    # 2 is an error: of a pattern, which then says itself, or of a file that cannot be read.
    if process.returncode == 2 and not output:
        raise _AloneError
    return output
