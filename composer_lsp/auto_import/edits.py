"""How a name is added to a list of imported names, in the list's own style."""

from collections.abc import Sequence
from dataclasses import dataclass

from tree_sitter import Node

from composer_lsp.auto_import.trees import Tree


@dataclass(frozen=True, slots=True)
class ImportEdit:
    """Insert `text` at an offset of the document; all lines of it end with `\\n`."""

    offset: int
    text: str


def joined_to(tree: Tree, items: Sequence[Node], name: str) -> ImportEdit:
    """The name between the items, which are sorted or not, on one line or on a line each."""
    texts = [tree.text(item) for item in items]
    is_sorted = texts == sorted(texts, key=_order)
    following = next(
        (item for item in items if is_sorted and _order(tree.text(item)) > _order(name)), None
    )
    if following is not None:
        text = name + "," + (_line_break(tree, following) or " ")
        return ImportEdit(tree.offset(following.start_byte), text)
    last = items[-1]
    text = "," + (_line_break(tree, last) or " ") + name
    return ImportEdit(tree.offset(last.end_byte), text)


def first_import(tree: Tree, last: Node | None, statement: str) -> ImportEdit:
    """The statement behind `last`, with which the file's head ends; None: at the top."""
    if last is None:
        return ImportEdit(0, f"{statement}\n\n" if tree.source.strip() else f"{statement}\n")
    rest = tree.source[last.end_byte :]
    is_followed = rest.startswith((b"\n\n", b"\r\n\r\n")) or not rest.strip()
    return ImportEdit(
        tree.offset(last.end_byte), f"\n\n{statement}" + ("" if is_followed else "\n")
    )


def _order(name: str) -> tuple[int, str]:
    """As isort and ruff sort: constants, classes, then all else."""
    bare = name.split()[0]
    kind = 0 if bare.isupper() and len(bare) > 1 else 1 if bare[:1].isupper() else 2
    return kind, bare


def _line_break(tree: Tree, item: Node) -> str | None:
    """A newline and the item's indentation, where it begins its line."""
    start = tree.source.rfind(b"\n", 0, item.start_byte) + 1
    indentation = tree.source[start : item.start_byte]
    if indentation.strip() or start == 0:
        return None
    return "\n" + indentation.decode()
