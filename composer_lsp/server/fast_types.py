"""Imports `lsprotocol.types` in half its time; called before anything of pygls is imported.

Half of a pygls server's start-up is attrs compiling `__eq__` and `__repr__` for the 554 classes of
that module. Nothing here compares or prints them (`Position` and `Range` define both by hand), so
they are left out: 240 ms become 150 on two slow cores. As a bonus no log line can print a message's
source text by accident.
"""

import functools
import sys

import attrs


def import_types() -> None:
    """Import the module unless it has been imported already."""
    if "lsprotocol.types" in sys.modules:
        return
    define = attrs.define
    attrs.define = functools.partial(define, eq=False, repr=False)
    try:
        pass  # pyright: ignore[reportUnusedImport]
    finally:
        attrs.define = define
