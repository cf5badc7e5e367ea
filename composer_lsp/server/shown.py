"""Which suggestions the client was given, and which of them the user took. It stays in this process."""

import itertools
from collections import OrderedDict
from dataclasses import dataclass

from composer_lsp.completion.request import CompletionRequest, Suggestion

_NUM_KEPT = 64


class UnknownSuggestionError(Exception):
    """No suggestion of this id was given lately."""

    def __init__(self, id: str) -> None:
        super().__init__(
            f"there is no suggestion {id!r}; the last {_NUM_KEPT} of this window are known"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownSuggestion:
    id: str
    uri: str
    version: int
    """Of the document that it was for."""
    start: int
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    num_shown: int
    """Suggestions that were given, without what the memory had of them later."""
    num_accepted: int
    num_partly_accepted: int
    """By the word or the line, and not to their end."""


class Shown:
    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._kept: OrderedDict[str, ShownSuggestion] = OrderedDict()
        self._num_shown = 0
        self._num_accepted = 0
        self._begun: set[str] = set()
        self._num_begun = 0

    @property
    def counts(self) -> Counts:
        return Counts(
            num_shown=self._num_shown,
            num_accepted=self._num_accepted,
            num_partly_accepted=self._num_begun,
        )

    def give(self, request: CompletionRequest, suggestion: Suggestion) -> ShownSuggestion:
        """Count a suggestion that goes to the client, and name it."""
        shown = ShownSuggestion(
            id=f"s{next(self._ids)}",
            uri=request.document.uri,
            version=request.document.version,
            start=suggestion.start,
            text=suggestion.text,
        )
        self._kept[shown.id] = shown
        self._num_shown += not suggestion.is_from_memory
        if len(self._kept) > _NUM_KEPT:
            gone, _ = self._kept.popitem(last=False)
            self._begun.discard(gone)
        return shown

    def accept(self, id: str) -> ShownSuggestion:
        """The user took it, or what was left of it. Raises: UnknownSuggestionError."""
        shown = self._find(id)
        self._num_accepted += 1
        if id in self._begun:
            self._begun.discard(id)
            self._num_begun -= 1
        return shown

    def accept_part(self, id: str) -> ShownSuggestion:
        """The user took its beginning. Raises: UnknownSuggestionError."""
        shown = self._find(id)
        self._num_begun += id not in self._begun
        self._begun.add(id)
        return shown

    def _find(self, id: str) -> ShownSuggestion:
        if id not in self._kept:
            raise UnknownSuggestionError(id)
        return self._kept[id]
