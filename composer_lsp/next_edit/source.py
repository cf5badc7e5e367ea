"""What is known of a file: its identifiers, functions, calls and imports, in code, and never what only
stands in a string or a comment. `reader.py` makes it.
"""

import re
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True, slots=True)
class Span:
    start: int
    end: int

    def holds(self, offset: int) -> bool:
        return self.start <= offset < self.end


@dataclass(frozen=True, kw_only=True, slots=True)
class Name:
    """An identifier in code; offsets are in characters."""

    text: str
    start: int
    end: int
    row: int
    is_attribute: bool
    """Reached through an object: `.name`, a method, a field."""
    is_keyword: bool
    """Names an argument in a call: `f(name=1)`."""
    is_import: bool
    is_binding: bool
    """It is given a value here: a parameter, the left side of an assignment."""
    is_definition: bool
    """It names a function, a class, a method or a field here."""
    function: int
    """Index of the innermost function around it, -1 outside of any."""
    in_class: int
    """Index of the innermost class around it, -1 outside of any."""

    @property
    def is_introduced(self) -> bool:
        return self.is_binding or self.is_definition or self.is_import


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameter:
    name: str
    is_required: bool
    is_variadic: bool
    is_keyword_only: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Function(Span):
    name: str
    parameters: tuple[Parameter, ...]
    parameters_span: Span
    parent: int
    """Index of the function around it."""
    in_class: int
    is_member: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Argument(Span):
    text: str
    keyword: str
    is_splat: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Call(Span):
    name: str
    """The last part of what is called."""
    object: str
    """What stands before its dot."""
    arguments: tuple[Argument, ...]
    arguments_span: Span
    """With the brackets."""
    function: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Imported:
    """One imported name."""

    name: str
    """As the file uses it."""
    span: Span
    """Of the name in its statement, with its alias."""
    statement: Span
    num_names: int
    """In its statement."""


@dataclass
class Source:
    text: str
    language_id: str
    names: list[Name] = field(default_factory=list[Name])
    functions: list[Function] = field(default_factory=list[Function])
    classes: list[tuple[str, Span]] = field(default_factory=list[tuple[str, Span]])
    calls: list[Call] = field(default_factory=list[Call])
    imported: list[Imported] = field(default_factory=list[Imported])

    @cached_property
    def _by_start(self) -> dict[int, Name]:
        return {name.start: name for name in self.names}

    @cached_property
    def bound(self) -> dict[int, frozenset[str]]:
        """The names that each function binds, and at -1 those of the file."""
        found: dict[int, set[str]] = {-1: set()}
        for name in self.names:
            is_members = name.is_attribute or (name.in_class >= 0 and name.function < 0)
            if name.is_introduced and not is_members:
                found.setdefault(name.function, set()).add(name.text)
        return {function: frozenset(names) for function, names in found.items()}

    def name_at(self, start: int) -> Name | None:
        return self._by_start.get(start)

    def scope(self, name: Name) -> int:
        """The function that a name belongs to; -1: the file, or elsewhere."""
        function = name.function
        while function >= 0:
            if name.text in self.bound.get(function, ()):
                return function
            function = self.functions[function].parent
        return -1

    def is_within(self, function: int, outer: int) -> bool:
        """Whether a function is another one or lies in it; every one lies in -1."""
        while function not in (outer, -1):
            function = self.functions[function].parent
        return function == outer

    def object_of(self, name: Name) -> str:
        """What stands before an attribute's dot, if that is a mere name."""
        match = _OBJECT.search(self.text, max(0, name.start - 80), name.start)
        return match[1] if match else ""


_OBJECT = re.compile(r"([^\W\d]\w*)\s*\??\.\s*\Z")
