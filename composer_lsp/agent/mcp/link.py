"""What is known of the connection to a server: whether it has ended, and how."""

import asyncio


class Link:
    """Event loop only."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.reason = ""
        """Why we give it up. Empty: it ended by itself, or has not ended."""
        self.exit_status: int | None = None
        self.stderr = b""
        """The end of what the server wrote there."""

    def end(self, reason: str = "") -> None:
        """The first reason stays."""
        if not self.ended.is_set():
            self.reason = reason
            self.ended.set()
