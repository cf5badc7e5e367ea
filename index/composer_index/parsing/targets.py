"""From what stands on the left of a definition to the names in it."""

from collections.abc import Iterator

from tree_sitter import Node

_TARGETS = {
    # Declarators of C and C++.
    "init_declarator": "declarator",
    "pointer_declarator": "declarator",
    "array_declarator": "declarator",
    "function_declarator": "declarator",
    "parenthesized_declarator": "",
    "reference_declarator": "",
    "attributed_declarator": "",
    # Patterns of JavaScript.
    "object_pattern": "",
    "array_pattern": "",
    "rest_pattern": "",
    "pair_pattern": "value",
    "object_assignment_pattern": "left",
    "assignment_pattern": "left",
    # Of Python, and of Ruby.
    "pattern_list": "",
    "tuple_pattern": "",
    "list_pattern": "",
    "list_splat_pattern": "",
    "left_assignment_list": "",
}
"""Nodes that lead to names, by the field that does; "" is every child."""


def targets(node: Node, *, is_called: bool) -> Iterator[Node]:
    """Yields the nodes of the names that `node` binds, in order; a plain name is its own.

    Of a function's declarator without a body, a prototype, only where `is_called` holds.
    """
    if node.type not in _TARGETS:
        yield node
        return
    stack = [node]
    while stack:
        node = stack.pop()
        field = _TARGETS.get(node.type)
        if field is None:
            if _is_name(node):
                yield node
        elif not field:
            stack.extend(reversed(node.named_children))
        else:
            inner = node.child_by_field_name(field)
            if inner is not None and (is_called or not _is_prototype(node, inner)):
                stack.append(inner)


def _is_name(node: Node) -> bool:
    """Whether it is no place in something else: `a.b`, `a[0]`."""
    return "identifier" in node.type or node.type in _NAMES


_NAMES = frozenset(
    {"constant", "operator_name", "destructor_name", "operator_cast", "template_function"}
)


def _is_prototype(node: Node, inner: Node) -> bool:
    return node.type == "function_declarator" and inner.type != "parenthesized_declarator"
