"""Grammars, loaded when first needed, and parsing with bounded work.

Bounds count work, not time, so that a file always parses to the same tree. Grammars' scanners are C:
what is known to overrun their buffers is kept from them (`_is_hazardous`).
"""

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from itertools import accumulate

import tree_sitter

from composer_index.languages import Language

_BLOCK_BYTES = 1024
"""The parser asks for the source in such blocks; asking anew is how rereading shows."""
_READS = 200
_READS_PER_BLOCK = 24
"""Most blocks that may be read for each block of the source."""
_STEPS = 500
_BYTES_PER_STEP = 20
"""A step is 100 of the parser's operations (tree-sitter's own count); code takes about one for 160
bytes, and templates or dialects, which recover from errors all along, up to five times as many."""
_MATCH_LIMIT = 65_536
_MAX_ERROR_CHILDREN = 2000
_MAX_DEPTH = 400
"""Nodes below define nothing of use, and deep ones cost a cursor more."""

_INHERITS = re.compile(r"; inherits: (\w+)\n")
"""As nvim-treesitter writes it."""

_ASCII = bytes(range(0x80)) + b"x" * 0x80
_MAX_TAGS = 60_000
_MAX_TAG_DEPTH = 5000
_TAG = re.compile(rb"<(/?)[A-Za-z]")
_MAX_YAML_INDENT = 80
_MAX_YAML_MARKERS = 40
_MAX_YAML_ROWS = 32_000
_MARKDOWN_NESTING = re.compile(rb"^[ \t>*+\-\d.)]{200}", re.MULTILINE)
_RUBY_HEREDOC = re.compile(rb"<<[~-]?(?:\w{200}|([\"'`])[^\"'`]{200})")


@dataclass(frozen=True, slots=True)
class Grammar:
    """A loaded grammar with its query."""

    language: tree_sitter.Language
    query: tree_sitter.Query


Match = dict[str, list[tree_sitter.Node]]
"""One match of a query: its captures by name."""


@cache
def load(language: Language) -> Grammar | None:
    """The language's grammar; None where the table has none."""
    if not language.grammar:
        return None
    module = import_module(f"tree_sitter_{language.grammar}")
    entry: Callable[[], object] = getattr(module, language.entry)
    grammar = tree_sitter.Language(entry())
    return Grammar(grammar, tree_sitter.Query(grammar, _query(language.grammar)))


def _query(name: str) -> str:
    """The query of that name, with the one before it that its first line may name."""
    query = (files("composer_index.parsing") / "queries" / f"{name}.scm").read_text("utf-8")
    inherited = _INHERITS.match(query)
    return _query(inherited[1]) + query if inherited else query


def parse(language: Language, source: bytes) -> tree_sitter.Tree | None:
    """The source's tree by the language's grammar; None without one, and as `parse_tree`."""
    loaded = load(language)
    return parse_tree(language, loaded, source) if loaded else None


def parse_tree(
    language: Language,
    grammar: Grammar,
    source: bytes,
    ranges: Sequence[tree_sitter.Range] | None = None,
) -> tree_sitter.Tree | None:
    """The source's tree, or that of `ranges` of it; None where the parser would take too long or
    crash.

    `source` has LF line ends (`with_newlines`); the tree's bytes and rows are the source's own.
    """
    parts = [source[one.start_byte : one.end_byte] for one in ranges] if ranges else [source]
    if _is_hazardous(language, b"\n".join(parts)):
        return None
    num_bytes = sum(map(len, parts))
    reads = _READS + _READS_PER_BLOCK * (len(parts) + num_bytes // _BLOCK_BYTES)
    steps = _STEPS + num_bytes // _BYTES_PER_STEP

    def read(start: int, _point: object) -> bytearray:
        nonlocal reads
        reads -= 1
        block = source[start : start + _BLOCK_BYTES] if reads > 0 else b""
        return _BUFFERS.holding(block.translate(_ASCII) if language.is_ascii_only else block)

    def stop(_byte: int, _has_error: bool) -> bool:
        nonlocal steps
        steps -= 1
        return steps < 0 or reads <= 0

    try:
        parser = tree_sitter.Parser(grammar.language, included_ranges=ranges)
        tree = parser.parse(read, progress_callback=stop)
    except ValueError:  # Stopped.
        return None
    return tree if reads > 0 else None


class _Buffers(threading.local):
    """What the parser is given to read, one buffer a size: py-tree-sitter 0.26.1 keeps all that its
    callback returns for ever, so it is given the same ones again and again. It is done with one
    when it asks for the next."""

    def __init__(self) -> None:
        self._of_size: dict[int, bytearray] = {}

    def holding(self, block: bytes) -> bytearray:
        buffer = self._of_size.get(len(block))
        if buffer is None:
            buffer = self._of_size[len(block)] = bytearray(len(block))
        buffer[:] = block
        return buffer


_BUFFERS = _Buffers()


def matches(grammar: Grammar, tree: tree_sitter.Tree) -> list[Match]:
    """The query's matches in the tree, down to `_MAX_DEPTH`.

    A cursor takes quadratic time over the tokens of an error: beside a long one, only what stands
    whole right below the root is looked through.
    """
    cursor = tree_sitter.QueryCursor(grammar.query, match_limit=_MATCH_LIMIT)
    cursor.set_max_start_depth(_MAX_DEPTH)
    root = tree.root_node
    if root.has_error and _has_wide_error(root):
        roots = [child for child in root.named_children if not child.has_error]
    else:
        roots = [root]
    return [match for node in roots for _, match in cursor.matches(node)]


def _has_wide_error(root: tree_sitter.Node) -> bool:
    stack = [root]
    while stack:
        node = stack.pop()
        if node.is_error and node.child_count > _MAX_ERROR_CHILDREN:
            return True
        stack.extend(child for child in node.children if child.has_error)
    return False


def _is_hazardous(language: Language, source: bytes) -> bool:
    """Whether a scanner would overrun the 1,024 bytes for its state, or copy long states each step.

    tree-sitter-yaml issue 48 (about 250 open blocks; and issue 49: rows in 16 bits),
    tree-sitter-markdown issue 243 (about 250 open blocks), tree-sitter-ruby issue 269 (heredoc
    names of 256 bytes). That of tree-sitter-html copies every open tag.
    """
    if language.grammar == "html":
        return source.count(b"<") > _MAX_TAGS or _tag_depth(source) > _MAX_TAG_DEPTH
    if language.grammar == "yaml":
        rows = source.split(b"\n")
        return len(rows) > _MAX_YAML_ROWS or any(map(_nests_yaml, rows))
    if language.grammar == "markdown":
        return _MARKDOWN_NESTING.search(source) is not None
    return language.grammar == "ruby" and _RUBY_HEREDOC.search(source) is not None


def _tag_depth(source: bytes) -> int:
    """An upper bound of the open tags at any place, without looking at their names."""
    if source.count(b"<") <= _MAX_TAG_DEPTH:
        return 0
    steps = (-1 if tag[1] else 1 for tag in _TAG.finditer(source))
    return max(accumulate(steps), default=0)


def _nests_yaml(row: bytes) -> bool:
    if len(row) < _MAX_YAML_INDENT:
        return False
    indent = len(row) - len(row.lstrip(b" \t"))
    markers = sum(row.count(mark) for mark in (b"- ", b"? ", b": ", b"-\t", b"?\t", b":\t"))
    return indent > _MAX_YAML_INDENT or markers > _MAX_YAML_MARKERS
