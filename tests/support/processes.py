"""The processes that a test has begun."""

import psutil


def children() -> list[psutil.Process]:
    """Of this process, alive; not `multiprocessing`'s tracker of its own, which stays where another
    test has begun processes."""
    return [each for each in psutil.Process().children() if not _is_of_no_matter(each)]


def _is_of_no_matter(process: psutil.Process) -> bool:
    try:
        is_tracker = any("multiprocessing.resource_tracker" in word for word in process.cmdline())
        return is_tracker or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
