"""Python: a file's module as another file would name it, and the import's place."""

import keyword
from collections.abc import Sequence
from pathlib import Path

from tree_sitter import Node

from composer_lsp.auto_import.edits import ImportEdit, first_import, joined_to
from composer_lsp.auto_import.trees import Tree

_IMPORTS = ("import_statement", "import_from_statement", "future_import_statement")
_SOURCE_FOLDERS = ("", "src")


def module_of(path: Path, *, root: Path, importer: Path, tree: Tree) -> str | None:
    """The module that `path` is for the file `importer`, whose text is `tree`; relative where that file
    has relative imports and no absolute ones of its package. None where it cannot be imported."""
    if path.suffix != ".py" or path.stem.startswith("test_") or path.stem == "conftest":
        return None
    top = _package_root(path)
    if top == path.parent and path.stem == "__init__":
        return None
    is_beside = top in (importer.parent, *(root / name for name in _SOURCE_FOLDERS))
    if top == path.parent and not is_beside:
        return None
    parts = _parts(path, top)
    if not all(part.isidentifier() and not keyword.iskeyword(part) for part in parts):
        return None
    own = _parts(importer, top) if importer.is_relative_to(top) else []
    is_package = top != path.parent and len(own) > 1 and own[0] == parts[0]
    if is_package and _is_relative(tree, parts[0]):
        return _relative(parts, own if importer.stem == "__init__" else own[:-1])
    return ".".join(parts)


def import_edit(tree: Tree, module: str, name: str) -> ImportEdit:
    """Where `from module import name` goes, or the name alone."""
    imports = _imports(tree)
    for node in imports:
        names = node.children_by_field_name("name")
        if node.type == "import_from_statement" and names and _module(tree, node) == module:
            return joined_to(tree, names, name)
    statement = f"from {module} import {name}"
    if not imports:
        return _first_import(tree, statement)
    same = [node for node in imports if _top(_module(tree, node)) == _top(module)]
    before = next((node for node in same if _module(tree, node) > module), None)
    if before is not None and before.type == "import_from_statement":
        return ImportEdit(tree.offset(before.start_byte), statement + "\n")
    last = (same or imports)[-1]
    is_other_group = not same and not module.startswith(".")
    return ImportEdit(tree.offset(_end(last)), ("\n\n" if is_other_group else "\n") + statement)


def _package_root(path: Path) -> Path:
    """The folder that the module's name counts from: the first above it that is no package."""
    folder = path.parent
    while (folder / "__init__.py").is_file() and folder != folder.parent:
        folder = folder.parent
    return folder


def _parts(path: Path, top: Path) -> list[str]:
    parts = [*path.relative_to(top).with_suffix("").parts]
    return parts[:-1] if parts[-1] == "__init__" else parts


def _relative(parts: Sequence[str], package: Sequence[str]) -> str:
    num_common = 0
    while (
        num_common < min(len(parts) - 1, len(package)) and parts[num_common] == package[num_common]
    ):
        num_common += 1
    return "." * (len(package) - num_common + 1) + ".".join(parts[num_common:])


def _is_relative(tree: Tree, package: str) -> bool:
    modules = [_module(tree, node) for node in _imports(tree)]
    return any(each.startswith(".") for each in modules) and package not in map(_top, modules)


def _imports(tree: Tree) -> list[Node]:
    """Those at the top of the file, before anything is defined."""
    found: list[Node] = []
    for node in tree.root.children:
        if node.type in {"function_definition", "class_definition", "decorated_definition"}:
            break
        if node.type in _IMPORTS:
            found.append(node)
    return found


def _module(tree: Tree, node: Node) -> str:
    if node.type == "future_import_statement":
        return "__future__"
    named = node.child_by_field_name("module_name") or node.child_by_field_name("name")
    return tree.text(named).split(" ")[0] if named else ""


def _top(module: str) -> str:
    return "." if module.startswith(".") else module.split(".")[0]


def _end(node: Node) -> int:
    """Behind the comment on its line, where there is one."""
    after = node.next_sibling
    is_beside = after and after.type == "comment" and after.start_point.row == node.end_point.row
    return after.end_byte if after and is_beside else node.end_byte


def _first_import(tree: Tree, statement: str) -> ImportEdit:
    """Behind the comments and the docstring that a file begins with."""
    last: Node | None = None
    for node in tree.root.children:
        is_docstring = node.type == "expression_statement" and [
            child.type for child in node.children
        ] == ["string"]
        if node.type == "comment" or is_docstring:
            is_apart = last is not None and node.start_point.row > last.end_point.row + 1
            if node.type == "comment" and is_apart:
                break
            last = node
        if node.type != "comment":
            break
    return first_import(tree, last, statement)
