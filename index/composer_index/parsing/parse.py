"""A file's bytes to what the index keeps of it."""

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import cast

from composer_index.chunk import Chunk, Definition, DefinitionKind, ParsedFile, SkippedFile
from composer_index.languages import Language, language_of
from composer_index.parsing import skip, symbols
from composer_index.parsing.parts import Part, read_parts
from composer_index.parsing.split import BUDGET, Piece, between, merge
from composer_index.parsing.symbols import Found
from composer_index.parsing.text import Lines, lines_of, to_utf8, with_newlines

_MAX_TEXT_BYTES = 16 * BUDGET
"""Longer chunks, of long rows or of white space, are cut."""


def parse_file(
    path: str, data: bytes, *, max_bytes: int = skip.MAX_BYTES
) -> ParsedFile | SkippedFile:
    """Cuts a file into chunks, with its definitions and imports; or says why it is not indexed.

    Pure: never raises, whatever the bytes, and its work is bounded by their number.
    """
    reason = skip.skip_by_name(path)
    if reason:
        return SkippedFile(path=path, reason=reason)
    if len(data) > max_bytes:
        return SkippedFile(path=path, reason="huge")
    source = to_utf8(data)
    if source is None or skip.is_binary(source):
        return SkippedFile(path=path, reason="binary")
    language = language_of(path, source)
    newlines = with_newlines(source)
    lines = lines_of(source, newlines)
    reason = skip.skip_by_text(source, lines.num_rows, language)
    if reason:
        return SkippedFile(path=path, reason=reason)
    return _parse(path, language, lines, newlines)


def _parse(path: str, language: Language, lines: Lines, newlines: bytes) -> ParsedFile:
    outer, embedded = read_parts(language, lines, newlines)
    parts = [outer, *embedded]
    found = sorted((one for part in parts for one in part.found), key=lambda one: one.start_byte)
    imports = dict.fromkeys(name for part in parts for name in part.imports)
    return ParsedFile(
        path=path,
        language=language.id,
        num_lines=lines.num_rows,
        chunks=tuple(_chunks(path, lines, outer, embedded)),
        definitions=tuple(_definition(one, lines) for one in found if one.kind != "scope"),
        imports=tuple(imports),
        is_broken=bool(newlines) and outer.is_broken,
    )


def _chunks(path: str, lines: Lines, outer: Part, embedded: Sequence[Part]) -> Iterator[Chunk]:
    """The outer part's, around those of the parts that have rows to themselves."""
    pieces = outer.pieces(lines)
    row = 0
    for part in sorted(embedded, key=lambda part: part.rows):
        start, end = part.rows
        if row <= start < end:
            yield from _part_chunks(path, lines, outer, between(pieces, lines, row, start))
            yield from _part_chunks(path, lines, part, part.pieces(lines))
            row = end
    yield from _part_chunks(path, lines, outer, between(pieces, lines, row, lines.num_rows))


def _definition(one: Found, lines: Lines) -> Definition:
    return Definition(
        name=one.name,
        kind=cast("DefinitionKind", one.kind),
        symbol=one.symbol,
        start_line=lines.row_of(one.start_byte) + 1,
        end_line=lines.row_of(max(one.end_byte - 1, one.start_byte)) + 1,
    )


def _part_chunks(path: str, lines: Lines, part: Part, pieces: Sequence[Piece]) -> Iterator[Chunk]:
    language, found = part.language, part.found
    for piece in merge(pieces) if part.tree else pieces:
        start, end = _without_blank_ends(lines, piece)
        if start == end:
            continue
        index = piece.owner if piece.definition < 0 else piece.definition
        symbol = found[index].symbol if index >= 0 else ""
        head = symbols.signature(found[index], lines) if index >= 0 else ""
        for first, last, text in _texts(lines, start, end):
            yield Chunk(
                path=path,
                start_line=first + 1,
                end_line=last,
                symbol=symbol,
                signature=head,
                language=language.id,
                text=text,
                content_hash=_hash(language.id, symbol, text),
                identifiers=symbols.identifiers(text, language),
            )


def _without_blank_ends(lines: Lines, piece: Piece) -> tuple[int, int]:
    start, end, weights = piece.start, piece.end, lines.weights
    while start < end and weights[start] == weights[start + 1]:
        start += 1
    while start < end and weights[end - 1] == weights[end]:
        end -= 1
    return start, end


def _texts(lines: Lines, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    """The rows' text, in several parts where it is too long to be one."""
    if lines.starts[end] - lines.starts[start] <= _MAX_TEXT_BYTES:
        yield start, end, lines.text(start, end).decode()
        return
    while start < end:
        stop = max(bisect_right(lines.starts, lines.starts[start] + _MAX_TEXT_BYTES) - 1, start + 1)
        stop = min(stop, end)
        text = lines.text(start, stop).decode()
        for at in range(0, len(text), _MAX_TEXT_BYTES):
            part = text[at : at + _MAX_TEXT_BYTES]
            if not part.isspace():
                yield start, stop, part
        start = stop


def _hash(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()
