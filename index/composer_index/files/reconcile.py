"""What has changed since the index was last told: the truth, where events are hints."""

from collections.abc import Iterable
from dataclasses import dataclass

from composer_index.files.listing import File

TICK_NS = 2 * 10**9
"""The coarsest step of a file's times, FAT's. A file that was read within it of its last change may
have changed again, at the same size, without its time showing it."""

UNSETTLED = 0
"""In place of a time: the file is to be looked at again."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    changed: tuple[File, ...]
    """New ones, and ones that may have changed: who has their contents' hashes compares them."""
    gone: tuple[str, ...]


def reconcile(known: Iterable[tuple[str, int, int]], files: Iterable[File]) -> Difference:
    """`known`: path, size in bytes and what `settled` made of its time when it was indexed. Holds
    about 300 bytes for each known file."""
    states = {path: (size, changed_ns) for path, size, changed_ns in known}
    changed: list[File] = []
    for file in files:
        if states.pop(file.path, None) != (file.size, file.changed_ns):
            changed.append(file)  # noqa: PERF401 - the states are used up meanwhile
    return Difference(changed=tuple(changed), gone=tuple(states))


def settled(changed_ns: int, read_at_ns: int) -> int:
    """The time to remember for a file: `changed_ns` of before it was read, and UNSETTLED if it is
    so late that a later change may bear the same. `read_at_ns`: of the clock, before reading."""
    return changed_ns if changed_ns < read_at_ns - TICK_NS else UNSETTLED
