"""Other ranks that compute nothing: each says what it is told to."""

import os
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any


def follow(replies: dict[int, list[Any]], rank: int, _: Path, pipe: Connection) -> None:
    """`replies`: of each rank, what it sends: the first by itself, the others when it is told
    something. With a number it ends, as its exit code."""
    first, *others = replies[rank]
    _reply(pipe, first)
    with suppress(EOFError):
        for reply in others:
            pipe.recv()
            _reply(pipe, reply)
        pipe.recv()


def _reply(pipe: Connection, reply: Any) -> None:
    if isinstance(reply, int):
        os._exit(reply)
    pipe.send(reply)
