"""From a shell command line to the programs that it would run.

Bash decides what runs, and tree-sitter's grammar is not bash: so any doubt (`doubts.py`) makes the
line unknown. The tests hold the two together by running lines in a bash without programs.
"""

import re
from collections.abc import Sequence
from functools import cache

import tree_sitter

from composer_index.languages import Language, language_of
from composer_index.parsing.grammar import Grammar, load, parse_tree
from composer_lsp.agent.commands import wrappers
from composer_lsp.agent.commands.command import Assignment, Command, Program, Redirect
from composer_lsp.agent.commands.doubts import MAX_DEPTH, descendants, doubts, text_of
from composer_lsp.agent.commands.words import Word, literal, read_word

_MAX_LINE_CHARS = 20_000
_MAX_PROGRAMS = 500
_JOINED_LINES = re.compile(r"(?:[^ \t\n]|\\[ \t]|^)\\\n")
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)

_RESERVED = (
    *("!", "[[", "]]", "{", "}", "case", "coproc", "do", "done", "elif", "else", "esac", "fi"),
    *("for", "function", "if", "in", "select", "then", "until", "while"),
)
_DECLARING_OPTIONS = frozenset(["-x", "-r", "-g", "-a", "-A", "-p"])


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
            self._visit(tree.root_node, depth)
        self._source = outer

    def _text(self, node: tree_sitter.Node) -> str:
        return text_of(node, self._source)

    def _word(self, node: tree_sitter.Node) -> Word:
        return read_word(self._text(node))

    def _visit(self, node: tree_sitter.Node, depth: int) -> None:
        """A node and all below it."""
        if depth > MAX_DEPTH or len(self.programs) > _MAX_PROGRAMS:
            self.unknown.append("is nested too deeply or too long")
            return
        self.unknown += doubts(node, self._source)
        match node.type:
            case "command":
                self._program(node, depth)
            case "redirected_statement":
                self._redirected(node, depth)
            case "file_redirect":
                self._file_redirect(node)
            case "variable_assignment":
                self._assignment(node)
            case "for_statement":
                self._loop(node)
            case "declaration_command":
                self._declaration(node)
            case "function_definition":
                self._function(node)
            case _:
                pass
        for child in node.children:
            self._visit(child, depth + 1)

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
        if depth > MAX_DEPTH:
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

    def _assignment(self, node: tree_sitter.Node) -> None:
        """One that is not before a program."""
        parent = "" if node.parent is None else node.parent.type
        if parent != "command":
            is_exported = parent == "declaration_command"
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
            for child in descendants(body)
            if child.type == "command_name" and self._text(child) == self._text(name)
        ]
        is_background = any(child.type == "&" for child in descendants(body))
        if calls and (is_background or len(calls) > 1):
            self.fork_bombs.append(self._text(name))
