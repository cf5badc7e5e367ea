"""Split-then-merge along the tree (the method of cAST, arXiv 2506.15655).

The tree is split, from the root's children on, until each piece fits the budget; neighbours are then
merged while they fit, but a definition of some size stands alone, with the decorators and comments
above it. Pieces are whole rows: they cover every row once, in order.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tree_sitter import Node

from composer_index.parsing.symbols import Found
from composer_index.parsing.text import Lines
from composer_index.parsing.windows import windows

BUDGET = 1200
"""Non-white characters of a chunk. Only a single longer row exceeds it."""
_STANDING = 300
"""A definition from this weight on shares its chunk with no other."""
_SMALL = 150
"""What is lighter may join a standing definition."""
_TINY = 60
"""What is lighter may join whatever follows: the line that opens a namespace."""
_TAIL = 16
"""What is lighter belongs to what stands before it: closing brackets."""

_LEADING = frozenset(
    {
        *("comment", "line_comment", "block_comment", "doc_comment", "html_comment", "marginalia"),
        *("decorator", "attribute_item", "attribute_list", "annotation", "marker_annotation"),
    }
)
"""Nodes that belong to the sibling right below them."""


@dataclass(slots=True)
class Piece:
    """Rows `start` to `end`, exclusive."""

    start: int
    end: int
    owner: int
    """Index of the definition around them, -1 outside of any."""
    definition: int = -1
    """Index of the definition that they are, or of the only major one in them; else -1."""
    num_definitions: int = 0
    """Major definitions: statements do not count."""
    weight: int = 0
    is_standing: bool = False


def split(
    root: Node,
    lines: Lines,
    found: Sequence[Found],
    by_node: dict[int, int],
    rows: tuple[int, int],
) -> list[Piece]:
    """The pieces of the tree's rows, from and to (exclusive), each within the budget."""
    return _Splitter(lines, found, by_node, rows).run(root)


def between(pieces: Sequence[Piece], lines: Lines, start: int, end: int) -> list[Piece]:
    """What the pieces have of the rows `start` to `end`, exclusive."""
    first = bisect_right(pieces, start, key=lambda piece: piece.end)
    last = bisect_left(pieces, end, first, key=lambda piece: piece.start)
    kept: list[Piece] = []
    for each in pieces[first:last]:
        piece = each
        if piece.start < start or piece.end > end:
            rows = max(start, piece.start), min(end, piece.end)
            piece = replace(piece, start=rows[0], end=rows[1], weight=lines.weight(*rows))
        kept.append(piece)
    return kept


class _Splitter:
    """Walks down the nodes that are too heavy, with a stack of its own: trees may be deep."""

    def __init__(
        self,
        lines: Lines,
        found: Sequence[Found],
        by_node: dict[int, int],
        rows: tuple[int, int],
    ) -> None:
        self._lines = lines
        self._found = found
        self._by_node = by_node
        self._row, self._end = rows
        """The first row that is in no piece yet, and the one after the last."""
        self._pieces: list[Piece] = []

    def run(self, root: Node) -> list[Piece]:
        lines = self._lines
        stack: list[tuple[Node | None, int, int, bool]] = [(root, -1, self._end, False)]
        while stack:
            node, owner, end, is_held = stack.pop()
            if end <= self._row or is_held:
                continue
            if node is None:
                self._emit(end, owner, -1)
                continue
            definition = self._by_node.get(node.id, -1)
            start = max(lines.row_of(node.start_byte), self._row)
            if node is not root and lines.weight(start, end) <= BUDGET:
                if lines.weight(self._row, end) > BUDGET:
                    self._emit(start, owner, -1)
                self._emit(end, owner, definition)
                continue
            inner = owner if definition < 0 else definition
            stack.append((None, inner, end, False))
            if node is root or end - self._row > 1:
                self._push_children(node, inner, stack)
        self._emit(self._end, -1, -1)
        return self._pieces

    def _push_children(
        self, node: Node, owner: int, stack: list[tuple[Node | None, int, int, bool]]
    ) -> None:
        row_of = self._lines.row_of
        below = self._lines.num_rows + 1
        for child in reversed(node.children):
            end = row_of(max(child.end_byte - 1, child.start_byte)) + 1
            is_held = child.type in _LEADING and below <= end
            stack.append((child, owner, end, is_held))
            below = row_of(child.start_byte)

    def _emit(self, end: int, owner: int, definition: int) -> None:
        """A piece from the first free row to `end`."""
        start, end = self._row, min(end, self._end)
        if end <= start:
            return
        self._row = end
        weight = self._lines.weight(start, end)
        if not weight and self._pieces:
            self._pieces[-1].end = end
        elif weight <= BUDGET:
            self._pieces.append(self._piece(start, end, owner, definition, weight))
        else:
            inner = owner if definition < 0 else definition
            for first, last in windows(self._lines, start, end, BUDGET):
                weight = self._lines.weight(first, last)
                self._pieces.append(Piece(first, last, inner, weight=weight))

    def _piece(self, start: int, end: int, owner: int, definition: int, weight: int) -> Piece:
        is_major = definition >= 0 and self._found[definition].is_major
        return Piece(
            start,
            end,
            owner,
            definition,
            int(is_major),
            weight,
            is_major and weight >= _STANDING,
        )


def merge(pieces: Sequence[Piece]) -> list[Piece]:
    """Neighbours put together while they fit and belong together. Pieces are changed in place."""
    merged: list[Piece] = []
    for piece in pieces:
        last = merged[-1] if merged else None
        if last is not None and _belong_together(last, piece):
            _join(last, piece)
        else:
            merged.append(piece)
    return merged


def _belong_together(last: Piece, piece: Piece) -> bool:
    weight = last.weight + piece.weight
    if piece.weight <= _TAIL and not piece.num_definitions and piece.owner <= last.owner:
        return weight <= BUDGET + 2 * _TAIL
    if weight > BUDGET:
        return False
    if last.owner != piece.owner:
        return last.weight < _TINY and not last.num_definitions and piece.owner > last.owner
    if last.is_standing or piece.is_standing:
        other = piece if last.is_standing else last
        return other.weight < _SMALL and not other.num_definitions
    return True


def _join(last: Piece, piece: Piece) -> None:
    last.owner = max(last.owner, piece.owner) if last.weight < _TINY else last.owner
    num_definitions = last.num_definitions + piece.num_definitions
    if num_definitions != 1:
        last.definition = -1
    elif piece.num_definitions:
        last.definition = piece.definition
    last.num_definitions = num_definitions
    last.is_standing = last.is_standing or piece.is_standing
    last.weight += piece.weight
    last.end = piece.end
