"""The index's worker processes."""

import psutil


def workers_of(process: psutil.Process) -> list[psutil.Process]:
    """Those that a process has started and that still run; it may have other children."""
    return [child for child in process.children() if _is_worker(child)]


def _is_worker(process: psutil.Process) -> bool:
    try:
        return any("composer_index.worker" in word for word in process.cmdline())
    except psutil.Error:  # a zombie, or gone just now
        return False
