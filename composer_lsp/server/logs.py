"""Where the server's log goes: stderr, a file, and the client's own log for what it should know."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

from composer_inference.environment import state_dir

_FORMAT = "%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"
_FILE = "composer-lsp.log"
_MAX_FILE_BYTES = 4 << 20


def log_path() -> Path:
    return state_dir() / _FILE


def set_up_logging(level: str) -> None:
    """Log to stderr and, where it can be written, to the log file that all windows share."""
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    problem = None
    try:
        handlers.append(logging.FileHandler(_opened_path(), encoding="utf-8", delay=True))
    except OSError as error:
        problem = error
    logging.basicConfig(level=level, format=_FORMAT, handlers=handlers, force=True)
    # pygls logs whole messages at INFO: the user's source text.
    if level != "DEBUG":
        logging.getLogger("pygls").setLevel(logging.WARNING)
    if problem is not None:
        logging.getLogger(__name__).warning("no log file: %s", problem)


class ClientLogHandler(logging.Handler):
    """Sends warnings and errors to the client's log; from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, send: Callable[[int, str], None]) -> None:
        super().__init__(logging.WARNING)
        self._loop = loop
        self._send = send

    def emit(self, record: logging.LogRecord) -> None:
        if self._loop.is_closed():
            return
        text = f"{record.name}: {record.getMessage()}"
        if record.exc_info and record.exc_info[1] is not None:
            text += f" ({record.exc_info[1]!r})"
        self._loop.call_soon_threadsafe(self._send, record.levelno, text)


def _opened_path() -> Path:
    path = log_path()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # One generation is kept. A window that is still writing goes on in the file it has open.
    if path.exists() and path.stat().st_size > _MAX_FILE_BYTES:
        path.replace(path.with_suffix(".old.log"))
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    return path
