"""Who goes first when several requests want the machine."""

from enum import IntEnum


class Priority(IntEnum):
    """A higher one pre-empts a lower one."""

    BACKGROUND = 0
    """Embedding and indexing."""
    AGENT = 1
    TAB = 2
    """A user waits at the cursor."""
