"""Imports of large libraries without the parts that nobody here uses."""

import functools
import importlib
import sys
from types import ModuleType

import attrs

_TYPES = "lsprotocol.types"


def import_lsp_types() -> None:
    """Import `lsprotocol.types` in half its time; to be called before anything of pygls is imported.

    Half of a pygls server's start-up is attrs compiling `__eq__` and `__repr__` for the 554 classes
    of that module. Nothing here compares or prints them (`Position` and `Range` define both by
    hand), so they are left out: 240 ms become 150 on two slow cores. As a bonus no log line can
    print a message's source text by accident.
    """
    if _TYPES in sys.modules:
        return
    define = attrs.define
    attrs.define = functools.partial(define, eq=False, repr=False)
    try:
        importlib.import_module(_TYPES)
    finally:
        attrs.define = define


def import_agent() -> ModuleType:
    """Import what runs the agent: 0.2 s, and many windows never ask it anything."""
    import_engine_service()
    return importlib.import_module("composer_lsp.server.agent.runs")


def import_next_edit() -> ModuleType:
    """Import what finds the next edit, tree-sitter above all."""
    import_engine_service()
    return importlib.import_module("composer_lsp.server.next_edit.search")


def import_engine_service() -> ModuleType:
    """Import what talks to the engine, httpx above all: 0.1 s, so not before `initialize` is
    answered, and not on the loop's thread."""
    # httpx's command line brings in rich, click and pygments (6 MB) where they are installed. It is
    # optional: httpx takes its absence as "not installed".
    sys.modules.setdefault("httpx._main", None)  # pyright: ignore[reportArgumentType]
    return importlib.import_module("composer_lsp.server.engine_service")
