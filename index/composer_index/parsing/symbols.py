"""What a tree defines and imports, and the identifiers of a text."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import cast, get_args

from tree_sitter import Node

from composer_index.chunk import DefinitionKind
from composer_index.languages import Language
from composer_index.parsing.grammar import Match
from composer_index.parsing.targets import targets
from composer_index.parsing.text import Lines

_KINDS = frozenset(get_args(DefinitionKind)) | {"scope"}
_HOLDERS = frozenset({"class", "interface", "enum", "scope"})
"""What makes methods of the functions in it."""
_ASIDES = frozenset({"module", "exports", "prototype", "this"})
"""Parts of a qualified name that a reader leaves out: `module.exports.run`, `A.prototype.run`."""
_STATEMENTS = frozenset({"constant", "variable", "field"})
_FUNCTIONS = frozenset({"function", "method"})
_MAX_NAME = 120
"""Characters of a name: a CSS selector or a heading may be long."""
_MAX_SIGNATURE = 240

_NEEDED = {
    "if.import": frozenset(
        {
            *("require", "require_relative", "load", "autoload", "import"),
            *("dofile", "loadfile", "source", "."),
        }
    ),
    "if.id": frozenset({"id"}),
    "if.src": frozenset({"src"}),
    "if.href": frozenset({"href"}),
    "if.link": frozenset({"link"}),
    "if.exports": frozenset({"exports", "module.exports"}),
    "if.define": frozenset({"define"}),
    "if.alias": frozenset({"alias"}),
    "if.attribute": frozenset({"attr_reader", "attr_writer", "attr_accessor"}),
    "if.method": frozenset({"define_method", "alias_method"}),
}
"""Captures that count only with one of these texts. The binding's own predicates would read the
source again through the parser's callback, byte by byte."""
_BARRED = {
    "unless.extern": re.compile(rb"extern\b"),
    "unless.filled": re.compile(rb"[^\s\"'>]*(?:<[?%]|\{[{%])"),
    "unless.blank": re.compile(rb"_\b"),
    "unless.require": re.compile(rb"(?:await\s+import|require)\b"),
}
"""Captures that do not count if they begin so: what only declares or imports defines nothing, nor does
a template that a name is put into."""

_QUALIFIER = re.compile(r"::|\.|:|\\")
_ARGUMENTS = re.compile(r"<(?:[^<>]|<[^<>]*>)*>(?=::)")
"""A template's, in a qualified name: `Box<T>::late`."""
_IDENTIFIER = re.compile(r"[^\W\d]\w*")
_HYPHENATED = re.compile(r"[^\W\d][\w-]*")
_COMMENT = re.compile(r"\s(?:#|//|--)\s.*")
_RECEIVER = re.compile(r"\w+")


@dataclass(slots=True)
class Found:
    """A definition in the tree. "scope" is one that lends its name, and is none itself."""

    kind: str
    name: str
    symbol: str
    start_byte: int
    end_byte: int
    body_byte: int
    """Where the body begins; `start_byte` without one."""
    parent: int = -1
    """Index of the definition around it, -1 outside of any."""

    @property
    def is_major(self) -> bool:
        """Whether it is more than a statement."""
        return self.kind not in _STATEMENTS


def definitions(
    found: Iterable[Match], lines: Lines, language: Language
) -> tuple[list[Found], dict[int, int]]:
    """The definitions in order of their start, and for the id of each one's nodes its index.

    A definition has a second node where decorators or `export` wrap it.
    """
    by_name: dict[int, tuple[Found, Node]] = {}
    outer: list[tuple[int, Node]] = []
    for match in found:
        names = match.get("name")
        if names is None or not _holds(match, lines):
            continue
        kind = next((key for key in match if key in _KINDS), "")
        for name in targets(names[0], is_called="outer" in match or kind not in _STATEMENTS):
            if "outer" in match:
                outer.extend((name.id, node) for node in match["outer"])
                continue
            known = by_name.get(name.id)
            if kind and (known is None or _is_better(kind, known[0])):
                node = match[kind][0]
                by_name[name.id] = _found(kind, name, node, match, lines), node
    # Dictionaries keep the order of their names' appearance where definitions share a node.
    ordered = _without_locals(
        sorted(by_name.items(), key=lambda one: (one[1][0].start_byte, -one[1][0].end_byte))
    )
    index_of_name = {name_id: index for index, (name_id, _) in enumerate(ordered)}
    index_of_node: dict[int, int] = {}
    for index, (_, (_, node)) in enumerate(ordered):
        index_of_node.setdefault(node.id, index)
    for name_id, node in outer:
        if name_id in index_of_name:
            index_of_node[node.id] = index_of_name[name_id]
    result = [one for _, (one, _) in ordered]
    _nest(result, language)
    return result, index_of_node


_Named = tuple[int, tuple[Found, Node]]
"""The id of the name's node, and what it names."""


def _without_locals(ordered: Iterable[_Named]) -> list[_Named]:
    """Without the variables that lie in a function."""
    kept: list[_Named] = []
    functions_end = 0
    for named in ordered:
        one = named[1][0]
        if one.kind in _FUNCTIONS:
            functions_end = max(functions_end, one.end_byte)
        if one.kind != "variable" or one.end_byte > functions_end:
            kept.append(named)
    return kept


def _holds(match: Match, lines: Lines) -> bool:
    """Whether the match's `@if.…` and `@unless.…` captures have the texts that they need."""
    for key, nodes in match.items():
        if key == "if.custom" and not _text(lines, nodes[0]).startswith("--"):
            return False
        if key in _NEEDED and _text(lines, nodes[0]) not in _NEEDED[key]:
            return False
        if key in _BARRED and _BARRED[key].match(lines.source, nodes[0].start_byte):
            return False
    return True


def _is_better(kind: str, known: Found) -> bool:
    """Of two readings of a name, a function or class beats a constant, a struct its alias."""
    return known.kind in _STATEMENTS or (known.kind == "type" and kind not in _STATEMENTS)


def _found(kind: str, name: Node, node: Node, match: Match, lines: Lines) -> Found:
    text = _text(lines, name)[: _MAX_NAME * 4]
    if "\n" in text or " " in text:
        text = " ".join(text.split())
    if kind != "heading":
        text = text.strip("\"'`")
    text = text[:_MAX_NAME]
    if "if.alias" in match:
        text = text.partition("=")[0]
    if name.type == "operator_cast":
        text = text.partition("(")[0].rstrip()
    owner = match.get("owner")
    if owner:
        receiver = _RECEIVER.search(_text(lines, owner[0]))
        text = f"{receiver[0]}.{text}" if receiver else text
    body = match.get("body")
    return Found(
        kind=kind,
        name=text,
        symbol=text,
        start_byte=node.start_byte,
        end_byte=node.end_byte,
        body_byte=body[0].start_byte if body else node.start_byte,
    )


def _nest(ordered: list[Found], language: Language) -> None:
    """Gives each its parent and its full symbol, and shortens the name to its last part."""
    open_: list[int] = []
    for index, one in enumerate(ordered):
        while open_ and not _holds_whole(ordered[open_[-1]], one):
            open_.pop()
        parts = [one.name] if language.has_hyphens or language.is_prose else _parts(one.name)
        one.parent = open_[-1] if open_ else -1
        while one.parent >= 0 and _is_no_scope(ordered[one.parent], one):
            one.parent = ordered[one.parent].parent
        if one.parent >= 0:
            above = ordered[one.parent]
            parts.insert(0, above.symbol)
            if one.kind == "function" and above.kind in _HOLDERS:
                one.kind = "method"
        one.symbol = language.separator.join(parts)
        one.name = parts[-1]
        if one.kind == "variable" and len(one.name) > 1 and one.name.isupper():
            one.kind = "constant"
        open_.append(index)


def _holds_whole(above: Found, one: Found) -> bool:
    """Whether `one` lies in `above`; names that one statement defines lie beside each other."""
    return one.end_byte <= above.end_byte and (above.start_byte, above.end_byte) != (
        one.start_byte,
        one.end_byte,
    )


def _is_no_scope(above: Found, one: Found) -> bool:
    """Whether `one` lies in `above` and yet beside it: `typedef struct a {} b` defines `a`, not
    `b.a`; a field among a constructor's parameters is its class's."""
    if one.kind in _HOLDERS:
        return above.kind == "type" or above.kind in _STATEMENTS
    return one.kind == "field" and above.kind in _FUNCTIONS


def _parts(name: str) -> list[str]:
    parts = [part for part in _QUALIFIER.split(_ARGUMENTS.sub("", name)) if part]
    return [part for part in parts[:-1] if part not in _ASIDES] + parts[-1:] or [name]


def signature(one: Found, lines: Lines) -> str:
    """The definition's head on one line: up to its body, or its first line."""
    end = one.body_byte
    if end <= one.start_byte:
        end = min(one.end_byte, lines.starts[lines.row_of(one.start_byte) + 1])
    head = lines.source[one.start_byte : min(end, one.start_byte + 4 * _MAX_SIGNATURE)]
    text = _COMMENT.sub("", head.decode("utf-8", "replace"))
    return " ".join(text.split()).rstrip(" {:=")[:_MAX_SIGNATURE]


def imports(found: Iterable[Match], lines: Lines) -> tuple[str, ...]:
    """The modules or paths that the matches import, distinct, in order."""
    names: dict[str, None] = {}
    for match in found:
        nodes = match.get("import")
        if nodes is None or not _holds(match, lines):
            continue
        module = "".join(_text(lines, nodes[0]).split()).strip("\"'`<>()")
        if module:
            names[module] = None
        for member in match.get("member", ()):
            dot = "" if module.endswith(".") else "."
            names[f"{module}{dot}{_text(lines, member)}"] = None
    return tuple(names)


def identifiers(text: str, language: Language) -> tuple[str, ...]:
    """The distinct identifiers of a text, in order: every word that could be one."""
    pattern = _HYPHENATED if language.has_hyphens else _IDENTIFIER
    return tuple(dict.fromkeys(cast("list[str]", pattern.findall(text))))


def _text(lines: Lines, node: Node) -> str:
    return lines.source[node.start_byte : node.end_byte].decode("utf-8", "replace")
