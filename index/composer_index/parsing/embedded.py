"""Where a file holds code of other languages: scripts and styles in HTML, HTML around PHP, fenced
code in Markdown."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tree_sitter import Node

from composer_index.languages import LANGUAGES, PLAINTEXT, Language, language_named
from composer_index.parsing.grammar import Match
from composer_index.parsing.text import Lines

Ranges = Sequence[tuple[int, int]]
"""Bytes of the source, from and to (exclusive), in order."""

_MAX_REGIONS = 2000
"""Of a file; what follows is not looked into."""
_MAX_RANGES = 1000
"""Of a region: the parser takes quadratic time over them."""

_TYPE = re.compile(rb"(?<![\w-])(?:type|lang)\s*=\s*[\"']?([^\"'\s>]+)")
_SCRIPTS = {"module": "javascript", "babel": "javascript", "ecmascript": "javascript"}
"""What scripts are called beside their language's names."""
_UNREAD = frozenset({"json", "jsonc", "yaml", "toml", "markdown", "plaintext"})
"""Data, which inside of another file defines nothing, and what is not known."""


@dataclass(frozen=True, slots=True)
class Region:
    """A part of a file in another language than what is around it."""

    language: Language
    ranges: Ranges
    element: tuple[int, int] | None = None
    """The bytes from its start tag to its end tag; None where it belongs to the text around it."""
    is_template: bool = False
    """What lies between the ranges fills places in their text: the tags of PHP."""


def regions(found: Iterable[Match], lines: Lines) -> Iterator[Region]:
    """Yields what the matches embed, in order; all HTML around PHP as one, at the end."""
    html: list[tuple[int, int]] = []
    num_regions = 0
    for match in found:
        if "html" in match:
            html += map(_bytes, match["html"])
        elif "embedded" in match and num_regions < _MAX_REGIONS:
            region = _region(match, lines)
            if region.language.id not in _UNREAD and 0 < len(region.ranges) <= _MAX_RANGES:
                num_regions += 1
                yield region
    if html:
        yield Region(LANGUAGES["html"], html, is_template=True)


def _region(match: Match, lines: Lines) -> Region:
    start, end = _bytes(match["language"][0])
    return Region(
        language=_language(lines.source[start:end]) or PLAINTEXT,
        ranges=_without_markers(match["embedded"][0]),
        element=_bytes(match["element"][0]) if "element" in match else None,
    )


def _bytes(node: Node) -> tuple[int, int]:
    return node.start_byte, node.end_byte


def filled(source: bytes, ranges: Ranges) -> bytes:
    """The source with letters for everything outside of the ranges, line feeds aside."""
    parts: list[bytes] = []
    position = 0
    for start, end in ranges:
        parts += (source[position:start].translate(_LETTERS), source[start:end])
        position = end
    return b"".join([*parts, source[position:].translate(_LETTERS)])


_LETTERS = bytes(byte if byte == 10 else ord("x") for byte in range(256))


def _language(named: bytes) -> Language | None:
    """By the word behind a fence, or by a start tag."""
    text = named[:1000]
    if not text.startswith(b"<"):
        return language_named(text.decode("utf-8", "replace").strip("{}."))
    found = _TYPE.search(text)
    if found is None:
        return LANGUAGES["css" if text[:6].lower() == b"<style" else "javascript"]
    name = re.split(r"[/+]", found[1].decode("utf-8", "replace").lower())[-1].removeprefix("x-")
    return language_named(_SCRIPTS.get(name, name))


def _without_markers(content: Node) -> Ranges:
    """The content's bytes without the marks of a quote or a list around it."""
    ranges: list[tuple[int, int]] = []
    start = content.start_byte
    for child in content.children:
        if child.type == "block_continuation":
            ranges.append((start, child.start_byte))
            start = child.end_byte
    ranges.append((start, content.end_byte))
    return [each for each in ranges if each[0] < each[1]]
