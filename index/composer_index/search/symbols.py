"""Definitions by a part of their name, as `workspace/symbol` asks for them."""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from composer_index.search.shadow import Shadow
from composer_index.store.records import FoundDefinition
from composer_index.store.sql import quote

if TYPE_CHECKING:
    from composer_index.store.store import Store

_MAX_SCANNED = 500
"""Definitions of one kind of match that are ranked."""
_MAX_QUERY = 100
"""Characters: beyond, nothing is named so."""


def find_symbols(
    store: "Store", shadow: Shadow, query: str, limit: int = 100
) -> list[FoundDefinition]:
    """Returns definitions whose name, or with a dot whose symbol, matches: equal first, then those
    that begin with `query`, then by the humps of camel case or of snake case (`gQS`, `gqs` for
    `get_query_set`), then those that have its letters in order."""
    wanted = re.sub(r"[^\w.$]", "", query)[:_MAX_QUERY]
    column = "symbol" if "." in wanted else "name"
    patterns = _patterns(wanted)
    # Whatever matches at all matches the last pattern: where that finds few, one scan is enough.
    every = _stored(store, column, patterns[-1])
    found: dict[tuple[str, str, int], FoundDefinition] = {}
    for pattern in patterns:
        if len(every) < _MAX_SCANNED:
            matched = _matching(every, column, pattern)
        else:
            matched = _stored(store, column, pattern)
        kept = [each for each in matched if each.path not in shadow.files]
        kept += _matching(shadow.found_definitions(), column, pattern)
        for each in sorted(kept, key=_order(wanted)):
            found.setdefault((each.path, each.symbol, each.start_line), each)
        if len(found) >= limit:
            break
    return list(found.values())[:limit]


def _stored(store: "Store", column: str, pattern: str) -> list[FoundDefinition]:
    return store.definitions_where(f"regexp_like({column}, {quote(pattern)})", _MAX_SCANNED)


def _patterns(wanted: str) -> list[str]:
    """From exact to loose; valid in Rust and in Python."""
    if not wanted:
        return [".*"]
    letters = [re.escape(char) for char in wanted]
    humps = re.findall(r"[A-Z]?[a-z0-9.$]+|[A-Z]", wanted) or [wanted]
    return [
        f"^{re.escape(wanted)}$",
        f"(?i)^_*{re.escape(wanted)}",
        "^_*" + "[a-z0-9_]*?".join(f"(?:{_either(hump)})" for hump in humps),
        "(?i)^_*" + "(?:[a-z0-9]*_)+".join(letters),
        f"(?i){re.escape(wanted)}",
        "(?i)" + ".*".join(letters),
    ]


def _either(hump: str) -> str:
    """A hump begins with a capital, or with a small letter at the start or after `_`."""
    rest = re.escape(hump[1:])
    return f"{re.escape(hump[0].upper())}{rest}|{re.escape(hump[0].lower())}{rest}"


def _order(wanted: str) -> Callable[[FoundDefinition], tuple[bool, int, str, int]]:
    return lambda each: (
        not each.name.startswith(wanted),
        len(each.name),
        each.path,
        each.start_line,
    )


def _matching(
    definitions: Sequence[FoundDefinition], column: str, pattern: str
) -> list[FoundDefinition]:
    search = re.compile(pattern).search
    return [each for each in definitions if search(getattr(each, column))]
