"""Questions in a terminal that a key answers."""

import asyncio
import os
import signal
import sys
from contextlib import suppress

from composer_index.printable import printable


def can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def stop_at_signals() -> None:
    """Cancel the task that calls it when the process is asked to end, as Ctrl-C does, unless that is
    ignored (`nohup`) or handled. Until its event loop is closed."""
    task = asyncio.current_task()
    assert task is not None, "called outside of a task"
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            with suppress(NotImplementedError):  # Windows
                asyncio.get_running_loop().add_signal_handler(number, task.cancel)


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
    except asyncio.CancelledError:
        with suppress(OSError):
            print(file=sys.stderr)
        raise
    finally:
        loop.remove_reader(descriptor)
        with suppress(termios.error):  # the terminal has gone
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
