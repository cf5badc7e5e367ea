"""Syntax trees of a document's text, with places in characters of it."""

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from composer_index.languages import LANGUAGES
from composer_index.parsing import grammar

SCRIPTS = frozenset({"javascript", "javascriptreact", "typescript", "typescriptreact"})
SUPPORTED = SCRIPTS | {"python"}


@dataclass(frozen=True, slots=True)
class Tree:
    root: Node
    source: bytes

    @classmethod
    def of(cls, text: str, language_id: str) -> "Tree | None":
        """None for a language that is not supported, and for a text that is too much work."""
        language = LANGUAGES.get(language_id) if language_id in SUPPORTED else None
        if language is None:
            return None
        source = text.encode("utf-8", "replace")
        tree = grammar.parse(language, source)
        return cls(tree.root_node, source) if tree else None

    def text(self, node: Node) -> str:
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def offset(self, num_bytes: int) -> int:
        """In characters of the text, of a place in bytes of the source."""
        return len(self.source[:num_bytes].decode("utf-8", "replace"))

    def nodes(self) -> Iterator[Node]:
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.children


def ancestors(node: Node) -> Iterator[Node]:
    above = node.parent
    while above is not None:
        yield above
        above = above.parent


def is_field(node: Node, parent: Node, *names: str) -> bool:
    return any(node in parent.children_by_field_name(name) for name in names)
