"""From a shell command line to the programs that it would run.

Bash decides what runs, and tree-sitter's grammar is not bash: so what the grammar does not know for
sure, or is known to read otherwise than bash, makes the line unknown. The tests hold the two
together by running lines in a bash without programs.
"""

import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import tree_sitter

from composer_index.languages import Language, language_of
from composer_index.parsing.grammar import Grammar, load, parse_tree
from composer_lsp.agent.commands import wrappers
from composer_lsp.agent.commands.command import Assignment, Command, Program, Redirect
from composer_lsp.agent.commands.words import Word, literal, read_word

_MAX_LINE_CHARS = 20_000
_MAX_DEPTH = 100
"""Of the tree, over all the lines inside of the line."""
_MAX_PROGRAMS = 500
_JOINED_LINES = re.compile(r"(?:[^ \t\n]|\\[ \t]|^)\\\n")
_BLANK = re.compile(rb"(?:[ \t\n]|\\\n)*")
_BLANK_IN_LINE = re.compile(rb"(?:[ \t]|\\\n)*")
_NO_BLANK = re.compile(rb"")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_ENDS_WORD = re.compile(r"(?<!\\)[ \t\n|&;<>()]")
_LIVE_TEXT = re.compile(r"`|\$[({]")

_GROUPS = frozenset(
    [
        "program",
        "list",
        "pipeline",
        "subshell",
        "negated_command",
        "if_statement",
        "elif_clause",
        "else_clause",
        "while_statement",
        "do_group",
        "case_statement",
        "case_item",
        "command_substitution",
        "process_substitution",
        "function_definition",
        "compound_statement",
    ]
)
"""What only holds other commands."""
_WORDS = frozenset(
    [
        "word",
        "number",
        "string",
        "raw_string",
        "ansi_c_string",
        "concatenation",
        "simple_expansion",
        "expansion",
        "string_content",
        "special_variable_name",
        "variable_name",
        "regex",
        "heredoc_start",
        "heredoc_content",
        "heredoc_end",
        "heredoc_body",
        "comment",
        "file_descriptor",
        "test_operator",
        "binary_expression",
        "unary_expression",
        "parenthesized_expression",
        "command_name",
        "array",
        "extglob_pattern",
    ]
)
_WORDS_OF_BASH = frozenset(
    [
        "$",
        "word",
        "number",
        "string",
        "raw_string",
        "ansi_c_string",
        "concatenation",
        "simple_expansion",
        "expansion",
        "command_substitution",
        "process_substitution",
        "arithmetic_expansion",
        "brace_expression",
        "command_name",
    ]
)
_TEXTS = frozenset(
    [
        "word",
        "number",
        "string",
        "raw_string",
        "ansi_c_string",
        "expansion",
        "heredoc_body",
        "heredoc_redirect",
        "comment",
        "regex",
    ]
)
"""Nodes that may hold more than their children."""
_BLANKS = {
    **dict.fromkeys(("simple_expansion", "concatenation"), _NO_BLANK),
    **dict.fromkeys(
        [
            "command",
            "declaration_command",
            "file_redirect",
            "herestring_redirect",
            "redirected_statement",
            "test_command",
            "variable_assignment",
            "negated_command",
        ],
        _BLANK_IN_LINE,
    ),
}
"""What may stand between a node's children; elsewhere blanks of any kind."""
_RESERVED = frozenset(
    [
        "!",
        "[[",
        "]]",
        "{",
        "}",
        "case",
        "coproc",
        "do",
        "done",
        "elif",
        "else",
        "esac",
        "fi",
        "for",
        "function",
        "if",
        "in",
        "select",
        "then",
        "until",
        "while",
    ]
)
_EXPANSION_OPERATORS = frozenset(
    [":-", "-", ":+", "+", ":?", "?", "#", "##", "%", "%%", "/", "//", "^", "^^", ",", ",,"]
)
_DECLARING_OPTIONS = frozenset(["-x", "-r", "-g", "-a", "-A", "-p"])
_ENDS_TEST = frozenset(["|", "&", "||", "&&", "<", ">", "(", ")", ";"])
"""Of `[`, which is a program; `[[` is a part of the language."""
_NUMERIC_TESTS = frozenset(["-eq", "-ne", "-lt", "-le", "-gt", "-ge"])
_NUMBER = re.compile(r"-?\d+|\"?\$[?#]\"?")


def parse(line: str) -> Command:
    """Never raises: what cannot be parsed is `unknown`."""
    reader = _Reader()
    reader.read(line, 0)
    return Command(
        line=line,
        programs=tuple(reader.programs),
        redirects=tuple(reader.redirects),
        assignments=tuple(reader.assignments),
        unknown=tuple(dict.fromkeys(reader.unknown)),
        fork_bombs=tuple(reader.fork_bombs),
    )


@cache
def _grammar() -> tuple[Language, Grammar]:
    language = language_of("x.sh", b"")
    grammar = load(language)
    assert grammar is not None
    return language, grammar


def _why_unreadable(line: str) -> str | None:
    if len(line) > _MAX_LINE_CHARS:
        return f"is longer than {_MAX_LINE_CHARS} characters"
    if any(not char.isprintable() and char not in " \n\t" for char in line):
        return "holds characters that cannot be seen"
    if any(char.isspace() and char not in " \n\t" for char in line):
        return "holds blanks that the shell does not take for blanks"
    if _JOINED_LINES.search(line):
        return "goes on in the next line in the middle of a word"
    return None


class _Reader:
    """Collects what a line runs. Positions count bytes of the line in hand."""

    def __init__(self) -> None:
        self.programs: list[Program] = []
        self.redirects: list[Redirect] = []
        self.assignments: list[Assignment] = []
        self.unknown: list[str] = []
        self.fork_bombs: list[str] = []
        self._source = b""

    def read(self, line: str, depth: int) -> None:
        """A line, or one that a word of it holds."""
        if (why := _why_unreadable(line)) is not None:
            self.unknown.append(why)
            return
        outer, self._source = self._source, line.encode("utf-8", "surrogatepass")
        language, grammar = _grammar()
        tree = parse_tree(language, grammar, self._source)
        if tree is None or tree.root_node.has_error:
            self.unknown.append("cannot be parsed")
        if tree is not None:
            self._check_gap(0, tree.root_node.start_byte)
            self._check_gap(tree.root_node.end_byte, len(self._source))
            self._visit(tree.root_node, depth)
        self._source = outer

    def _text(self, node: tree_sitter.Node) -> str:
        return self._source[node.start_byte : node.end_byte].decode("utf-8", "surrogatepass")

    def _word(self, node: tree_sitter.Node) -> Word:
        return read_word(self._text(node))

    def _visit(self, node: tree_sitter.Node, depth: int) -> None:
        """A node and all below it."""
        if depth > _MAX_DEPTH or len(self.programs) > _MAX_PROGRAMS:
            self.unknown.append("is nested too deeply or too long")
            return
        kind = node.type
        if kind == "command":
            self._program(node, depth)
        elif kind == "redirected_statement":
            self._redirected(node, depth)
        elif kind == "file_redirect":
            self._file_redirect(node)
        elif kind == "variable_assignment":
            self._assignment(node, is_exported=False)
        elif kind == "for_statement":
            self._loop(node)
        elif kind == "declaration_command":
            self._declaration(node)
        elif kind == "function_definition":
            self._function(node)
        else:
            self._check(node)
        if node.children and kind not in _TEXTS:
            self._check_gaps(node)
        for child in node.children:
            self._visit(child, depth + 1)

    def _check_gaps(self, node: tree_sitter.Node) -> None:
        """The grammar skips blanks that bash does not: escaped ones, ends of lines, and those
        within a word."""
        blank = _BLANKS.get(node.type, _BLANK)
        at = node.start_byte
        for before, child in pairwise([None, *node.children]):
            assert child is not None
            self._check_gap(at, child.start_byte, blank)
            at = child.end_byte
            if before is not None and before.end_byte == child.start_byte:
                self._check_border(node, before, child)
        self._check_gap(at, node.end_byte, blank)

    def _check_border(
        self, node: tree_sitter.Node, before: tree_sitter.Node, after: tree_sitter.Node
    ) -> None:
        """The grammar may take one word for two."""
        if blank := _BLANKS.get(node.type):
            is_word = before.type in _WORDS_OF_BASH and after.type in _WORDS_OF_BASH
            if is_word and blank is not _NO_BLANK:
                self.unknown.append("has words that cannot be told apart")

    def _check_gap(self, start: int, end: int, blank: re.Pattern[bytes] = _BLANK) -> None:
        if start < end and not blank.fullmatch(self._source, start, end):
            self.unknown.append("has blanks that the shell may read otherwise")

    def _check_apart(self, at: int) -> None:
        """That a word ends, or begins, at a position."""
        before, after = self._source[at - 1 : at], self._source[at : at + 1]
        if before.strip(b" \t\n;&|()") and after.strip(b" \t\n;&|()"):
            self.unknown.append("has signs that are part of a word")

    def _check(self, node: tree_sitter.Node) -> None:
        """A node that says nothing by itself: whether it is one that cannot do harm."""
        kind = node.type
        if kind == "expansion":
            self._expansion(node)
        elif kind == "test_command":
            self._check_apart(node.children[0].end_byte)
            self._check_apart(node.children[-1].start_byte)
            self._test(node)
        elif kind == "negated_command":
            self._check_apart(node.children[0].end_byte)
        elif kind == "file_descriptor":
            self._check_apart(node.start_byte)
            if not self._text(node).isdecimal():
                self.unknown.append("redirects a stream that is not looked into")
        elif kind == "compound_statement" and self._text(node).startswith("(("):
            self.unknown.append("computes")
        elif kind in ("string_content", "word", "regex", "heredoc_content", "heredoc_body"):
            self._leaf(node)
        elif node.is_named and kind not in _GROUPS | _WORDS | _HERE:
            self.unknown.append(f"uses a construct that is not looked into ({kind})")

    def _leaf(self, node: tree_sitter.Node) -> None:
        """Text that bash may still expand although the grammar found nothing in it."""
        is_quoted_here_document = node.type == "heredoc_body" and not node.children
        if is_quoted_here_document and self._is_quoted_here(node):
            return
        if node.type == "word" and _ENDS_WORD.search(self._text(node)):
            self.unknown.append("has blanks that the shell may read otherwise")
        if node.child_count == 0 and _LIVE_TEXT.search(self._text(node)):
            self.unknown.append("holds expansions that are not looked into")

    def _is_quoted_here(self, node: tree_sitter.Node) -> bool:
        starts = [child for child in (node.parent or node).children if child.type == _HERE_START]
        return len(starts) == 1 and any(char in self._text(starts[0]) for char in "'\"\\")

    def _program(self, node: tree_sitter.Node, depth: int, more: Sequence[Word] = ()) -> None:
        """`more`: arguments written after a redirect."""
        assignments: list[Assignment] = []
        words: list[Word] = []
        for child in node.children:
            if child.type == "variable_assignment":
                assignments.append(self._assigned(child, is_exported=True))
            elif not child.type.endswith("_redirect"):
                words.append(self._word(child))
        self._run([*words, *more], assignments, depth)

    def _run(self, words: list[Word], assignments: list[Assignment], depth: int) -> None:
        if not words:
            return
        if words[0].source in _RESERVED:
            self.unknown.append(f"uses {words[0].source} in a way that is not looked into")
            return
        if not words[0].is_literal or not words[0].text:
            self.unknown.append("runs a program whose name is not known before it runs")
            return
        try:
            runs_others = self._look_into(words, depth)
        except wrappers.OpaqueError as error:
            self.unknown.append(str(error))
            runs_others = False
        self.programs.append(Program(tuple(words), tuple(assignments), runs_others))

    def _look_into(self, words: list[Word], depth: int) -> bool:
        """Read what a wrapper runs; whether it does nothing else."""
        name, args = (words[0].text or "").rpartition("/")[2], words[1:]
        if depth > _MAX_DEPTH:
            raise wrappers.OpaqueError("is nested too deeply")
        if name in wrappers.SHELLS:
            script = wrappers.shell_script(args)
            if script is not None:
                self.read(script.text or "", depth + 10)
            return script is not None
        if name == "eval":
            args = args[1:] if args and args[0].text == "--" else args
            if not all(word.is_literal for word in args):
                raise wrappers.OpaqueError("evaluates text that is not known before it runs")
            self.read(" ".join(word.text or "" for word in args), depth + 10)
            return True
        if name == "trap" and args:
            return self._trap(args, depth)
        if name == "find":
            for inner in wrappers.run_by_find(args):
                self._run(inner, [], depth + 1)
            return False
        wrapper = wrappers.WRAPPERS.get(name)
        if wrapper is None:
            return False
        assigned, inner = wrappers.wrapped(wrapper, args)
        if inner:
            pairs = (text.split("=", 1) for text in assigned)
            exported = [Assignment(key, literal(value), True) for key, value in pairs]
            self._run(inner, exported, depth + 1)
        return bool(inner) and wrapper.is_transparent

    def _trap(self, args: list[Word], depth: int) -> bool:
        if not args[0].is_literal or args[0].text is None:
            raise wrappers.OpaqueError("traps a signal with text that is not known")
        if args[0].text != "-":
            self.read(args[0].text, depth + 10)
        return True

    def _redirected(self, node: tree_sitter.Node, depth: int) -> None:
        """The grammar takes arguments that follow a redirect for further targets of it."""
        extra = [
            self._word(target)
            for redirect in node.children_by_field_name("redirect")
            for target in (
                *redirect.children_by_field_name("destination")[1:],
                *redirect.children_by_field_name("argument"),
            )
        ]
        body = node.child_by_field_name("body")
        if not extra:
            return
        if body is None or body.type != "command":
            self.unknown.append("has words after a redirect")
            return
        self._program(body, depth, extra)

    def _file_redirect(self, node: tree_sitter.Node) -> None:
        targets = node.children_by_field_name("destination")
        if targets and targets[0].type != "process_substitution":
            operators = [child for child in node.children if not child.is_named]
            operator = self._text(operators[0]) if operators else "?>"
            self.redirects.append(Redirect(operator, self._word(targets[0])))

    def _assignment(self, node: tree_sitter.Node, *, is_exported: bool) -> None:
        if node.parent is not None and node.parent.type == "command":
            return
        self.assignments.append(self._assigned(node, is_exported=is_exported))

    def _assigned(self, node: tree_sitter.Node, *, is_exported: bool) -> Assignment:
        name = node.child_by_field_name("name")
        value = node.child_by_field_name("value")
        if name is None or not _NAME.fullmatch(self._text(name)):
            self.unknown.append("assigns to a computed place")
        text = "" if name is None else self._text(name)
        return Assignment(text, literal("") if value is None else self._word(value), is_exported)

    def _loop(self, node: tree_sitter.Node) -> None:
        variable = node.child_by_field_name("variable")
        if variable is None:
            self.unknown.append("has a loop that is not looked into")
            return
        self.assignments.append(Assignment(self._text(variable), read_word("$x"), False))

    def _declaration(self, node: tree_sitter.Node) -> None:
        for child in node.children[1:]:
            if child.type == "word" and self._text(child) in _DECLARING_OPTIONS:
                continue
            if child.type not in ("variable_name", "variable_assignment"):
                self.unknown.append("declares what is not looked into")

    def _function(self, node: tree_sitter.Node) -> None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is None or body is None:
            return
        calls = [
            child
            for child in _descendants(body)
            if child.type == "command_name" and self._text(child) == self._text(name)
        ]
        is_background = any(child.type == "&" for child in _descendants(body))
        if calls and (is_background or len(calls) > 1):
            self.fork_bombs.append(self._text(name))

    def _expansion(self, node: tree_sitter.Node) -> None:
        """`${…}` that yields a variable's text, and computes or assigns nothing."""
        named = [child.type for child in node.children if child.is_named]
        operators = {self._text(child) for child in node.children_by_field_name("operator")}
        is_plain = bool(named) and named[0] in ("variable_name", "special_variable_name")
        if not is_plain or not operators <= _EXPANSION_OPERATORS or "${!" in self._text(node):
            self.unknown.append("expands a variable in a way that is not looked into")

    def _test(self, node: tree_sitter.Node) -> None:
        if node.children[0].type == "[" and any(
            child.type in _ENDS_TEST for child in _descendants(node)
        ):
            self.unknown.append("has signs that end a test")
        for child in _descendants(node):
            if child.type != "test_operator" and child.type not in _NUMERIC_TESTS:
                continue
            operator = self._text(child)
            around = [self._text(other) for other in (child.parent or node).children]
            if operator in ("-v", "-R"):
                self.unknown.append("tests a computed name")
            if operator in _NUMERIC_TESTS and not all(
                _NUMBER.fullmatch(text) for text in around if text != operator
            ):
                self.unknown.append("computes")


_HERE = frozenset({"heredoc_redirect", "herestring_redirect"})
_HERE_START = "heredoc_start"


def _descendants(node: tree_sitter.Node) -> list[tree_sitter.Node]:
    """Without what is deeper than bounds allow; `_visit` tells of that."""
    found: list[tree_sitter.Node] = []
    level = [node]
    for _ in range(_MAX_DEPTH):
        level = [child for parent in level for child in parent.children]
        found += level
    return found
