"""New functions that do what an existing one does: the model is told of both, once."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import PurePosixPath

from composer_index.search.boost import is_test
from composer_lsp.agent.checks.functions import Function, functions_of
from composer_lsp.agent.checks.similar import likeness, names_alike, words_alike
from composer_lsp.agent.edits.change_set import FileChange
from composer_lsp.agent.workspace.paths import PathError
from composer_lsp.agent.workspace.workspace import CodeIndex, Workspace, WorkspaceError
from composer_lsp.index.client import WorkerError

logger = logging.getLogger(__name__)

MIN_BODY = 0.5
"""Likeness of two bodies from which they are taken for the same."""
MIN_BODY_BESIDE = 0.9
"""The same for functions of one class, or of one file: variants are often written beside each
other."""
MIN_NAME, MIN_BODY_NAMED, MIN_WORDS_NAMED = 0.66, 0.2, 0.3
"""Likeness of names, of bodies and of their words from which two functions of much the same name are
taken for the same."""
_MIN_RENAMED = 0.4
"""Likeness of a function that went to one that came, from which it was renamed or moved."""
_MAX_NEW = 10
"""New functions that are looked into at a time."""
_NUM_SEARCHED = 20
_MAX_FILES = 60
"""Whose functions are compared."""
_MAX_QUERY_CHARS = 400


@dataclass(frozen=True, slots=True)
class Duplicate:
    new: Function
    old: Function
    body: float
    """Likeness, from 0 to 1."""

    def __str__(self) -> str:
        why = f"{self.body:.0%} the same" if self.body >= MIN_BODY else "much the same name"
        return (
            f"{self.new.path}:{self.new.line} {self.new.symbol} looks like "
            f"{self.old.path}:{self.old.line} {self.old.symbol} ({why}); use it if it does the same"
        )


class Duplicates:
    """Of one run."""

    def __init__(self, workspace: Workspace, index: CodeIndex | None) -> None:
        self._workspace = workspace
        self._index = index
        self._seen: set[tuple[str, str]] = set()
        self._parsed: dict[str, Sequence[Function]] = {}
        """Of files that the run has not changed."""

    async def found(self, changes: Sequence[FileChange]) -> list[Duplicate]:
        """New functions that were not looked at before, with the most alike existing one."""
        before, after = await asyncio.to_thread(_before_and_after, changes)
        gone = _without(before, _keys(after))
        new = [
            each
            for each in _without(after, _keys(before) | self._seen)
            if not any(likeness(each.shape, old.shape) >= _MIN_RENAMED for old in gone)
        ][:_MAX_NEW]
        if not new:
            return []
        self._seen |= _keys(new)
        changed = {change.path for change in changes} | {
            change.moved_from for change in changes if change.moved_from
        }
        others = await self._others(new, changed)
        earlier = _without(after, _keys(new)) + others
        return await asyncio.to_thread(_closest_of_each, new, earlier)

    async def _others(self, new: Sequence[Function], changed: set[str]) -> list[Function]:
        """Of files that are not changed."""
        paths = dict.fromkeys(await self._paths(new))
        chosen = [path for path in paths if path not in changed and not is_test(path)][:_MAX_FILES]
        return [each for path in chosen for each in await self._functions(path)]

    async def _paths(self, new: Sequence[Function]) -> list[str]:
        if self._index is None:
            return await self._beside(new)
        found = await asyncio.gather(*(self._searched(self._index, each) for each in new))
        # The best of each first.
        return [path for path in chain(*zip_longest(*found)) if path is not None]

    async def _beside(self, new: Sequence[Function]) -> list[str]:
        kinds = {_kind(each.path) for each in new}
        return [path for path in await self._workspace.files() if _kind(path) in kinds]

    async def _searched(self, index: CodeIndex, function: Function) -> list[str]:
        try:
            named = await index.definitions(function.name)
            answer = await index.search(
                _query(function), limit=_NUM_SEARCHED, language=function.language
            )
        except WorkerError as error:
            logger.warning("no search for duplicates: %s", error)
            return []
        paths = self._workspace.paths
        return [paths.at(each["root"], each["path"]).path for each in (*named, *answer["results"])]

    async def _functions(self, path: str) -> Sequence[Function]:
        if path not in self._parsed:
            self._parsed[path] = await self._read(path)
        return self._parsed[path]

    async def _read(self, path: str) -> Sequence[Function]:
        try:
            place = self._workspace.paths.locate(path)
            snapshot = await self._workspace.read(place)
        except (PathError, WorkspaceError):
            return ()
        text = snapshot.file.text if snapshot.file else ""
        return await asyncio.to_thread(functions_of, path, text)


def _closest_of_each(new: Sequence[Function], earlier: list[Function]) -> list[Duplicate]:
    """A new function may look like one before it, too."""
    found: list[Duplicate] = []
    for each in new:
        found += closest(each, earlier)
        earlier.append(each)
    return found


def closest(new: Function, others: Iterable[Function]) -> list[Duplicate]:
    """The most alike of those that are alike enough; none, or one."""
    alike = [each for other in others if (each := _alike(new, other)) is not None]
    return [max(alike, key=lambda each: each.body)] if alike else []


def _alike(new: Function, old: Function) -> Duplicate | None:
    if (new.path, new.symbol) == (old.path, old.symbol) or _is_another(new, old):
        return None
    body = likeness(new.shape, old.shape)
    if body >= (MIN_BODY_BESIDE if new.scope == old.scope else MIN_BODY):
        return Duplicate(new, old, body)
    if (
        not (new.is_method or old.is_method)
        and names_alike(new.name, old.name) >= MIN_NAME
        and body >= MIN_BODY_NAMED
        and words_alike(new.shape, old.shape) >= MIN_WORDS_NAMED
    ):
        return Duplicate(new, old, body)
    return None


def _is_another(new: Function, old: Function) -> bool:
    """Whether they are meant to be alike: two classes' own methods of one name, and what is the
    same for `async` callers."""
    if new.name == old.name:
        return new.is_method and old.is_method
    return _sync_name(new.name) == _sync_name(old.name) or (
        new.name == f"a{old.name}" or old.name == f"a{new.name}"
    )


def _before_and_after(changes: Sequence[FileChange]) -> tuple[list[Function], list[Function]]:
    before = [each for one in changes for each in functions_of(one.path, one.before_text)]
    after = [each for one in changes for each in functions_of(one.path, one.after or "")]
    return before, after


def _sync_name(name: str) -> str:
    return name.removeprefix("async_").removesuffix("_async").removesuffix("Async")


def _keys(functions: Iterable[Function]) -> set[tuple[str, str]]:
    return {(each.path, each.symbol) for each in functions}


def _without(functions: Sequence[Function], keys: set[tuple[str, str]]) -> list[Function]:
    return [each for each in functions if (each.path, each.symbol) not in keys]


def _query(function: Function) -> str:
    return " ".join([function.name, *function.shape.words])[:_MAX_QUERY_CHARS]


def _kind(path: str) -> tuple[PurePosixPath, str]:
    pure = PurePosixPath(path)
    return pure.parent, pure.suffix
