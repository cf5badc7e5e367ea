"""Which file is being parsed, on disk, so that one that kills the process is known afterwards.

Grammars are C code that is fed whatever lies in a workspace; a fault in one ends the process.
"""

import os
from contextlib import suppress
from pathlib import Path

MAX_NUM_DEATHS = 2
"""A process that ended while it parsed a file may have been killed by chance, but hardly twice."""


class ParsingJournal:
    """For the store's writer. Losing it costs nothing but a second death: on a full disk there is
    none."""

    def __init__(self, folder: Path) -> None:
        """`folder`: the store's own."""
        self._file: int | None = None
        data = b""
        with suppress(OSError):
            self._file = os.open(folder / "parsing", os.O_RDWR | os.O_CREAT, 0o600)
            data = os.pread(self._file, 1 << 16, 0)
        count, _, name = data.partition(b"\n")
        self._suspect = os.fsdecode(name)
        self._num_deaths = int(count) if count.isdigit() else 0

    def is_deadly(self, path: str) -> bool:
        """Whether processes died while they parsed this file."""
        return self._deaths_of(path) >= MAX_NUM_DEATHS

    def begin(self, path: str) -> None:
        """Note what is parsed from now on."""
        self._write(b"%d\n%s" % (self._deaths_of(path) + 1, os.fsencode(path)))

    def end(self) -> None:
        """Nothing is parsed any more. A file that is deadly stays known."""
        if self._num_deaths >= MAX_NUM_DEATHS:
            self._write(b"%d\n%s" % (self._num_deaths, os.fsencode(self._suspect)))
        else:
            self._write(b"")

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)

    def _deaths_of(self, path: str) -> int:
        return self._num_deaths if path == self._suspect else 0

    def _write(self, data: bytes) -> None:
        if self._file is not None:
            with suppress(OSError):
                os.ftruncate(self._file, os.pwrite(self._file, data, 0))
