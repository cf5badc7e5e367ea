"""What the simulation needs of an editor with ghost text."""

import asyncio
from dataclasses import dataclass
from typing import Protocol

from bench.tab.typing.texts import Typed


@dataclass(frozen=True, kw_only=True, slots=True)
class Tokens:
    """That an engine has computed."""

    prefill: int
    decoded: int

    def __sub__(self, other: "Tokens") -> "Tokens":
        return Tokens(prefill=self.prefill - other.prefill, decoded=self.decoded - other.decoded)


class Client(Protocol):
    changed: asyncio.Event
    """Set whenever `ghost` is another text; whoever waits clears it."""

    @property
    def ghost(self) -> str:
        """What is shown behind the cursor; empty for nothing."""
        ...

    async def open(self, typed: Typed) -> None:
        """Open the file at the place, and wait until the model is warm there."""
        ...

    def press(self, text: str) -> None:
        """A key that types this, or with an empty text Backspace."""
        ...

    def accept(self, text: str) -> None:
        """Take the ghost, or its first lines."""
        ...

    async def tokens(self) -> Tokens:
        """So far, of requests that have ended."""
        ...

    async def rest(self) -> None:
        """Wait until nothing is asked any more."""
        ...
