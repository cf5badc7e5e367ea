"""Names that a piece of a document reads and nothing in the document binds."""

import builtins
from collections.abc import Sequence

from tree_sitter import Node

from composer_lsp.auto_import.globals import SCRIPT_GLOBALS
from composer_lsp.auto_import.trees import SCRIPTS, Tree, ancestors, is_field

_READ = frozenset({"identifier", "type_identifier", "shorthand_property_identifier"})
_BINDING_PATTERNS = frozenset(
    {
        *("parameters", "lambda_parameters", "typed_parameter", "list_splat_pattern"),
        *("dictionary_splat_pattern", "pattern_list", "tuple_pattern", "list_pattern"),
        *("as_pattern_target", "case_pattern", "global_statement", "nonlocal_statement"),
        *("import_statement", "import_from_statement", "future_import_statement", "aliased_import"),
        *("formal_parameters", "object_pattern", "array_pattern", "rest_pattern"),
        *("import_specifier", "import_clause", "namespace_import", "type_parameter"),
        *("delete_statement", "dotted_name"),
    }
)
"""A name directly in one of these is bound there."""
_BINDING_FIELDS = {
    "function_definition": ("name",),
    "class_definition": ("name",),
    "default_parameter": ("name",),
    "typed_default_parameter": ("name",),
    "assignment": ("left",),
    "augmented_assignment": ("left",),
    "named_expression": ("name",),
    "for_statement": ("left",),
    "for_in_clause": ("left",),
    "type_alias_statement": ("left",),
    "variable_declarator": ("name",),
    "function_declaration": ("name",),
    "generator_function_declaration": ("name",),
    "function_expression": ("name",),
    "class_declaration": ("name",),
    "abstract_class_declaration": ("name",),
    "class": ("name",),
    "interface_declaration": ("name",),
    "type_alias_declaration": ("name",),
    "enum_declaration": ("name",),
    "internal_module": ("name",),
    "required_parameter": ("pattern",),
    "optional_parameter": ("pattern",),
    "assignment_pattern": ("left",),
    "object_assignment_pattern": ("left",),
    "arrow_function": ("parameter",),
    "catch_clause": ("parameter",),
    "pair_pattern": ("value",),
    "for_in_statement": ("left",),
    "assignment_expression": ("left",),
    "labeled_statement": ("label",),
}
_OTHER_FIELDS = {"attribute": ("attribute",), "keyword_argument": ("name",)}
"""Names in these are no names of the scope."""
_PYTHON_BUILTINS = frozenset(dir(builtins)) | {
    *("__name__", "__file__", "__doc__", "__package__", "__spec__", "__path__", "__class__"),
    *("reveal_type", "reveal_locals", "_"),
}


def unbound_names(text: str, start: int, end: int, language_id: str) -> Sequence[str]:
    """The names that `text[start:end]` reads, in their order, and that are bound nowhere in the text and
    are no builtins. None at all where a star import or a syntax that is not understood may bind more.
    """
    tree = Tree.of(text, language_id)
    if tree is None:
        return ()
    start_byte, end_byte = (
        len(text[:offset].encode("utf-8", "replace")) for offset in (start, end)
    )
    known = set(SCRIPT_GLOBALS if language_id in SCRIPTS else _PYTHON_BUILTINS)
    read: list[tuple[int, str]] = []
    for node in tree.nodes():
        if node.type == "wildcard_import":
            return ()
        if node.type == "shorthand_property_identifier_pattern" or _is_bound(node):
            known.add(tree.text(node))
        elif (
            node.type in _READ
            and node.end_byte > start_byte
            and node.start_byte < end_byte
            and _is_read(node)
        ):
            read.append((node.start_byte, tree.text(node)))
    names = dict.fromkeys(name for _, name in sorted(read))
    return [name for name in names if name not in known]


def _is_bound(node: Node) -> bool:
    parent = node.parent
    if node.type not in _READ or parent is None:
        return False
    if parent.type in _BINDING_PATTERNS:
        return True
    fields = _BINDING_FIELDS.get(parent.type)
    return fields is not None and is_field(node, parent, *fields)


def _is_read(node: Node) -> bool:
    parent = node.parent
    if parent is None or any(above.type == "ERROR" for above in ancestors(node)):
        return False
    fields = _OTHER_FIELDS.get(parent.type)
    return fields is None or not is_field(node, parent, *fields)
