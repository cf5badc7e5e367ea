"""Runs taking turns in a workspace whose disk their commands change.

A sandbox covers secrets at paths that were looked up a moment before. What runs meanwhile could move
one of them away, so that it stays uncovered. A run knows of its own commands; of those of another
run, in this process or in another, only a lock tells.
"""

import asyncio
import hashlib
import logging
import os
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from composer_lsp.agent.commands.bubblewrap import SandboxError

logger = logging.getLogger(__name__)

WAIT_S = 60.0
_LOOK_S = 0.05


class Turns:
    """Of one run. For the event loop."""

    def __init__(self, roots: Sequence[Path], folder: Path, *, wait_s: float = WAIT_S) -> None:
        """`folder`: for the locks; that of the user's state. `wait_s`: for the commands of others."""
        self._roots = roots
        self._folder = folder
        self._wait_s = wait_s
        self._num_taken = 0
        self._descriptors: list[int] = []
        self._taking = asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        """Raises: as `take`."""
        await self.take()
        try:
            yield
        finally:
            self.give()

    async def take(self) -> None:
        """Wait until no other run has a command in the workspace, or in a folder around it or below.
        Ours may be several. Raises: SandboxError when the wait is too long."""
        async with self._taking:
            if self._num_taken == 0:
                await self._lock()
            self._num_taken += 1

    def give(self) -> None:
        self._num_taken -= 1
        if self._num_taken == 0:
            self._unlock()

    async def _lock(self) -> None:
        try:
            async with asyncio.timeout(self._wait_s):
                while not self._try():
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError as error:
            raise SandboxError(
                "not run: a command of another run has not ended in this workspace, and without an overlay "
                "two at once could uncover secrets; stop the other run, or try again when it has ended"
            ) from error

    def _try(self) -> bool:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path, is_shared in _locks(self._roots):
                name = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
                self._descriptors.append(
                    os.open(self._folder / name, os.O_RDWR | os.O_CREAT, 0o600)
                )
                _flock(self._descriptors[-1], is_shared=is_shared)
        except BlockingIOError:
            self._unlock()
            return False
        except OSError as error:  # a file system without locks
            logger.warning(
                "%s cannot be locked: %s", error.filename or self._folder, error.strerror
            )
        return True

    def _unlock(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.pop())


def _locks(roots: Sequence[Path]) -> Iterator[tuple[Path, bool]]:
    """The roots, and the folders around them, which are shared with runs beside."""
    around = {parent for root in roots for parent in root.parents}
    for path in sorted({*around, *roots}):
        yield path, path not in roots


def _flock(descriptor: int, *, is_shared: bool) -> None:
    """Until it is closed. Raises: BlockingIOError where another has it."""
    if sys.platform == "win32":
        return
    import fcntl

    fcntl.flock(descriptor, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
