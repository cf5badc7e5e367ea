"""Which shell lines run tests, and whether a line's exit code is that of its tests."""

import re
from functools import lru_cache

import tree_sitter

from composer_index.languages import language_of
from composer_index.parsing.grammar import load, parse_tree
from composer_lsp.agent.commands import parse
from composer_lsp.agent.commands.command import Program
from composer_lsp.agent.commands.wrappers import SHELLS

_TEST = re.compile(
    r"""(?x)(?:\S*/)?(?:
        (?:python[\d.]*|coverage)\s+(?:run\s+)?(?:-\S+\s+(?:[^-\s]\S*\s+)?)*?-m\s+(?:pytest|unittest|nose2)
        | (?:(?:uv|poetry|pipenv|pdm|hatch|rye|bundle|npm|pnpm|yarn|bun|pipx)\s+(?:run|exec|dlx|x)\s+
            | (?:npx|bunx|uvx)\s+
          )?(?:--?\S+(?:\s+[^-\s]\S*)??\s+)*
          (?:\S*/)?(?:pytest|py\.test|tox|nox|nose2|jest|vitest|mocha|ava|rspec|minitest|phpunit|ctest
            |busted|bats)
        | (?:npm|pnpm|yarn|bun|deno|cargo|go|mvnw?|gradlew?|dotnet|mix|rake|make|just|swift|zig|cabal
            |stack|sbt|bazel|composer|hatch|pdm)\s+(?:\S+\s+)*?(?:run\s+)?(?:unit)?-?tests?(?:[:\w-]*)
    )(?:$|\s)"""
)
"""Of a program's words."""
_RUNS_NONE = re.compile(
    r"(?:^|\s)(?:--collect-only|--co|--help|-h|--version|--fixtures|--markers|--list\S*|-list|--no-run"
    r"|--setup-plan|--dry-run|--passWithNoTests)(?:$|[\s=])"
    r"|^make\s(?:.*\s)?-n(?:$|\s)"
)


@lru_cache(maxsize=256)
def runs_tests(line: str) -> bool:
    return any(map(_is_test, parse(line).programs))


@lru_cache(maxsize=256)
def tells_of_tests(line: str) -> bool:
    """Whether each program of it that tests decides the line's exit code: nothing comes after it
    but by `&&`, and no pipe, `||` or `!` takes its failure away."""
    if any(_hides(program) for program in parse(line).programs):
        return False
    language = language_of("x.sh", b"")
    grammar = load(language)
    source = line.encode("utf-8", "replace")
    tree = None if grammar is None else parse_tree(language, grammar, source)
    if tree is None or tree.root_node.has_error:
        return False
    return _tells(tree.root_node, source)


def _is_test(program: Program) -> bool:
    words = " ".join(word.source if word.text is None else word.text for word in program.words)
    return _TEST.match(words) is not None and _RUNS_NONE.search(words) is None


def _hides(program: Program) -> bool:
    name = program.name.rpartition("/")[2]
    return name in SHELLS or name in ("eval", "trap", "find")


def _tells(node: tree_sitter.Node, source: bytes) -> bool:
    if node.type == "command":
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
                and not any(runs_tests(_text(part, source)) for part in parts[:-1])
                and _tells(parts[-1], source)
            )
        case "list":
            return between == {"&&"} and all(_tells(part, source) for part in parts)
        case _:
            return False


def _text(node: tree_sitter.Node, source: bytes) -> str:
    return source[node.start_byte : node.end_byte].decode("utf-8", "replace")
