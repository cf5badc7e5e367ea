"""What a file defines, and where: for files that are too long to be read whole."""

from collections.abc import Iterator, Sequence

from composer_index.chunk import Definition, ParsedFile
from composer_index.parsing import parse_file

_MAX_CHARS = 2_000_000
"""Longer files are data, and take long to parse."""
_LEFT_OUT = frozenset({"constant", "variable", "field"})


def outline(path: str, text: str, first_line: int, max_chars: int) -> str:
    """A line of text for each definition that begins at `first_line` (1-based) or below it: the
    outermost ones where there are too many. Empty where nothing is known. Some milliseconds to a
    second: call it in a thread."""
    if len(text) > _MAX_CHARS:
        return ""
    parsed = parse_file(path, text.encode("utf-8", "surrogateescape"))
    if not isinstance(parsed, ParsedFile):
        return ""
    found = [
        each
        for each in parsed.definitions
        if each.kind not in _LEFT_OUT and each.start_line >= first_line
    ]
    return _fitted(found, max_chars) if found else ""


def _fitted(found: Sequence[Definition], max_chars: int) -> str:
    head = "\n[what is defined further down]"
    if sum(len(_line(each)) for each in found) > max_chars:
        found = list(_outermost(found))
    shown: list[str] = []
    for each in found:
        line = _line(each)
        max_chars -= len(line)
        if max_chars < 0:
            break
        shown.append(line)
    more = f"\n[and {len(found) - len(shown)} more]" if len(shown) < len(found) else ""
    return f"{head}{''.join(shown)}{more}"


def _line(each: Definition) -> str:
    return f"\n{each.start_line}-{each.end_line}: {each.kind} {each.symbol}"


def _outermost(found: Sequence[Definition]) -> Iterator[Definition]:
    end = 0
    for each in found:
        if each.start_line > end:
            end = each.end_line
            yield each
