"""Searches that a turn asks for at the same time, made in one pass over the files.

What takes the time of a search is to open thousands of files. One run of ripgrep finds the lines that
match any of the patterns. Which of them a line matches, and whether its file is hidden, is told while
it still runs: of plain text here, of anything else by ripgrep again, from those lines alone.
"""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import IO

from composer_lsp.agent.tools.blocks import OPTIONS, Block, Line, OddOutputError, blocks, parsed
from composer_lsp.agent.workspace.paths import Paths

Found = dict[str, list[Line]]
"""The lines of each file, by its path, which is relative to the root."""

_LINES = ("--text", "--line-number", "--no-heading", "--no-filename", "--color=never")
_OF_WHOLE_TEXT = re.compile(r"\\[Az]|\(\?[a-zA-Z]*R")
"""What means something else in a line alone."""
_IGNORE_CASE = "--ignore-case"
_LITERALS = re.compile(r"""[A-Za-z0-9_ "'=:;,/<>@%&~!`-]+(?:\|[A-Za-z0-9_ "'=:;,/<>@%&~!`-]+)*""")
"""A pattern that matches its alternatives and nothing else."""
_PIPE_BYTES = 1 << 20
"""So that ripgrep need not wait for Python."""
_MAX_BYTES = 8_000_000
"""Of the lines that match any pattern; where there are more, each pattern is searched alone."""


@dataclass(frozen=True, slots=True)
class Pass:
    """What one run of ripgrep looks at."""

    command: Sequence[str]
    """The program and its options, but for the pattern and how it prints."""
    paths: Paths
    root: str
    target: str
    """Relative to the root."""
    max_hits: int
    """Of each pattern, those that come first."""


@dataclass(slots=True)
class _Batch:
    patterns: list[str] = field(default_factory=list[str])
    task: "asyncio.Task[Together | None] | None" = None
    num_waiting: int = 0


@dataclass(frozen=True, slots=True)
class Together:
    """What several searches found."""

    hits: dict[str, Found]
    """By pattern."""
    hidden: set[str]
    """Those of the paths that are."""


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
        return await _found(key[1], patterns)
    except OddOutputError:
        return None


async def _found(of: Pass, patterns: Sequence[str]) -> Together:
    """Raises: OddOutputError."""
    options = [*OPTIONS, *(part for pattern in patterns for part in ("-e", pattern))]
    process = _started(of, [*options, "--", of.target], stdout=subprocess.PIPE)
    try:
        # ripgrep writes file by file, and an event loop would wake up for each of them.
        return await asyncio.to_thread(_told_apart, of, patterns, process)
    finally:
        process.kill()


def _told_apart(of: Pass, patterns: Sequence[str], process: subprocess.Popen[bytes]) -> Together:
    """Raises: OddOutputError."""
    files = of.paths.found_files(of.root)
    with ExitStack() as stack:
        _end_with(stack, process)
        has_case = _IGNORE_CASE not in of.command
        searches = {
            pattern: _Literals(of, pattern)
            if has_case and _LITERALS.fullmatch(pattern)
            else _Expression(of, pattern, stack)
            for pattern in patterns
        }
        assert process.stdout is not None
        _widen(process.stdout)
        for block in blocks(process.stdout, _MAX_BYTES):
            for search in searches.values():
                files.add(search.add(block))
        hits = {pattern: search.found() for pattern, search in searches.items()}
        # 2 is an error: of a pattern, which then says itself, or of a file that cannot be read.
        if process.wait() == 2 and not any(hits.values()):
            raise OddOutputError
    for found in hits.values():
        files.add(found)
    return Together(hits, files.hidden())


class _Literals:
    """The search for plain texts."""

    def __init__(self, of: Pass, pattern: str) -> None:
        self._texts = pattern.encode().split(b"|")
        self._num_wanted = of.max_hits
        self._found: Found = defaultdict(list)

    def add(self, block: Block) -> Iterable[str]:
        """The paths that have it. Raises: OddOutputError."""
        if not self._num_wanted:
            return ()
        hits = {
            start: (path, line)
            for text in self._texts
            for start, path, line in islice(block.with_text(text), self._num_wanted)
        }
        wanted = [hits[start] for start in sorted(hits)[: self._num_wanted]]
        self._num_wanted -= len(wanted)
        for path, line in wanted:
            self._found[path].append(line)
        return {path for path, _ in wanted}

    def found(self) -> Found:
        return self._found


class _Expression:
    """The search for anything else, by ripgrep."""

    def __init__(self, of: Pass, pattern: str, stack: ExitStack) -> None:
        self._output = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        # One more than is wanted: the first line is none of the hits.
        options = [*_LINES, f"--max-count={of.max_hits + 1}", "-e", pattern, "--", "-"]
        self._process = _started(of, options, stdin=subprocess.PIPE, stdout=self._output)
        _end_with(stack, self._process)
        self._max_hits = of.max_hits
        self._lines: list[bytes] = []
        self._paths: list[str] = []
        """Of each line."""
        # An empty line first: the mark of an encoding counts at the beginning alone.
        self._feed(b"\n")

    def add(self, block: Block) -> Iterable[str]:
        self._lines += block.lines
        self._paths += block.paths
        self._feed(block.texts)
        return ()

    def found(self) -> Found:
        """Raises: OddOutputError."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self._process.wait() == 2:
            raise OddOutputError
        self._output.seek(0)
        numbers = (int(line.partition(b":")[0]) - 2 for line in self._output)
        found: Found = defaultdict(list)
        for number in islice((number for number in numbers if number >= 0), self._max_hits):
            found[self._paths[number]].append(parsed(self._lines[number]))
        return found

    def _feed(self, data: bytes) -> None:
        assert self._process.stdin is not None
        rest = memoryview(data)
        with suppress(OSError):  # It has found enough, and reads no more.
            while rest:
                rest = rest[self._process.stdin.write(rest) :]


def _started(
    of: Pass, options: Sequence[str], *, stdin: int = subprocess.DEVNULL, stdout: IO[bytes] | int
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [os.fsencode(part) for part in (*of.command, *options)],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        cwd=of.root,
        bufsize=0 if stdin == subprocess.PIPE else -1,
    )


def _end_with(stack: ExitStack, process: subprocess.Popen[bytes]) -> None:
    stack.enter_context(process)
    stack.callback(process.kill)


def _widen(pipe: IO[bytes]) -> None:
    if sys.platform == "linux":
        import fcntl

        with suppress(OSError):  # The user has too many such pipes.
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
