"""Functions that say in prose what they do: what the evaluation asks for, and the table learns from.

Prose is Python's docstring; elsewhere the comment that ends on the line above the function, or
above its decorators and attributes.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from tree_sitter import Node, Query, QueryCursor

from composer_index.languages import language_of
from composer_index.parsing.grammar import Grammar, load, parse_tree
from composer_index.parsing.text import with_newlines


@dataclass(frozen=True, kw_only=True, slots=True)
class _Patterns:
    functions: tuple[str, ...]
    """Functions with a body."""
    others: tuple[str, ...] = ()
    """What else carries prose: it is no target, but its prose is taken out too."""


_JAVASCRIPT = (
    "(function_declaration)",
    "(generator_function_declaration)",
    "(method_definition)",
    "(variable_declarator value: [(arrow_function) (function_expression)])",
    "(assignment_expression right: [(arrow_function) (function_expression)])",
    "(pair value: [(arrow_function) (function_expression)])",
    "(field_definition value: [(arrow_function) (function_expression)])",
)
_TYPES = ("(class_declaration)", "(interface_declaration)", "(enum_declaration)")
_OF_JAVASCRIPT = _Patterns(functions=_JAVASCRIPT, others=("(class_declaration)",))
_OF_TYPESCRIPT = _Patterns(
    functions=(*_JAVASCRIPT[:-1], _JAVASCRIPT[-1].replace("field_", "public_field_")),
    others=(
        *_TYPES,
        "(abstract_class_declaration)",
        "(type_alias_declaration)",
        "(function_signature)",
        "(method_signature)",
        "(abstract_method_signature)",
    ),
)

_PATTERNS = {
    "python": _Patterns(
        functions=("(function_definition)",), others=("(class_definition)", "(module)")
    ),
    "javascript": _OF_JAVASCRIPT,
    "javascriptreact": _OF_JAVASCRIPT,
    "typescript": _OF_TYPESCRIPT,
    "typescriptreact": _OF_TYPESCRIPT,
    "c": _Patterns(functions=("(function_definition)",), others=("(declaration)",)),
    "cpp": _Patterns(
        functions=("(function_definition)",),
        others=("(declaration)", "(field_declaration)", "(class_specifier)"),
    ),
    "go": _Patterns(
        functions=("(function_declaration)", "(method_declaration)"),
        others=("(type_declaration)",),
    ),
    "rust": _Patterns(
        functions=("(function_item)",),
        others=("(struct_item)", "(enum_item)", "(trait_item)", "(function_signature_item)"),
    ),
    "java": _Patterns(
        functions=("(method_declaration body: (_))", "(constructor_declaration)"),
        others=(*_TYPES, "(method_declaration !body)"),
    ),
    "ruby": _Patterns(functions=("(method)", "(singleton_method)"), others=("(class)", "(module)")),
    "php": _Patterns(
        functions=("(function_definition)", "(method_declaration body: (_))"), others=_TYPES
    ),
}
"""By LSP language id."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Documented:
    """A function or type with its prose; all offsets are bytes of the source."""

    name: str
    is_function: bool
    start: int
    end: int
    """Of the definition; a docstring lies inside, a comment before."""
    prose_start: int
    prose_end: int
    is_all: bool
    """The docstring is the whole body."""
    prose: str
    """As written, markers included."""


def find_documented(path: str, source: bytes) -> list[Documented]:
    """Returns the definitions of `source` that carry prose, in its order; none for languages whose
    prose is not understood, nor where the parser gives up."""
    language = language_of(path, source[:1024])
    grammar = load(language) if language.id in _PATTERNS else None
    tree = parse_tree(language, grammar, with_newlines(source)) if grammar else None
    if grammar is None or tree is None:
        return []
    found = QueryCursor(_query(language.id, grammar)).captures(tree.root_node)
    documented = [
        one
        for capture, nodes in found.items()
        for node in nodes
        if (one := _documented(language.id, node, capture == "function", source)) is not None
    ]
    return sorted(documented, key=lambda one: one.prose_start)


def first_sentence(prose: str) -> str:
    """Returns the first sentence of a docstring or comment, its markers and markup taken off."""
    lines: list[str] = []
    for line in _unmarked_lines(prose):
        if not line or _SECTION.match(line):
            if lines:
                break
            continue
        lines.append(line)
    text = _MARKUP.sub(lambda match: match[1] or match[2] or " ", " ".join(lines))
    text = re.sub(r"\s+", " ", text).strip()
    end = _END.match(text)
    return (end[1] if end else text).rstrip(".:").strip()


def is_telling(sentence: str) -> bool:
    """Whether somebody could search by it: 4 to 40 words of prose, no pointer or remark."""
    letters = sum(map(str.isalpha, sentence))
    return (
        4 <= len(sentence.split()) <= 40
        and letters > 0.7 * len(sentence.replace(" ", ""))
        and _REMARK.search(sentence) is None
    )


_SECTION = re.compile(
    r"[@\\](?!(?:brief|description|desc|summary)\b)\w|:\w+[^:]*:|[-=~*#+]{3,}|>>>|```"
)
_MARKUP = re.compile(
    r"\{@\w+\s+([^}|\s]*)[^}]*\}|:\w+:`~?([^`<]*)[^`]*`|</?\w[^>]*>|[@\\](?:brief|description|desc|summary)\b|``?"
)
_REMARK = re.compile(
    r"TODO|XXX|FIXME|deprecated|copyright|licen[sc]e|all rights reserved|^see |^this is |inheritdoc"
    r"|eslint|-----|====",
    re.IGNORECASE,
)
_END = re.compile(r"(.+?(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)(?<!\betc)[.!?:])(?:\s|$)")
_MARKERS = re.compile(r"^\s*(?:/\*+!?|\*+/|\*+|//[/!]?|#+:?)?\s*|\s*\*+/\s*$")
_DOCSTRING = re.compile(r"^[rRbBuU]*(\"\"\"|'''|\"|')(.*?)\1?$", re.DOTALL)


def _unmarked_lines(prose: str) -> Iterator[str]:
    if (docstring := _DOCSTRING.match(prose)) is not None:
        yield from map(str.strip, docstring[2].splitlines())
    else:
        for line in prose.splitlines():
            yield _MARKERS.sub("", line).strip()


@cache
def _query(language: str, grammar: Grammar) -> Query:
    patterns = _PATTERNS[language]
    functions = " ".join(f"{pattern} @function" for pattern in patterns.functions)
    others = " ".join(f"{pattern} @other" for pattern in patterns.others)
    return Query(grammar.language, f"{functions} {others}")


def _documented(language: str, node: Node, is_function: bool, source: bytes) -> Documented | None:
    is_all = False
    if language == "python":
        docstring = _docstring(node)
        if docstring is None:
            return None
        first = last = docstring
        body = docstring.parent and docstring.parent.parent
        is_all = body is not None and body.type == "block" and body.named_child_count == 1
    else:
        comments = _comments_above(node)
        if not comments:
            return None
        first, last = comments[0], comments[-1]
    return Documented(
        name=_name(node, source),
        is_function=is_function,
        start=node.start_byte,
        end=node.end_byte,
        prose_start=first.start_byte,
        prose_end=last.end_byte,
        is_all=is_all,
        prose=source[first.start_byte : last.end_byte].decode("utf-8", "replace"),
    )


def _docstring(node: Node) -> Node | None:
    body = node if node.type == "module" else node.child_by_field_name("body")
    for child in body.named_children if body is not None else ():
        if child.type == "comment":
            continue
        string = child.named_child(0) if child.type == "expression_statement" else None
        if string is not None and string.type == "string" and child.named_child_count == 1:
            return string
        return None
    return None


_WRAPPERS = {
    "export_statement",
    "lexical_declaration",
    "variable_declaration",
    "expression_statement",
    "template_declaration",
    "assignment_expression",
    "variable_declarator",
}


def _comments_above(node: Node) -> list[Node]:
    """The comments whose last line touches the definition's first, in order."""
    while node.parent is not None and node.parent.type in _WRAPPERS:
        node = node.parent
    comments: list[Node] = []
    row = node.start_point.row
    above = node.prev_sibling
    while above is not None:
        is_comment = "comment" in above.type
        # A line comment of Rust ends at column 0 of the next line.
        end_row = above.end_point.row - (above.end_point.column == 0)
        if end_row < row - 1 or not (is_comment or above.type in ("attribute_item", "decorator")):
            break
        before = above.prev_sibling
        if is_comment:
            if before is not None and _trails(above, before):
                break
            comments.append(above)
        row = above.start_point.row
        above = before
    return comments[::-1]


def _trails(comment: Node, before: Node) -> bool:
    """Whether a comment is about the code that it shares a line with."""
    return (
        before.end_point.row == comment.start_point.row
        and before.end_point.column > 0
        and "comment" not in before.type
    )


def _name(node: Node, source: bytes) -> str:
    for field in ("name", "left", "key"):
        if (named := node.child_by_field_name(field)) is not None:
            return _text(named, source)
    declarator = node.child_by_field_name("declarator")
    while declarator is not None:
        inner = declarator.child_by_field_name("declarator")
        if inner is None:
            return _text(declarator, source)
        declarator = inner
    return ""


def _text(node: Node, source: bytes) -> str:
    # Not `node.text`: it asks for the source as `parse_tree` reads it, and would crash.
    return source[node.start_byte : node.end_byte].decode("utf-8", "replace")[:80]
