"""Files that parsed before an edit and do not now, where no linter would say so."""

import ast
import json
import warnings
from collections.abc import Callable, Mapping

from tree_sitter import Node

from composer_index.languages import Language, language_of
from composer_index.parsing import grammar
from composer_index.parsing.text import with_newlines
from composer_lsp.agent.checks.problem import Problem
from composer_lsp.agent.edits.change_set import FileChange

_CHECKED = frozenset(
    {
        *("python", "javascript", "javascriptreact", "typescript", "typescriptreact", "go", "rust"),
        *("java", "csharp", "ruby", "php", "lua", "json", "toml", "yaml", "css"),
    }
)
"""Languages that hold no others, no templates and no macros, which a grammar takes for errors."""
_MAX_CHARS = 1_000_000
_MAX_SHOWN = 40


def syntax_problem(change: FileChange) -> Problem | None:
    """The first error of a file that had none. Some milliseconds: call it in a thread."""
    if change.after is None or len(change.after) > _MAX_CHARS:
        return None
    language = language_of(change.path, change.after[:1000].encode("utf-8", "replace"))
    if language.id not in _CHECKED:
        return None
    error = _error(language, change.after)
    if error is None or (change.before and _error(language, change.before.text) is not None):
        return None
    line, message = _exact(language, change.after) or error
    return Problem(path=change.path, line=line, code="", message=message, source="syntax")


def _error(language: Language, text: str) -> tuple[int, str] | None:
    loaded = grammar.load(language)
    source = with_newlines(text.encode("utf-8", "replace"))
    tree = grammar.parse_tree(language, loaded, source) if loaded and source.strip() else None
    if tree is None or not tree.root_node.has_error:
        return None
    node = _first(tree.root_node)
    line = node.start_point[0] + 1
    if node.is_missing:
        return line, f"{node.type} is missing"
    # Not the node's own text: it would ask the parser's reader again, which is gone.
    text = source[node.start_byte : node.end_byte].decode("utf-8", "replace")
    shown = text.strip().split("\n")[0][:_MAX_SHOWN]
    return line, f"this does not parse: {shown}"


def _first(root: Node) -> Node:
    """The first error, innermost where one lies in another."""
    node = root
    while True:
        inner = next((each for each in node.children if each.has_error or each.is_missing), None)
        if inner is None:
            return node
        node = inner


def _exact(language: Language, text: str) -> tuple[int, str] | None:
    """Where and what, in a parser's own words, where Python has one."""
    parse = _PARSERS.get(language.id)
    if parse is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parse(text)
    except SyntaxError as error:
        return error.lineno or 1, error.msg
    except json.JSONDecodeError as error:
        return error.lineno, error.msg
    except (ValueError, RecursionError, MemoryError):
        return None
    return None


_PARSERS: Mapping[str, Callable[[str], object]] = {
    "python": ast.parse,
    "json": json.loads,
}
