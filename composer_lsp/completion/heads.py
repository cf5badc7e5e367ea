"""What a prompt that begins in the middle of a file keeps of what stands above: its imports, and the first
lines of the classes and functions that it begins inside of."""

from collections.abc import Iterator

import tree_sitter

from composer_index.languages import LANGUAGES
from composer_index.parsing import grammar
from composer_lsp.completion.tokens import estimated_tokens

_MAX_CHARS = 200_000
"""Of a file that is parsed: some 20 ms, each time that the window is placed anew."""
_IMPORTS = frozenset(
    {
        *("import_statement", "import_from_statement", "future_import_statement"),
        *("import_declaration", "package_clause", "package_declaration"),
        *("use_declaration", "extern_crate_declaration", "mod_item"),
        *("using_directive", "namespace_use_declaration", "preproc_include"),
    }
)
"""Nodes of tree-sitter's grammars, by type."""


def heads_above(text: str, start: int, language_id: str, *, max_tokens: int) -> str:
    """Whole lines of the text before `start`, the beginning of a line: the heads of what encloses it and,
    before them, as many of the first imports as there is room for. Empty without a grammar."""
    language = LANGUAGES.get(language_id)
    if language is None or start == 0 or len(text) > _MAX_CHARS:
        return ""
    source = text.encode("utf-8", "replace")
    tree = grammar.parse(language, source)
    if tree is None:
        return ""
    lines = source.split(b"\n")
    row = text.count("\n", 0, start)
    heads = [*_fitting(_heads(tree.root_node, row, lines), max_tokens)]
    num_left = max_tokens - sum(estimated_tokens(head) for head in heads)
    imports = [*_fitting(_imports(tree.root_node, row, lines), num_left)]
    return "".join((*imports, *heads))


def _heads(root: tree_sitter.Node, row: int, lines: list[bytes]) -> Iterator[str]:
    """From the outside in."""
    node = root
    while (inner := _child_over(node, row)) is not None:
        node = inner
        body = node.child_by_field_name("body")
        if body is None or not node.start_point.row < row <= body.end_point.row:
            continue
        end = body.start_point.row
        # A brace, or the like, that opens the body stands on the head's last line.
        is_on_own_line = not lines[end][: body.start_point.column].strip()
        yield _text(lines, node.start_point.row, min(row, end + (not is_on_own_line)))


def _child_over(node: tree_sitter.Node, row: int) -> tree_sitter.Node | None:
    return next(
        (each for each in node.named_children if each.start_point.row < row <= each.end_point.row),
        None,
    )


def _imports(root: tree_sitter.Node, row: int, lines: list[bytes]) -> Iterator[str]:
    for node in root.named_children:
        if node.end_point.row >= row:
            return
        if node.type in _IMPORTS:
            end = node.end_point.row + (node.end_point.column > 0)
            yield _text(lines, node.start_point.row, end)


def _text(lines: list[bytes], first: int, end: int) -> str:
    return "".join(f"{line.decode(errors='replace')}\n" for line in lines[first:end])


def _fitting(texts: Iterator[str], max_tokens: int) -> Iterator[str]:
    for text in texts:
        max_tokens -= estimated_tokens(text)
        if max_tokens < 0:
            return
        yield text
