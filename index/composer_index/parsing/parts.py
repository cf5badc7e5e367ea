"""A file as a tree of its own language, and those of the languages that lie inside of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tree_sitter import Range, Tree

from composer_index.languages import Language
from composer_index.parsing import grammar, symbols
from composer_index.parsing.embedded import Ranges, filled, regions
from composer_index.parsing.grammar import Match
from composer_index.parsing.split import BUDGET, Piece, split
from composer_index.parsing.symbols import Found
from composer_index.parsing.text import Lines
from composer_index.parsing.windows import windows

_MAX_DEPTH = 2
"""Languages inside of languages: a script in HTML in PHP."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one language has of a file."""

    language: Language
    rows: tuple[int, int]
    """Those that it has to itself, from and to (exclusive)."""
    tree: Tree | None
    """None without a grammar, or where the parser gave up."""
    found: Sequence[Found] = ()
    by_node: dict[int, int] | None = None
    """Of the tree's nodes by their id, which of `found` they are."""
    imports: tuple[str, ...] = ()

    @property
    def is_broken(self) -> bool:
        """The grammar met an error, or gave up."""
        if self.tree is None:
            return bool(self.language.grammar)
        return self.tree.root_node.has_error

    def pieces(self, lines: Lines) -> list[Piece]:
        """The rows cut up, along the tree where there is one."""
        if self.tree is None:
            return [Piece(*rows, -1) for rows in windows(lines, *self.rows, BUDGET)]
        return split(self.tree.root_node, lines, self.found, self.by_node or {}, self.rows)


def read_parts(language: Language, lines: Lines, newlines: bytes) -> tuple[Part, list[Part]]:
    """The file's own part, and the parts inside of it, in no order. `newlines` has LF line ends."""
    outer, matches = _read(language, lines, newlines, (0, lines.num_rows))
    inside = list(_read_inside(matches, lines, newlines, _MAX_DEPTH))
    if language.is_prose:
        # Examples stay with the words around them, and import nothing here.
        inside = [replace(part, rows=(0, 0), imports=()) for part in inside]
    return outer, inside


def _read(
    language: Language,
    lines: Lines,
    newlines: bytes,
    rows: tuple[int, int],
    ranges: Ranges | None = None,
) -> tuple[Part, list[Match]]:
    loaded = grammar.load(language) if newlines else None
    included = None if ranges is None else [_range(lines, *one) for one in ranges]
    tree = grammar.parse_tree(language, loaded, newlines, included) if loaded else None
    if loaded is None or tree is None:
        return Part(language, rows, None), []
    matches = grammar.matches(loaded, tree)
    found, by_node = symbols.definitions(matches, lines, language)
    return Part(language, rows, tree, found, by_node, symbols.imports(matches, lines)), matches


def _read_inside(
    matches: Sequence[Match], lines: Lines, newlines: bytes, depth: int
) -> Iterator[Part]:
    for region in regions(matches, lines) if depth else ():
        rows = _own_rows(lines, *region.element) if region.element else (0, 0)
        inside = filled(newlines, region.ranges) if region.is_template else newlines
        ranges = None if region.is_template else region.ranges
        part, inner = _read(region.language, lines, inside, rows, ranges)
        yield part
        yield from _read_inside(inner, lines, inside, depth - 1)


def _own_rows(lines: Lines, start: int, end: int) -> tuple[int, int]:
    """The rows, from and to (exclusive), that hold nothing beside an element's bytes."""
    first, last = lines.row_of(start), lines.row_of(end - 1)
    if lines.source[lines.starts[first] : start].strip():
        first += 1
    if lines.source[end : lines.starts[last + 1]].strip():
        last -= 1
    return (first, last + 1) if first <= last else (0, 0)


def _range(lines: Lines, start: int, end: int) -> Range:
    first, last = lines.row_of(start), lines.row_of(end)
    return Range((first, start - lines.starts[first]), (last, end - lines.starts[last]), start, end)
