"""Questions in a terminal that a key answers."""

import asyncio
import os
import sys

from composer_index.printable import printable


def can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


async def confirmed(question: str) -> bool:
    """A yes-or-no question. No where nobody can answer."""
    if not can_ask():
        return False
    is_agreed = (await read_key(f"{printable(question)} [y/N] ")).lower() == "y"
    print("yes" if is_agreed else "no", file=sys.stderr)
    return is_agreed


async def read_key(prompt: str) -> str:
    """One key from the terminal; empty at the end of input. May be cancelled."""
    try:
        import termios
        import tty
    except ImportError:  # Windows
        print(prompt, end="", file=sys.stderr, flush=True)
        return (await asyncio.to_thread(sys.stdin.readline))[:1]
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    ready = asyncio.Event()
    loop = asyncio.get_running_loop()
    try:
        # Keys that were pressed before the question are no answer to it.
        tty.setcbreak(descriptor, termios.TCSAFLUSH)
        print(prompt, end="", file=sys.stderr, flush=True)
        loop.add_reader(descriptor, ready.set)
        await ready.wait()
        return os.read(descriptor, 1).decode("ascii", "replace")
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
