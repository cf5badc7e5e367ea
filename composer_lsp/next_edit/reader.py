"""From a text to its `Source`, by tree-sitter.

The same few facts for all languages, by the names that grammars give their nodes.
"""

import re
from collections.abc import Iterator
from itertools import accumulate

from tree_sitter import Node

from composer_index.languages import LANGUAGES
from composer_index.parsing import grammar
from composer_lsp.next_edit.source import (
    Argument,
    Call,
    Function,
    Imported,
    Name,
    Parameter,
    Source,
    Span,
)

MAX_CHARS = 300_000
"""Longer files are generated; parsing them costs more than a suggestion is worth."""

_FUNCTIONS = frozenset(
    {
        *("function_definition", "lambda", "function_declaration", "function_expression"),
        *("arrow_function", "method_definition", "generator_function_declaration"),
        *("method_declaration", "func_literal", "function_item", "closure_expression"),
        *("constructor_declaration", "lambda_expression", "method", "singleton_method"),
    }
)
_CLASSES = frozenset(
    {
        *("class_definition", "class_declaration", "abstract_class_declaration", "class"),
        *("interface_declaration", "struct_item", "enum_item", "trait_item", "type_spec"),
        *("type_alias_declaration", "enum_declaration", "class_specifier", "struct_specifier"),
    }
)
_MEMBERS = frozenset(
    {
        *("method_definition", "method_declaration", "public_field_definition", "method_elem"),
        *("property_signature", "method_signature", "field_declaration", "field_definition"),
    }
)
"""Their names are reached through an object."""
_IMPORTS = frozenset(
    {
        *("import_statement", "import_from_statement", "import_spec", "import_declaration"),
        *("use_declaration", "using_directive"),
    }
)
_ATTRIBUTES = frozenset({"property_identifier", "field_identifier", "private_property_identifier"})
_PATTERNS = frozenset(
    {
        *("pattern_list", "tuple_pattern", "list_pattern", "expression_list", "identifier_list"),
        *("array_pattern", "object_pattern", "rest_pattern", "list_splat_pattern", "tuple"),
        *("dictionary_splat_pattern", "typed_parameter", "pair_pattern", "as_pattern_target"),
        *("mut_pattern", "variable_list", "captured_pattern", "slice_pattern"),
    }
)
_BINDERS: dict[str, str] = {
    "assignment": "left",
    "for_statement": "left",
    "for_in_clause": "left",
    "named_expression": "name",
    "as_pattern": "alias",
    "variable_declarator": "name",
    "for_in_statement": "left",
    "catch_clause": "parameter",
    "arrow_function": "parameter",
    "required_parameter": "pattern",
    "optional_parameter": "pattern",
    "assignment_pattern": "left",
    "default_parameter": "name",
    "typed_default_parameter": "name",
    "short_var_declaration": "left",
    "var_spec": "name",
    "const_spec": "name",
    "range_clause": "left",
    "parameter_declaration": "name",
    "variadic_parameter_declaration": "name",
    "let_declaration": "pattern",
    "parameter": "pattern",
    "for_expression": "pattern",
    "formal_parameter": "name",
}
"""Nodes that give a name a value, by the field that holds the name."""
_PARAMETERS = frozenset(
    {
        *("parameters", "lambda_parameters", "formal_parameters", "parameter_list"),
        *("closure_parameters", "method_parameters"),
    }
)
_CALLS = frozenset(
    {"call", "call_expression", "new_expression", "method_invocation", "invocation_expression"}
)
_SPLATS = frozenset({"list_splat", "dictionary_splat", "spread_element", "variadic_argument"})


def read_source(text: str, language_id: str) -> Source | None:
    """None of what has no grammar, or is too long or too broken to be parsed."""
    language = LANGUAGES.get(language_id)
    if language is None or language.is_prose or len(text) > MAX_CHARS:
        return None
    # Of the same length, so that offsets stay.
    lines = text.replace("\r\n", " \n").replace("\r", "\n")
    tree = grammar.parse(language, lines.encode("utf-8", "replace"))
    if tree is None:
        return None
    source = Source(text, language_id)
    _Reader(source, lines).read(tree.root_node)
    return source


class _Reader:
    """One walk over a tree."""

    def __init__(self, source: Source, lines: str) -> None:
        self._source = source
        self._lines = lines.split("\n")
        self._starts = list(accumulate((len(line) + 1 for line in self._lines), initial=0))
        self._is_ascii = lines.isascii()
        self._dots = (".", "->") if source.language_id in _ARROWS else (".",)

    def read(self, root: Node) -> None:
        waiting: list[tuple[Node, int, int, bool]] = [(root, -1, -1, False)]
        while waiting:
            node, function, in_class, is_import = waiting.pop()
            kind = node.type
            if not node.child_count:
                if kind.endswith("identifier") or kind in _SHORTHANDS:
                    self._add_name(node, function, in_class, is_import)
                continue
            name = node.child_by_field_name("name")
            inner, inner_class = function, in_class
            if kind in _FUNCTIONS:
                inner = self._add_function(node, name, function, in_class)
            elif kind in _CLASSES and name is not None:
                self._source.classes.append((self._text(name), self._span(node)))
                inner_class = len(self._source.classes) - 1
            elif kind in _CALLS:
                self._add_call(node, function)
            if kind in _IMPORTS:
                is_import = True
                self._add_imports(node)
            waiting += [
                # A function's own name belongs to what is around it.
                (child, function if child == name else inner, inner_class, is_import)
                for child in reversed(node.children)
            ]

    def _add_name(self, node: Node, function: int, in_class: int, is_import: bool) -> None:
        parent = node.parent
        start = self._offset(node.start_point)
        text = self._text(node)
        is_keyword = (
            parent is not None
            and parent.type == "keyword_argument"
            and parent.child_by_field_name("name") == node
        )
        is_definition = parent is not None and _defines(parent, node)
        before = self._source.text[max(0, start - 40) : start].rstrip()
        is_member = (
            is_definition
            and parent is not None
            and (parent.type in _MEMBERS or (parent.type in _FUNCTIONS and _is_in_class(parent)))
        )
        self._source.names.append(
            Name(
                text=text,
                start=start,
                end=start + len(text),
                row=node.start_point[0],
                is_attribute=node.type in _ATTRIBUTES
                or is_member
                or (before.endswith(self._dots) and not before.endswith("..")),
                is_keyword=is_keyword,
                is_import=is_import,
                is_binding=not is_import and _is_bound(node),
                is_definition=is_definition,
                function=function,
                in_class=in_class,
            )
        )

    def _add_function(self, node: Node, name: Node | None, function: int, in_class: int) -> int:
        parameters = node.child_by_field_name("parameters")
        text = self._text(name) if name is not None else ""
        if not text and node.parent is not None and node.parent.type == "variable_declarator":
            named = node.parent.child_by_field_name("name")
            text = self._text(named) if named is not None else ""
        is_member = node.type in _MEMBERS or _is_in_class(node)
        found = self._parameters(parameters) if parameters is not None else ()
        is_static = node.parent is not None and "staticmethod" in self._line(node.parent)
        if is_member and self._source.language_id == "python" and not is_static:
            found = found[1:]
        span = self._span(node)
        self._source.functions.append(
            Function(
                start=span.start,
                end=span.end,
                name=text,
                parameters=found,
                parameters_span=self._span(parameters or node),
                parent=function,
                in_class=in_class,
                is_member=is_member,
            )
        )
        return len(self._source.functions) - 1

    def _parameters(self, node: Node) -> tuple[Parameter, ...]:
        found: list[Parameter] = []
        is_keyword_only = False
        for child in node.named_children:
            if child.type == "comment":
                continue
            if child.type in ("keyword_separator", "positional_separator"):
                is_keyword_only = child.type == "keyword_separator"
                continue
            inner = child.child_by_field_name("pattern") or child
            is_variadic = any(
                each.type in _VARIADIC for each in (child, inner, *child.named_children[:1])
            )
            names = [
                self._text(each)
                for each in child.children_by_field_name("name")
                if each.type.endswith("identifier")
            ]
            text = self._text(inner if inner.type.endswith("identifier") else child)
            names = names or [match[0] for match in [_FIRST_WORD.search(text)] if match]
            is_required = (
                child.type not in ("default_parameter", "typed_default_parameter")
                and child.type not in ("assignment_pattern", "optional_parameter")
                and child.child_by_field_name("value") is None
                and not is_variadic
            )
            found += [
                Parameter(
                    name=name,
                    is_required=is_required,
                    is_variadic=is_variadic,
                    is_keyword_only=is_keyword_only,
                )
                for name in names
            ]
            is_keyword_only = is_keyword_only or (
                is_variadic and self._source.language_id == "python"
            )
        return tuple(found)

    def _add_call(self, node: Node, function: int) -> None:
        called = (
            node.child_by_field_name("function")
            or node.child_by_field_name("constructor")
            or node.child_by_field_name("name")
        )
        arguments = node.child_by_field_name("arguments")
        if called is None or arguments is None:
            return
        words = _QUALIFIED.search(self._text(called)[-200:])
        if words is None:
            return
        span = self._span(node)
        self._source.calls.append(
            Call(
                start=span.start,
                end=span.end,
                name=words[2],
                object=words[1] or "",
                arguments=tuple(self._arguments(arguments)),
                arguments_span=self._span(arguments),
                function=function,
            )
        )

    def _arguments(self, node: Node) -> Iterator[Argument]:
        for child in node.named_children:
            if child.type == "comment":
                continue
            span = self._span(child)
            keyword = (
                child.child_by_field_name("name") if child.type == "keyword_argument" else None
            )
            yield Argument(
                start=span.start,
                end=span.end,
                text=self._source.text[span.start : span.end],
                keyword=self._text(keyword) if keyword is not None else "",
                is_splat=child.type in _SPLATS,
            )

    def _add_imports(self, node: Node) -> None:
        specs = [*_import_specs(node)]
        for spec in specs:
            alias = spec.child_by_field_name("alias")
            if alias is None and spec.type in ("import_spec", "import_specifier"):
                alias = spec.child_by_field_name("name")
            text = self._text(alias if alias is not None else spec)
            if node.type == "import_statement" and spec.type == "dotted_name":
                text = text.split(".")[0]
            if spec.type == "import_spec" and alias is None:
                text = text.strip('"`').rpartition("/")[2]
            self._source.imported.append(
                Imported(
                    name=text,
                    span=self._span(spec),
                    statement=self._span(node),
                    num_names=len(specs),
                )
            )

    def _line(self, node: Node) -> str:
        return self._lines[node.start_point[0]]

    def _text(self, node: Node) -> str:
        span = self._span(node)
        return self._source.text[span.start : span.end]

    def _span(self, node: Node) -> Span:
        return Span(self._offset(node.start_point), self._offset(node.end_point))

    def _offset(self, point: tuple[int, int]) -> int:
        row, column = point
        if row >= len(self._lines):
            return len(self._source.text)
        if not self._is_ascii and not (line := self._lines[row]).isascii():
            column = len(line.encode("utf-8", "replace")[:column].decode("utf-8", "replace"))
        return min(self._starts[row] + column, len(self._source.text))


_ARROWS = frozenset({"c", "cpp", "php"})
_SHORTHANDS = frozenset({"shorthand_property_identifier_pattern", "shorthand_property_identifier"})
_VARIADIC = frozenset(
    {
        *("list_splat_pattern", "dictionary_splat_pattern", "rest_pattern"),
        *("variadic_parameter_declaration", "variadic_parameter", "spread_parameter"),
    }
)
_FIRST_WORD = re.compile(r"[^\W\d]\w*")
_QUALIFIED = re.compile(r"(?:([^\W\d]\w*|\))\s*\??(?:\.|->|::)\s*)?([^\W\d]\w*)\Z")


def _import_specs(node: Node) -> Iterator[Node]:
    """The nodes of the names that a statement imports."""
    if node.type == "import_spec":
        yield node
        return
    if node.type == "import_from_statement" or _is_python_import(node):
        yield from node.children_by_field_name("name")
        return
    clauses = [child for child in node.named_children if child.type == "import_clause"]
    for clause in clauses:
        for child in clause.named_children:
            if child.type == "named_imports":
                yield from (
                    each for each in child.named_children if each.type == "import_specifier"
                )
            elif child.type == "identifier":
                yield child


def _is_python_import(node: Node) -> bool:
    return node.type == "import_statement" and bool(node.children_by_field_name("name"))


def _defines(parent: Node, node: Node) -> bool:
    is_named = parent.type in _FUNCTIONS or parent.type in _CLASSES or parent.type in _MEMBERS
    if not is_named:
        return False
    return any(child == node for child in parent.children_by_field_name("name"))


def _is_in_class(node: Node) -> bool:
    """Whether a function is a class's own: nothing but its body is between them."""
    holder = node.parent
    while holder is not None and holder.type in ("block", "decorated_definition", "class_body"):
        holder = holder.parent
    return holder is not None and holder.type in _CLASSES


def _is_bound(node: Node) -> bool:
    child, parent = node, node.parent
    while parent is not None:
        if parent.type in _PARAMETERS:
            return True
        if parent.type in _BINDERS:
            field_name = _BINDERS[parent.type]
            return any(each == child for each in parent.children_by_field_name(field_name))
        if parent.type == "typed_parameter" and parent.child_by_field_name("type") == child:
            return False
        if parent.type == "pair_pattern" and parent.child_by_field_name("key") == child:
            return False
        if parent.type not in _PATTERNS:
            return False
        child, parent = parent, parent.parent
    return False
