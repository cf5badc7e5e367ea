"""Closing what others may still be in the middle of using."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager


class Users:
    """Counts who uses something that is closed behind the last of them."""

    def __init__(self, close: Callable[[], Awaitable[None]]) -> None:
        self._close = close
        self._number = 0
        self._is_retired = False

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[None, None]:
        self._number += 1
        try:
            yield
        finally:
            self._number -= 1
            if self._is_retired and self._number == 0:
                await self._close()

    async def retire(self) -> None:
        """Close once the last user has ended; nobody new comes."""
        self._is_retired = True
        if self._number == 0:
            await self._close()
