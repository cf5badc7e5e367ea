"""Which imports a document lacks for a piece of it, by an index of the workspace."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from composer_lsp.auto_import import python, script
from composer_lsp.auto_import.edits import ImportEdit
from composer_lsp.auto_import.names import unbound_names
from composer_lsp.auto_import.trees import SCRIPTS, Tree

logger = logging.getLogger(__name__)

_MAX_NAMES = 4
"""A suggestion with more unknown names is no use of what exists."""
_MAX_BYTES = 1 << 20
_SUFFIXES = {"python": frozenset({".py"})}
_SCRIPT_SUFFIXES = frozenset({".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts"})


class Definitions(Protocol):
    """What of the index is asked."""

    async def definitions(self, name: str) -> Sequence[Mapping[str, Any]]:
        """Where exactly this name is defined: `root`, `path`, `symbol` and more of each place."""
        ...


@dataclass(frozen=True, slots=True)
class Wanted:
    """A name that nothing binds, and the one file that defines it."""

    name: str
    path: Path
    root: Path


async def wanted(
    index: Definitions, text: str, start: int, end: int, *, path: Path, language_id: str
) -> Sequence[Wanted]:
    """What `text[start:end]` of the document at `path` uses and does not import. A name that is defined
    in several files is left out, because it would be a guess."""
    names = await asyncio.to_thread(unbound_names, text, start, end, language_id)
    found: list[Wanted] = []
    for name in names[:_MAX_NAMES] if len(names) <= _MAX_NAMES else ():
        places = {
            (Path(each["root"]), Path(each["root"], each["path"]))
            for each in await index.definitions(name)
            if each["symbol"] == name and _is_same_language(each["path"], language_id)
        }
        if len(places) == 1:
            ((root, defined),) = places
            if defined != path:
                found.append(Wanted(name, defined, root))
    return found


def edit_for(wanted: Wanted, text: str, *, path: Path, language_id: str) -> ImportEdit | None:
    """What to insert into the document's text; None where the name cannot be imported, or is bound by
    now. Reads the file that defines it."""
    if wanted.name not in unbound_names(text, 0, len(text), language_id):
        return None
    tree = Tree.of(text, language_id)
    if tree is None:
        return None
    if language_id not in SCRIPTS:
        module = python.module_of(wanted.path, root=wanted.root, importer=path, tree=tree)
        return python.import_edit(tree, module, wanted.name) if module else None
    module = script.module_of(wanted.path, importer=path, tree=tree)
    if module is None or not script.is_exported(_read(wanted.path), wanted.name):
        return None
    return script.import_edit(tree, module, wanted.name)


def _is_same_language(path: str, language_id: str) -> bool:
    return Path(path).suffix in _SUFFIXES.get(language_id, _SCRIPT_SUFFIXES)


def _read(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_MAX_BYTES)
    except OSError as error:
        logger.info("no import from %s: %s", path, error.strerror)
        return ""
