"""What the user edited of late, one edit for each place, whatever number of keystrokes it took.

Each change of a buffer tells the lines that it replaced. Changes that touch make one edit, which knows
what stood there before; nothing is compared but the lines of one edit, and nothing is copied of a
document that nobody edits. An edit that is undone is forgotten.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from urllib.parse import unquote

MAX_EDIT_LINES = 60
"""Of either side; a longer edit is no edit of the user's but a formatter's, a paste of a file, an
agent's."""
MAX_EDIT_CHARS = 4000
_MAX_EDITS_A_DOCUMENT = 32
_MAX_CLOSED = 16
"""Edits kept of documents that were closed."""
_CONTEXT_LINES = 2
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a pair, which no encoding can carry."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Edit:
    """Lines that took the place of others. Lines have no terminators, and U+FFFD for a lone surrogate."""

    uri: str
    language_id: str
    first_line: int
    """Where the new lines stand in the document of now, 0-based."""
    old_lines: tuple[str, ...]
    new_lines: tuple[str, ...]
    before: tuple[str, ...] = ()
    """A few lines that stand before it, and after it; empty of documents that were closed."""
    after: tuple[str, ...] = ()
    order: int = 0
    """The higher, the later it was made."""
    is_open: bool = True
    """Whether `first_line` can still be found, in an open document."""

    @property
    def end_line(self) -> int:
        """Exclusive."""
        return self.first_line + len(self.new_lines)


def as_diff(edit: Edit, path: str) -> str:
    """A small unified diff; `path` as its reader shall see it."""
    num_before, num_after = len(edit.before), len(edit.after)
    start = edit.first_line - num_before + 1
    num_old = num_before + len(edit.old_lines) + num_after
    num_new = num_before + len(edit.new_lines) + num_after
    lines = [f"--- {path}", f"+++ {path}", f"@@ -{start},{num_old} +{start},{num_new} @@"]
    return "\n".join([*lines, *diff_lines(edit)]) + "\n"


def diff_lines(edit: Edit) -> list[str]:
    """What stands below a diff's head."""
    marked = ((" ", edit.before), ("-", edit.old_lines), ("+", edit.new_lines), (" ", edit.after))
    return [f"{mark}{line}" for mark, lines in marked for line in lines]


class EditHistory:
    """Of one window. `may_show`: whether a document's text may be put in a prompt, by its URI and its
    language; asked when somebody wants to know of its edits. Event loop only."""

    def __init__(
        self, may_show: Callable[[str, str], bool] = lambda uri, language_id: True
    ) -> None:
        self._may_show = may_show
        self._documents: dict[str, _Document] = {}
        self._closed: deque[Edit] = deque(maxlen=_MAX_CLOSED)
        self._orders = count(1)

    def opened(self, uri: str, language_id: str, lines: Callable[[], Sequence[str]]) -> "Watch":
        """Begin with a document, whose lines `lines` gives. Its buffer calls the result with every
        change, once it is made: the first line, the lines that went, the lines that came."""
        document = _Document(uri, language_id, lines, self._next_order)
        self._documents[unquote(uri)] = document
        return document.changed

    def closed(self, uri: str) -> None:
        """The document's edits are kept, without their place."""
        if (document := self._documents.pop(unquote(uri), None)) is not None:
            self._closed.extend(document.edits(is_open=False))

    def recent(self, limit: int) -> Sequence[Edit]:
        """The last edits of all documents that may be shown, the newest last."""
        found = [*self._closed]
        for document in self._documents.values():
            found += document.edits(is_open=True)
        found.sort(key=lambda edit: edit.order)
        shown: dict[tuple[str, str], bool] = {}
        kept: list[Edit] = []
        for edit in reversed(found):
            if len(kept) == limit:
                break
            key = edit.uri, edit.language_id
            if key not in shown:
                shown[key] = self._may_show(*key)
            if shown[key]:
                kept.append(edit)
        return kept[::-1]

    def latest_order(self) -> int:
        """Changes with every edit, of any document."""
        return max((document.latest_order for document in self._documents.values()), default=0)

    def _next_order(self) -> int:
        return next(self._orders)


Watch = Callable[[int, Sequence[str], Sequence[str]], None]


@dataclass(slots=True)
class _Place:
    """An edit's lines in the document: `num_lines` from `first` on, with terminators."""

    first: int
    num_lines: int
    origin: tuple[str, ...]
    """What stood there before anything was changed."""
    old: tuple[str, ...]
    """What stood there before the edit began that is told of: the user has been elsewhere since what
    came before it."""
    order: int

    @property
    def end(self) -> int:
        return self.first + self.num_lines


class _Document:
    def __init__(
        self,
        uri: str,
        language_id: str,
        lines: Callable[[], Sequence[str]],
        next_order: Callable[[], int],
    ) -> None:
        self._uri = uri
        self._language_id = language_id
        self._lines = lines
        self._next_order = next_order
        self._places: list[_Place] = []
        self.latest_order = 0

    def changed(self, first: int, old: Sequence[str], new: Sequence[str]) -> None:
        """The lines `old`, from `first` on, became `new`."""
        start = num_common(old, new)
        end = num_common(old[start:][::-1], new[start:][::-1])
        old, new = old[start : len(old) - end], new[start : len(new) - end]
        if not old and not new:
            return
        first += start
        order = self.latest_order = self._next_order()
        newest = max(self._places, key=lambda place: place.order, default=None)
        touched = [
            place
            for place in self._places
            if _touches(place, first, len(old), is_newest=place is newest)
        ]
        merged = self._merged(touched, newest, first, old, len(new), order)
        grown = len(new) - len(old)
        rest = [place for place in self._places if place not in touched]
        for place in rest:
            if place.first >= first + len(old):
                place.first += grown
        if merged is not None:
            rest.append(merged)
        rest.sort(key=lambda place: place.order)
        self._places = rest[-_MAX_EDITS_A_DOCUMENT:]

    def edits(self, *, is_open: bool) -> Iterator[Edit]:
        lines = self._lines()
        for place in self._places:
            start, end = place.first, place.end
            yield Edit(
                uri=self._uri,
                language_id=self._language_id,
                first_line=start,
                old_lines=_contents(place.old),
                new_lines=_contents(lines[start:end]),
                before=_contents(lines[max(0, start - _CONTEXT_LINES) : start]) if is_open else (),
                after=_contents(lines[end : end + _CONTEXT_LINES]) if is_open else (),
                order=place.order,
                is_open=is_open,
            )

    def _merged(
        self,
        touched: Sequence[_Place],
        newest: _Place | None,
        first: int,
        old: Sequence[str],
        num_new: int,
        order: int,
    ) -> _Place | None:
        """The change and the edits that it touches as one; None where nothing is left of them, or
        where it is too large to be kept."""
        start = min([first, *(place.first for place in touched)])
        end = max([first + len(old), *(place.end for place in touched)])
        grown = num_new - len(old)
        if max(end - start, end - start + grown) > MAX_EDIT_LINES:
            return None
        now = self._lines()
        before = [*now[start:first], *old, *now[first + num_new : end + grown]]
        after = tuple(now[start : end + grown])
        origin: list[str] = []
        since: list[str] = []
        at = start
        for place in sorted(touched, key=lambda place: (place.first, place.end)):
            kept = before[at - start : place.first - start]
            own = before[place.first - start : place.end - start]
            origin += [*kept, *place.origin]
            since += [*kept, *(place.old if place is newest else own)]
            at = place.end
        origin += before[at - start :]
        since += before[at - start :]
        if tuple(origin) == after or _is_bulk(origin) or _is_bulk(since) or _is_bulk(after):
            return None
        if tuple(since) == after:  # what was done last is undone; what came before it is not
            since = origin
        return _Place(start, len(after), tuple(origin), tuple(since), order)


def _touches(place: _Place, first: int, num_lines: int, *, is_newest: bool) -> bool:
    end = first + num_lines
    if is_newest or not place.num_lines:
        # The user goes on typing below or above; where lines were deleted there is but one place.
        return place.first <= end and first <= place.end
    return place.first < end and first < place.end


def num_common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many are the same from the beginning on."""
    number = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        number += 1
    return number


def _is_bulk(lines: Sequence[str]) -> bool:
    return len(lines) > MAX_EDIT_LINES or sum(map(len, lines)) > MAX_EDIT_CHARS


def _contents(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(_SURROGATE.sub("\ufffd", line.rstrip("\r\n")) for line in lines)
