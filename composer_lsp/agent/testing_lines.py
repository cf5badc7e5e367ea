"""Which shell lines run tests, and whether a line's exit code is that of its tests."""

import re
from functools import lru_cache

import tree_sitter

from composer_index.languages import language_of
from composer_index.parsing.grammar import load, parse_tree
from composer_lsp.agent.commands import parse
from composer_lsp.agent.commands.command import Program
from composer_lsp.agent.commands.wrappers import SHELLS
from composer_lsp.agent.testing_programs import is_test


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CHANGES_SHELL = _names(
    ". alias bind break builtin complete continue coproc disown enable exec exit fc hash history kill "
    "let logout mapfile read readarray readonly return set shopt source suspend unalias unset"
)
"""Builtins that may decide what runs behind them, or whether anything does."""
_SET_SAFELY = re.compile(r"-[eux]+|-[eux]*o|pipefail|errexit|nounset|xtrace")
_ACTIVATES = re.compile(r"(?:.*/)?\.?v?env[\w.-]*/bin/activate")
_DECIDES = re.compile(
    r"PATH|BASH_\w+|ENV|IFS|LD_\w+|SHELLOPTS|BASHOPTS|PYTEST_\w+|G?N?U?MAKEFLAGS|MFLAGS|npm_config_\w+"
    r"|NPM_CONFIG_\w+|GOFLAGS|MAVEN_\w+|RUBYOPT|PERL5OPT"
)
"""Variables that may decide what runs, or with which options."""
_ASSIGNS = ("variable_assignment", "variable_assignments", "declaration_command")


@lru_cache(maxsize=256)
def runs_tests(line: str) -> bool:
    return any(map(is_test, parse(line).programs))


@lru_cache(maxsize=256)
def tells_of_tests(line: str) -> bool:
    """Whether each program of it that tests decides the line's exit code: nothing comes after it
    but by `&&`, no pipe, `||` or `!` takes its failure away, and nothing before it makes its name
    mean something else."""
    command = parse(line)
    assigned = [*command.assignments, *(each for p in command.programs for each in p.assignments)]
    if (
        command.unknown
        or any(_DECIDES.fullmatch(assignment.name) for assignment in assigned)
        or any(map(_hides, command.programs))
    ):
        return False
    language = language_of("x.sh", b"")
    grammar = load(language)
    source = line.encode("utf-8", "replace")
    tree = None if grammar is None else parse_tree(language, grammar, source)
    if tree is None or tree.root_node.has_error:
        return False
    return _tells(tree.root_node, source)


def _hides(program: Program) -> bool:
    name = program.name.rpartition("/")[2]
    args = [word.text or "" for word in program.args]
    if name == "set" and args:
        return not all(map(_SET_SAFELY.fullmatch, args))
    if name in (".", "source") and len(args) == 1:
        return _ACTIVATES.fullmatch(args[0]) is None
    if name == "printf":
        return "-v" in args
    return (
        name in SHELLS
        or name in _CHANGES_SHELL
        or name in ("eval", "trap", "find", "xargs", "setsid")
    )


def _tells(node: tree_sitter.Node, source: bytes) -> bool:
    if node.type == "command" or node.type in _ASSIGNS:
        return True
    if node.type == "redirected_statement":
        body = node.child_by_field_name("body")
        return body is not None and _tells(body, source)
    parts = [child for child in node.named_children if child.type != "comment"]
    between = {child.type for child in node.children if not child.is_named}
    match node.type:
        case "program":
            return (
                bool(parts)
                and between <= {";", "\n"}
                and not any(
                    part.type == "function_definition" or runs_tests(_text(part, source))
                    for part in parts[:-1]
                )
                and _tells(parts[-1], source)
            )
        case "list":
            return between == {"&&"} and all(_tells(part, source) for part in parts)
        case _:
            return False


def _text(node: tree_sitter.Node, source: bytes) -> str:
    return source[node.start_byte : node.end_byte].decode("utf-8", "replace")
