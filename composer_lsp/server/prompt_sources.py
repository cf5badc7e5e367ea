"""What there is to say to a place in a document: by the index, by the open documents, and by what the
user edited and copied of late."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote

from composer_index.ignores import HiddenFiles
from composer_lsp.completion.alike import most_alike, names_near
from composer_lsp.completion.copies import Copies
from composer_lsp.completion.edit_history import Edit, EditHistory, diff_lines
from composer_lsp.completion.filters import prompt_path, root_of, why_withheld
from composer_lsp.completion.request import CompletionRequest, DocumentSnapshot
from composer_lsp.completion.selection import Candidate
from composer_lsp.index.client import WorkerError
from composer_lsp.index.service import IndexService
from composer_lsp.server.documents import DocumentStore
from composer_lsp.server.window_index import local_path

logger = logging.getLogger(__name__)

INDEX_LIMIT_S = 10.0
"""How long the index is waited for, in the background."""
_WORTH = {"import": 0.9, "sibling": 0.5, "test": 0.5, "edited together": 0.4}
"""Of the first piece of each kind that the index tells of."""
_ALIKE_WORTH = 0.7
_OPEN_WORTH = 0.8
"""Times the share of the place's names."""
_COPY_WORTH = 0.75
_EDIT_WORTH = 0.6
_STEP = 0.04
"""Less for each piece that comes later in its list."""
_NUM_RELATED = 12
_NUM_ALIKE = 6
_NUM_OPEN = 8
_QUERY_CHARS = 400
_NUM_EDITS = 4
_MAX_EDIT_LINES = 16
"""Of both sides."""
_MAX_LINE_CHARS = 200
"""Of a line of an edit: of one that is longer, little would come into the prompt."""
_DIFF = ".diff"
"""Behind the path of a file whose edit is told of."""
_OWN_LINES = 100
"""Around the cursor, that the prompt has anyway."""


class PromptSources:
    """Implements `completion.context.Sources`. Event loop only."""

    def __init__(
        self,
        index: Callable[[], IndexService | None],
        documents: Callable[[], DocumentStore],
        roots: Callable[[], Sequence[str]],
        edits: EditHistory,
        copies: Copies,
        limit_s: float = INDEX_LIMIT_S,
    ) -> None:
        """`index`: None while it is turned off, and waited for `limit_s` at most. `roots`: the workspace
        folders' paths."""
        self._index = index
        self._documents = documents
        self._roots = roots
        self._edits = edits
        self._copies = copies
        self._limit_s = limit_s
        self._hidden = HiddenFiles()
        self._has_index_answered = False
        """Until it has, no prompt has anything of it that should stay."""

    async def gather(self, request: CompletionRequest) -> Sequence[Candidate] | None:
        path = local_path(request.document.uri)
        service = self._index()
        found: list[Candidate] = []
        if service is not None and path is not None and root_of(path, self._roots()):
            try:
                async with asyncio.timeout(self._limit_s):
                    found += await self._indexed(service, path, request)
                self._has_index_answered = True
            except (WorkerError, TimeoutError) as error:
                reason = str(error) or f"the index said nothing for {self._limit_s:g} s"
                logger.info("nothing of other files: %s", reason)
                if self._has_index_answered:
                    return None
        found += [*self._open(request), *self._edited(request), *self._copied(request)]
        # The index may be behind, and by its settings it may hold what no prompt does.
        hidden = {path for path in {each.path for each in found} if self.is_hidden(path)}
        return [each for each in found if each.path not in hidden]

    def repository_of(self, path: str) -> str:
        root = root_of(path, self._roots())
        return PurePath(root).name if root else ""

    def is_hidden(self, path: str) -> bool:
        # Relative to one of the roots; which one it was is not told by it.
        path = path.removesuffix(_DIFF)
        places = [str(PurePath(root, path)) for root in self._roots()] or [path]
        return any(self._hidden.why_hidden(place) is not None for place in places)

    async def _indexed(
        self, service: IndexService, path: str, request: CompletionRequest
    ) -> list[Candidate]:
        text, offset = request.document.text, request.offset
        line = text.count("\n", 0, offset) + 1
        related = await service.related(path, line, limit=_NUM_RELATED)
        query = text[max(0, offset - _QUERY_CHARS) : offset].strip()
        alike: Mapping[str, Any] = {"results": ()}
        if query:
            alike = await service.search(query, limit=_NUM_ALIKE)
        own = self._shown_path(prompt_path(request.document.uri))
        candidates = [
            *_ranked(related, lambda each: _WORTH[each["why"][0]]),
            *_ranked(alike["results"], lambda each: _ALIKE_WORTH),
        ]
        return [each for each in candidates if each.path != own or not _is_near(each, line)]

    def _open(self, request: CompletionRequest) -> Iterator[Candidate]:
        """Of the documents that were opened or changed last."""
        names = names_near(request.document.text, request.offset)
        own = unquote(request.document.uri)
        others = [
            each
            for each in self._documents().recent
            if unquote(each.uri) != own and each.language_id == request.document.language_id
        ]
        for document in others[:_NUM_OPEN]:
            shown = document.snapshot()
            if why_withheld(shown, self._hidden) is not None:
                continue
            if (alike := most_alike(shown.text, names)) is not None:
                yield Candidate(
                    path=self._shown_path(prompt_path(shown.uri)),
                    text=alike.text,
                    first_line=alike.first_line,
                    worth=_OPEN_WORTH * alike.share,
                )

    def _edited(self, request: CompletionRequest) -> Iterator[Candidate]:
        """What was edited elsewhere, the newest first."""
        line = request.document.text.count("\n", 0, request.offset)
        own = unquote(request.document.uri)
        elsewhere = [
            edit
            for edit in reversed(self._edits.recent(2 * _NUM_EDITS))
            if unquote(edit.uri) != own or not edit.first_line <= line <= edit.end_line
        ]
        short = [edit for edit in elsewhere if _is_short(edit)]
        for rank, edit in enumerate(short[:_NUM_EDITS]):
            path = self._shown_path(prompt_path(edit.uri))
            yield Candidate(
                path=f"{path}{_DIFF}",
                text=_change(edit),
                worth=_EDIT_WORTH - _STEP * rank,
                is_volatile=True,
            )

    def _copied(self, request: CompletionRequest) -> Iterator[Candidate]:
        own = unquote(request.document.uri)
        line = request.document.text.count("\n", 0, request.offset) + 1
        for rank, copy in enumerate(self._copies.recent()):
            origin = DocumentSnapshot(
                uri=copy.uri, version=0, text="", language_id=copy.language_id
            )
            if why_withheld(origin, self._hidden) is not None:
                continue
            candidate = Candidate(
                path=self._shown_path(prompt_path(copy.uri)),
                text=copy.text,
                first_line=copy.first_line,
                worth=_COPY_WORTH - _STEP * rank,
                is_volatile=True,
            )
            if unquote(copy.uri) != own or not _is_near(candidate, line):
                yield candidate

    def _shown_path(self, path: str) -> str:
        """Relative to its folder's root."""
        root = root_of(path, self._roots())
        return PurePath(path).relative_to(root).as_posix() if root else PurePath(path).name


def _is_short(edit: Edit) -> bool:
    lines = [*edit.old_lines, *edit.new_lines]
    return len(lines) <= _MAX_EDIT_LINES and len(_narrow(lines)) == len(lines)


def _narrow(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(line for line in lines if len(line) <= _MAX_LINE_CHARS)


def _change(edit: Edit) -> str:
    """A diff without line numbers, which would change with every line above."""
    narrow = replace(edit, before=_narrow(edit.before), after=_narrow(edit.after))
    return "\n".join(["@@", *diff_lines(narrow)]).rstrip()


def _ranked(
    found: Sequence[Mapping[str, Any]], worth_of: Callable[[Mapping[str, Any]], float]
) -> Iterator[Candidate]:
    ranks: dict[float, int] = {}
    for each in found:
        worth = worth_of(each)
        rank = ranks[worth] = ranks.get(worth, -1) + 1
        yield Candidate(
            path=each["path"],
            text=each["text"],
            first_line=each["start_line"],
            worth=max(0.05, worth - _STEP * rank),
        )


def _is_near(candidate: Candidate, line: int) -> bool:
    return candidate.first_line - _OWN_LINES <= line <= candidate.last_line + _OWN_LINES
