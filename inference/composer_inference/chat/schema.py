"""Which JSON schemas can be enforced while decoding, checked before anything is decoded.

llama.cpp hands schemas to llguidance, and decodes without any constraint, silently, where that
knows a keyword and does not implement it, or finds the schema malformed. Every case below was seen
to do so (xllamacpp 2026.10).
"""

import re
from collections.abc import Mapping
from typing import Any, cast

from composer_inference.chat.satisfiable import contradiction

_UNENFORCEABLE = frozenset(
    {
        "not",
        "if",
        "then",
        "else",
        "contains",
        "minContains",
        "maxContains",
        "uniqueItems",
        "propertyNames",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "unevaluatedItems",
        "unevaluatedProperties",
        "$dynamicRef",
        "$recursiveRef",
    }
)
_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_TYPES = frozenset({"string", "number", "integer", "boolean", "null", "array", "object"})
_NAMED_SCHEMAS = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_SCHEMA_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SCHEMAS = frozenset({"items", "additionalProperties", "additionalItems"})
_COUNTS = frozenset(
    {"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"}
)
_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_LOOKAROUND = re.compile(r"\(\?(?!:|i\)|s\))|\\[bB1-9]")


MAX_DEPTH = 56
"""Schemas within schemas; beyond 63 the constraint is dropped, and a tool's stand a few deep."""


class SchemaError(ValueError):
    """The schema is malformed or cannot be enforced; the message names the place and the keyword."""


def check_schema(schema: Mapping[str, Any], *, relax: bool) -> dict[str, Any]:
    """The schema as it is to be enforced. With `relax`, keywords that cannot be enforced are left
    out, so that it allows more; without, they are an error, as malformed ones always are.

    Raises: SchemaError.
    """
    try:
        return _Checker(schema, relax).checked(schema, "", 0)
    except RecursionError:
        raise SchemaError("the schema is nested too deeply") from None


class _Checker:
    def __init__(self, root: Mapping[str, Any], relax: bool) -> None:
        self._root = root
        self._relax = relax

    def checked(self, schema: Any, path: str, depth: int) -> Any:
        if schema is True:
            return schema
        if depth > MAX_DEPTH:
            if self._relax:
                return True
            raise SchemaError(f"nested more than {MAX_DEPTH} schemas deep, at {path[:200]}…")
        if not isinstance(schema, dict):
            raise _error(path, "is no JSON schema" if schema is not False else "allows nothing")
        checked: dict[str, Any] = {}
        for key, value in cast(dict[str, Any], schema).items():
            place = f"{path}/{key}"
            if key in _UNENFORCEABLE or not self._is_enforceable(key, value, schema):
                if not self._relax:
                    raise _error(place, "cannot be enforced while decoding; leave it out")
            elif key == "oneOf" and self._relax:
                checked["anyOf"] = self._nested(key, value, place, depth + 1)
            else:
                checked[key] = self._nested(key, value, place, depth + 1)
        if (reason := contradiction(checked)) is not None:
            raise _error(path, reason)
        return checked

    def _is_enforceable(self, key: str, value: Any, schema: Any) -> bool:
        if key == "format":
            return value in _FORMATS or "string" not in schema.get("type", "string")
        if key in {"exclusiveMinimum", "exclusiveMaximum"}:
            return not isinstance(value, bool)  # as older drafts had them
        if key == "pattern":
            return isinstance(value, str) and not _LOOKAROUND.search(value)
        if key == "patternProperties":
            return isinstance(value, dict) and not any(
                map(_LOOKAROUND.search, cast(dict[str, Any], value))
            )
        return True

    def _nested(self, key: str, value: Any, path: str, depth: int) -> Any:
        if key in _NAMED_SCHEMAS:
            named = _require(value, dict, path, "an object of schemas")
            return {
                name: self.checked(item, f"{path}/{name}", depth) for name, item in named.items()
            }
        if key in _SCHEMA_LISTS or (key == "items" and isinstance(value, list)):
            listed = _require(value, list, path, "a list of schemas")
            if not listed:
                raise _error(path, "is empty")
            return [self.checked(item, f"{path}/{at}", depth) for at, item in enumerate(listed)]
        if key in _SCHEMAS:
            return value if value is False and key != "items" else self.checked(value, path, depth)
        self._check_plain(key, value, path)
        return value

    def _check_plain(self, key: str, value: Any, path: str) -> None:
        if key == "type":
            types = cast(list[object], value if isinstance(value, list) else [value])
            if not types or not all(item in _TYPES for item in types):
                raise _error(path, f"is {value!r} and no JSON type")
        elif key == "enum":
            if not _require(value, list, path, "a list of values"):
                raise _error(path, "is empty")
        elif key == "required":
            _require(value, list, path, "a list of names")
        elif key in _COUNTS:
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise _error(path, f"is {value!r} and no whole number from 0")
        elif key in _NUMBERS:
            if not isinstance(value, int | float) or isinstance(value, bool):
                raise _error(path, f"is {value!r} and no number")
        elif key == "pattern":
            try:
                re.compile(value)
            except re.error as error:
                raise _error(path, f"is no regular expression: {error}") from error
        elif key == "$ref":
            self._check_reference(value, path)

    def _check_reference(self, reference: Any, path: str) -> None:
        seen: set[str] = set()
        waiting: list[Any] = [reference]
        while waiting:
            found = self._referred(waiting.pop(), path)
            direct = _direct_references(found)
            if reference in direct:
                raise _error(path, f"is {reference!r}, which leads back to itself and to no value")
            waiting += direct - seen
            seen |= direct

    def _referred(self, reference: Any, path: str) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise _error(path, f"is {reference!r}; only references within the schema are known")
        found: Any = self._root
        for name in filter(None, reference[1:].split("/")):
            name = name.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or name not in found:
                raise _error(path, f"is {reference!r}, which is not in the schema")
            found = cast(dict[str, Any], found)[name]
        return found


def _direct_references(schema: Any) -> set[str]:
    """Where the schema leads without any part of a value between."""
    if not isinstance(schema, dict):
        return set()
    fields = cast(dict[str, Any], schema)
    found = {fields["$ref"]} if isinstance(fields.get("$ref"), str) else set[str]()
    for key in ("anyOf", "oneOf", "allOf"):
        parts = fields.get(key)
        for part in cast(list[object], parts) if isinstance(parts, list) else ():
            found |= _direct_references(part)
    return found


def _require(value: Any, kind: type[Any], path: str, expected: str) -> Any:
    if not isinstance(value, kind):
        raise _error(path, f"is not {expected}")
    return value


def _error(path: str, problem: str) -> SchemaError:
    return SchemaError(f"{path or 'the schema'} {problem}")
