"""How a chunk is named: by its path, its symbol, and the definitions that begin in it."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from composer_index.chunk import Chunk, Definition, ParsedFile
from composer_index.words import split_words

_FUNCTIONS = frozenset({"function", "method", "macro"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Naming:
    """What a chunk is called."""

    names: tuple[str, ...]
    """Of the definitions that begin in the chunk, fields aside, and of the innermost that it lies
    in."""
    is_function: bool
    """A function, a method or a macro begins in it."""
    words: tuple[str, ...]
    """Of its path, its symbol and its names."""


def chunk_words(chunk: Chunk, named: Naming) -> list[str]:
    """Returns what of a chunk is searched and embedded: its names' words, then its text's."""
    return [*named.words, *split_words(chunk.text)]


def naming(parsed: ParsedFile) -> list[Naming]:
    """Returns how each chunk of a file is named."""
    found: list[Naming] = []
    definitions = list(_telling(parsed.definitions))
    starts = [each.start_line for each in definitions]
    for chunk in parsed.chunks:
        first, end = bisect_left(starts, chunk.start_line), bisect_right(starts, chunk.end_line)
        begun = definitions[first:end]
        own = [chunk.symbol.rsplit(".", 1)[-1]] if chunk.symbol else []
        names = tuple(dict.fromkeys([*(each.name for each in begun), *own]))
        found.append(
            Naming(
                names=names,
                is_function=any(each.kind in _FUNCTIONS for each in begun),
                words=tuple(split_words("\n".join([chunk.path, chunk.symbol, *names]))),
            )
        )
    return found


def _telling(definitions: Iterable[Definition]) -> Iterator[Definition]:
    """Those that say what a chunk is about: no fields, and no methods that an interface only
    declares."""
    interface_end = 0
    for each in definitions:
        if each.kind == "interface":
            interface_end = max(interface_end, each.end_line)
        is_declared = each.end_line == each.start_line <= interface_end
        if each.kind != "field" and not (each.kind == "method" and is_declared):
            yield each
