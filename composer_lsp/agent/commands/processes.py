"""The processes of a command, wherever they have gone, and how they are ended.

In a sandbox they are all descendants of the process that was started, and its namespace ends with
it. Outside, a daemon leaves its group and its parent; it is known by a variable in its environment.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Iterable, Sequence

import psutil

MARK = "COMPOSER_COMMAND_ID"
_KILL_S = 2


def descendants(pid: int) -> list[psutil.Process]:
    """Without the process itself. Reads the whole table of processes: milliseconds."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def marked(mark: str, without_pid: int) -> list[psutil.Process]:
    """Processes of this user whose environment holds the mark: daemons, unless they have emptied
    their environment. Reads that of each process: about 50 µs. `without_pid`: our own child, which
    nobody else may wait for."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != without_pid and process.environ().get(MARK) == mark:
                found.append(process)
    return found


def num_on_machine() -> int:
    return len(psutil.pids())


def num_in_group(pid: int) -> int:
    """Processes that descend from a process or are in its session."""
    pids = {process.pid for process in descendants(pid)}
    for process in psutil.process_iter():
        with contextlib.suppress(OSError):
            if sys.platform != "win32" and os.getsid(process.pid) == pid:
                pids.add(process.pid)
    return len(pids)


def ask_to_end(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.terminate()


def kill_and_wait(processes: Sequence[psutil.Process]) -> None:
    """Waits until they have ended, or for as long as a kill may take."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(processes, timeout=_KILL_S)


def signal_group(pid: int, *, kill: bool) -> None:
    """The whole process group at once, so that none of it can start another meanwhile."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL if kill else signal.SIGTERM)
