"""The process's standard streams, kept for the protocol alone, and the death of the client.

Reading blocks in a daemon thread on the bare file descriptor: at exit no lock of a buffered reader
is held and no thread pool has to be joined, so a server whose client vanished leaves at once.
"""

import asyncio
import logging
import os
import select
import sys
import threading
from collections.abc import Callable

from composer_lsp.server.framing import FrameReader, FramingError

logger = logging.getLogger(__name__)

_CHUNK_BYTES = 1 << 16
_POLL_S = 2.0
_GRACE_S = 3.0
"""Longest that closing down may take before the process is ended."""


def take_streams() -> tuple[int, int]:
    """File descriptors for the protocol's input and output.

    From here on whoever prints, C libraries and child processes included, prints to stderr, and
    whoever reads the standard input finds its end.
    """
    stdin, stdout = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return stdin, stdout


class StdoutWriter:
    """Writes messages; a client that has gone is reported once and otherwise ignored."""

    def __init__(self, descriptor: int, on_gone: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._on_gone = on_gone
        self._is_gone = False

    def write(self, data: bytes) -> None:
        if self._is_gone:
            return
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError as error:
            self._is_gone = True
            logger.info("the client reads no more: %s", error.strerror)
            self._on_gone()

    def close(self) -> None:
        """Nothing is buffered; the descriptor goes with the process."""


def read_in_thread(
    descriptor: int,
    loop: asyncio.AbstractEventLoop,
    on_item: Callable[[bytes | FramingError], None],
    on_end: Callable[[], None],
) -> None:
    """Call `on_item` on the loop with each message body, in order, and `on_end` at the end."""

    def read() -> None:
        frames = FrameReader()
        while data := _read(descriptor):
            for item in frames.feed(data):
                if not _call(loop, on_item, item):
                    return
        _leave(loop, on_end)

    threading.Thread(target=read, name="stdin", daemon=True).start()


def watch_process(
    process_id: int, loop: asyncio.AbstractEventLoop, on_death: Callable[[], None]
) -> None:
    """Call `on_death` on the loop once the process has ended. One that cannot be found, such as a
    client in another container, is not watched: the end of stdin tells of its death."""

    def watch() -> None:
        if _wait_for_death(process_id):
            logger.info("the client's process %d has ended", process_id)
            _leave(loop, on_death)
        else:
            logger.info("the client's process %d cannot be watched", process_id)

    threading.Thread(target=watch, name="client-watch", daemon=True).start()


def end_process_later(code: int) -> None:
    """Make sure that the process ends, even while something blocks the way out: the loop, a thread,
    or the log, which is why this writes none."""
    timer = threading.Timer(_GRACE_S, os._exit, (code,))
    timer.daemon = True
    timer.start()


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _CHUNK_BYTES)
    except OSError as error:
        logger.info("cannot read from the client: %s", error.strerror)
        return b""


def _wait_for_death(process_id: int) -> bool:
    if hasattr(os, "pidfd_open"):
        try:
            process = os.pidfd_open(process_id)
        except OSError:
            return False
        # A descriptor of a process, unlike its number, cannot come to mean another process, and
        # it tells of a zombie's death.
        poller = select.poll()
        poller.register(process, select.POLLIN)
        poller.poll()
        return True
    return _poll_for_death(process_id)


def _poll_for_death(process_id: int) -> bool:
    import psutil  # Loaded only where there is no better way.

    try:
        process = psutil.Process(process_id)
    except psutil.Error:
        return False
    pause = threading.Event()
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        pause.wait(_POLL_S)
    return True


def _leave(loop: asyncio.AbstractEventLoop, on_gone: Callable[[], None]) -> None:
    end_process_later(1)
    _call(loop, on_gone)


def _call(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *args: object) -> bool:
    try:
        loop.call_soon_threadsafe(function, *args)
    except RuntimeError:  # The loop has closed: the server is on its way out.
        return False
    return True
