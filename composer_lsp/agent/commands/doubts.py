"""Where tree-sitter's grammar may have read a line otherwise than bash does, or where what runs is
not in the tree at all. Each doubt is a reason why the line is unknown, as in "computes".

Only nodes that are known pass without a doubt. The grammar skips blanks and splits words where
bash does not, so what stands between the nodes is looked at too.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import tree_sitter

MAX_DEPTH = 100
"""Of a tree that is looked into."""


def _kinds(text: str) -> frozenset[str]:
    return frozenset(text.split())


_GROUPS = _kinds(
    "program list pipeline subshell negated_command if_statement elif_clause else_clause "
    "while_statement do_group case_statement case_item command_substitution process_substitution "
    "function_definition compound_statement"
)
"""What only holds other commands."""
_READ = _kinds(
    "command redirected_statement file_redirect heredoc_redirect herestring_redirect "
    "variable_assignment for_statement declaration_command"
)
"""What the reader of the tree looks into itself."""
_WORDS = _kinds(
    "word number string raw_string ansi_c_string concatenation simple_expansion expansion "
    "string_content special_variable_name variable_name regex heredoc_start heredoc_content "
    "heredoc_end heredoc_body comment file_descriptor test_command test_operator binary_expression "
    "unary_expression parenthesized_expression command_name array extglob_pattern"
)
_WHOLE_WORDS = _kinds(
    "$ word number string raw_string ansi_c_string concatenation simple_expansion expansion "
    "command_substitution process_substitution arithmetic_expansion brace_expression command_name"
)
_LEAVES = _kinds("string_content word regex heredoc_content heredoc_body")
_TEXTS = _kinds("word number string raw_string ansi_c_string expansion heredoc_body comment regex")
"""Nodes that may hold more than their children."""

_BLANK = re.compile(rb"(?:[ \t\n]|\\\n)*")
_BLANK_IN_LINE = re.compile(rb"(?:[ \t]|\\\n)*")
_NO_BLANK = re.compile(rb"")
_BLANKS = {
    **dict.fromkeys(_kinds("simple_expansion concatenation"), _NO_BLANK),
    **dict.fromkeys(
        _kinds(
            "command declaration_command file_redirect herestring_redirect redirected_statement "
            "test_command variable_assignment negated_command"
        ),
        _BLANK_IN_LINE,
    ),
}
"""What may stand between a node's children; elsewhere blanks of any kind."""
_AROUND_WORDS = b" \t\n;&|()"

_ENDS_WORD = re.compile(r"(?<!\\)[ \t\n|&;<>()]")
_LIVE_TEXT = re.compile(r"`|\$[({]")
_EXPANSION_OPERATORS = _kinds(":- - :+ + :? ? # ## % %% / // ^ ^^ , ,,")
_ENDS_TEST = _kinds("| & || && < > ( ) ;")
"""Of `[`, which is a program; `[[` is a part of the language."""
_NUMERIC_TESTS = _kinds("-eq -ne -lt -le -gt -ge")
_NUMBER = re.compile(r"-?\d+|\"?\$[?#]\"?")


def doubts(node: tree_sitter.Node, source: bytes) -> Iterator[str]:
    """About a node, without those below it. `source`: what the tree was read from."""
    if node.parent is None:
        yield from _of_gap(source, 0, node.start_byte)
        yield from _of_gap(source, node.end_byte, len(source))
    if node.is_named and node.type not in _GROUPS | _WORDS | _READ:
        yield f"uses a construct that is not looked into ({node.type})"
    yield from _of_kind(node, source)
    if node.children and node.type not in _TEXTS:
        yield from _of_children(node, source)


def text_of(node: tree_sitter.Node, source: bytes) -> str:
    return source[node.start_byte : node.end_byte].decode("utf-8", "surrogatepass")


def descendants(node: tree_sitter.Node) -> list[tree_sitter.Node]:
    """Down to `MAX_DEPTH`."""
    found: list[tree_sitter.Node] = []
    level: Sequence[tree_sitter.Node] = [node]
    for _ in range(MAX_DEPTH):
        level = [child for parent in level for child in parent.children]
        found += level
    return found


def _of_kind(node: tree_sitter.Node, source: bytes) -> Iterator[str]:
    kind = node.type
    if kind == "expansion":
        yield from _of_expansion(node, source)
    elif kind == "test_command":
        yield from _of_test(node, source)
    elif kind == "negated_command":
        yield from _of_border(source, node.children[0].end_byte)
    elif kind == "file_descriptor":
        yield from _of_border(source, node.start_byte)
        if not text_of(node, source).isdecimal():
            yield "redirects a stream that is not looked into"
    elif kind == "compound_statement" and node.children[0].type == "((":
        yield "computes"
    elif kind in _LEAVES:
        yield from _of_leaf(node, source)


def _of_children(node: tree_sitter.Node, source: bytes) -> Iterator[str]:
    blank = _BLANKS.get(node.type, _BLANK)
    at = node.start_byte
    for child in node.children:
        yield from _of_gap(source, at, child.start_byte, blank)
        at = child.end_byte
    yield from _of_gap(source, at, node.end_byte, blank)
    if blank is not _BLANK_IN_LINE:
        return
    for before, after in pairwise(node.children):
        are_words = before.type in _WHOLE_WORDS and after.type in _WHOLE_WORDS
        if are_words and before.end_byte == after.start_byte:
            yield "has words that cannot be told apart"


def _of_gap(
    source: bytes, start: int, end: int, blank: re.Pattern[bytes] = _BLANK
) -> Iterator[str]:
    if start < end and not blank.fullmatch(source, start, end):
        yield "has blanks that the shell may read otherwise"


def _of_border(source: bytes, at: int) -> Iterator[str]:
    """Whether a word may go on over a position."""
    before, after = source[at - 1 : at], source[at : at + 1]
    if before.strip(_AROUND_WORDS) and after.strip(_AROUND_WORDS):
        yield "has signs that are part of a word"


def _of_leaf(node: tree_sitter.Node, source: bytes) -> Iterator[str]:
    """Text that bash may still expand although the grammar found nothing in it."""
    text = text_of(node, source)
    if node.type == "word" and _ENDS_WORD.search(text):
        yield "has blanks that the shell may read otherwise"
    if node.child_count == 0 and _LIVE_TEXT.search(text) and not _is_quoted_here(node, source):
        yield "holds expansions that are not looked into"


def _is_quoted_here(node: tree_sitter.Node, source: bytes) -> bool:
    """The body of a here-document whose end is quoted: nothing in it is expanded."""
    if node.type != "heredoc_body" or node.parent is None:
        return False
    starts = [child for child in node.parent.children if child.type == "heredoc_start"]
    return len(starts) == 1 and any(char in text_of(starts[0], source) for char in "'\"\\")


def _of_expansion(node: tree_sitter.Node, source: bytes) -> Iterator[str]:
    """`${…}` may yield a variable's text, but neither compute nor assign."""
    named = [child.type for child in node.children if child.is_named]
    operators = {text_of(child, source) for child in node.children_by_field_name("operator")}
    is_plain = bool(named) and named[0] in ("variable_name", "special_variable_name")
    if not is_plain or not operators <= _EXPANSION_OPERATORS or "${!" in text_of(node, source):
        yield "expands a variable in a way that is not looked into"


def _of_test(node: tree_sitter.Node, source: bytes) -> Iterator[str]:
    yield from _of_border(source, node.children[0].end_byte)
    yield from _of_border(source, node.children[-1].start_byte)
    inner = descendants(node)
    if node.children[0].type == "[" and any(child.type in _ENDS_TEST for child in inner):
        yield "has signs that end a test"
    for child in inner:
        if child.type != "test_operator" and child.type not in _NUMERIC_TESTS:
            continue
        operator = text_of(child, source)
        if operator in ("-v", "-R"):
            yield "tests a computed name"
        around = [text_of(other, source) for other in (child.parent or node).children]
        if operator in _NUMERIC_TESTS and not all(
            _NUMBER.fullmatch(text) for text in around if text != operator
        ):
            yield "computes"
