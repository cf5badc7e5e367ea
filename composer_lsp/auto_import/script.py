"""JavaScript and TypeScript: a file's module as another file would name it, and the import's place."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from tree_sitter import Node

from composer_lsp.auto_import.edits import ImportEdit, first_import, joined_to
from composer_lsp.auto_import.trees import Tree

_SUFFIXES = frozenset({".js", ".jsx", ".mjs", ".ts", ".tsx", ".mts"})
_TEST = re.compile(r"\.(?:test|spec|d|stories)\.\w+\Z")


def module_of(path: Path, *, importer: Path, tree: Tree) -> str | None:
    """The relative path by which the file `importer`, whose text is `tree`, imports `path`; with an
    ending where its other relative imports have one. None where that is not done."""
    if path.suffix not in _SUFFIXES or _TEST.search(path.name) or _is_common_js(tree):
        return None
    relative = Path(os.path.relpath(path, importer.parent)).as_posix()
    suffixes = {Path(each).suffix for each in _sources(tree) if each.startswith(".")}
    if suffixes and suffixes <= _SUFFIXES:
        # As TypeScript has it, a module written in it may be named as the script it becomes.
        suffix = path.suffix if path.suffix in suffixes else suffixes.pop()
        bare = relative.removesuffix(path.suffix) + suffix
    else:
        bare = relative.removesuffix(path.suffix).removesuffix("/index")
    return bare if bare.startswith(".") else f"./{bare}"


def is_exported(text: str, name: str) -> bool:
    """Whether the module `text` exports the name as itself."""
    word = re.escape(name)
    declared = rf"^\s*export\s+(?!default\b)(?:\w+\*?\s+){{1,4}}{word}\b"
    listed = rf"^\s*export\s*\{{[^}}]*(?<![\w$]){word}\s*[,}}]"
    return re.search(f"(?m){declared}|{listed}", text) is not None


def import_edit(tree: Tree, module: str, name: str) -> ImportEdit:
    imports = [node for node in tree.root.children if node.type == "import_statement"]
    for node in imports:
        names = [*_specifiers(node)]
        is_type = any(child.type == "type" for child in node.children)
        if names and not is_type and _source(tree, node) == module:
            return joined_to(tree, names, name)
    quote, end = _style(tree, imports)
    statement = f"import {{ {name} }} from {quote}{module}{quote}{end}"
    if imports:
        return ImportEdit(tree.offset(imports[-1].end_byte), f"\n{statement}")
    return _first_import(tree, statement)


def _first_import(tree: Tree, statement: str) -> ImportEdit:
    """Behind the comments and directives that a file begins with."""
    last: Node | None = None
    for node in tree.root.children:
        is_directive = node.type == "expression_statement" and [
            child.type for child in node.children
        ][:1] == ["string"]
        if node.type not in {"hash_bang_line", "comment"} and not is_directive:
            break
        is_apart = last is not None and node.start_point.row > last.end_point.row + 1
        if node.type == "comment" and is_apart:
            break
        last = node
    return first_import(tree, last, statement)


def _specifiers(node: Node) -> Iterator[Node]:
    for clause in node.children:
        if clause.type == "import_clause":
            for named in clause.children:
                if named.type == "named_imports":
                    yield from (each for each in named.children if each.type == "import_specifier")


def _style(tree: Tree, imports: list[Node]) -> tuple[str, str]:
    """The file's quote, and what ends its statements."""
    text = tree.source.decode("utf-8", "replace")
    is_single = text.count("'") > text.count('"')
    if imports:
        last = tree.text(imports[-1])
        return "'" if "'" in last else '"', ";" if last.endswith(";") else ""
    lines = [line for line in text.splitlines() if line.strip()]
    num_ended = sum(line.rstrip().endswith(";") for line in lines)
    return "'" if is_single else '"', ";" if num_ended or not lines else ""


def _sources(tree: Tree) -> list[str]:
    return [_source(tree, node) for node in tree.root.children if node.type == "import_statement"]


def _source(tree: Tree, node: Node) -> str:
    source = node.child_by_field_name("source")
    return tree.text(source).strip("'\"`") if source else ""


def _is_common_js(tree: Tree) -> bool:
    return (
        not _sources(tree)
        and re.search(rb"\brequire\(|\bmodule\.exports\b", tree.source) is not None
    )
