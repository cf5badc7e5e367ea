"""What in a JSON schema, taken by itself, no value can meet.

llguidance gives such a schema up, and llama.cpp decodes without it. Only what is plain is found: what
is not, such as a pattern longer than `maxLength`, the answer's guard catches (`json_guard.py`).
"""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, cast

_PAIRS = (
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
)
_PYTHON_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}


def contradiction(schema: Mapping[str, Any]) -> str | None:
    """Why no value meets the schema, None if nothing speaks against it. Its keywords are well-formed;
    those of schemas within are not looked at, but for the types that `allOf` lists."""
    return (
        _in_pairs(schema)
        or _in_range(schema)
        or _in_values(schema)
        or _in_properties(schema)
        or _in_types(schema)
    )


def _in_pairs(schema: Mapping[str, Any]) -> str | None:
    for low, high in _PAIRS:
        if low in schema and high in schema and schema[low] > schema[high]:
            return f"has {low} {schema[low]} above {high} {schema[high]}"
    return None


def _in_range(schema: Mapping[str, Any]) -> str | None:
    lows = [
        (schema[key], key != "minimum") for key in _given(schema, "minimum", "exclusiveMinimum")
    ]
    highs = [
        (schema[key], key != "maximum") for key in _given(schema, "maximum", "exclusiveMaximum")
    ]
    if not lows or not highs:
        return None
    (low, is_above), (high, is_below) = (
        max(lows),
        min(highs, key=lambda high: (high[0], not high[1])),
    )
    is_empty = low > high or (low == high and (is_above or is_below))
    step = schema.get("multipleOf", 1 if schema.get("type") == "integer" else None)
    is_finite = math.inf not in (abs(low), abs(high), step)
    if not is_empty and step is not None and step > 0 and is_finite:
        first = math.ceil(_exact(low) / _exact(step)) * _exact(step)
        first += _exact(step) if is_above and first == _exact(low) else 0
        is_empty = first > _exact(high) or (is_below and first == _exact(high))
    return f"allows no number between {low} and {high}" if is_empty else None


def _exact(number: float) -> Fraction:
    # As it was written: 0.1 is a tenth, which no float is.
    return Fraction(repr(number))


def _in_values(schema: Mapping[str, Any]) -> str | None:
    values: list[object] = [schema["const"]] if "const" in schema else schema.get("enum", [])
    if not values or "type" not in schema:
        return None
    types = _types(schema)
    if any(_has_type(value, name) for value in values for name in types):
        return None
    return f"has no value of the type {' or '.join(types)}"


def _in_properties(schema: Mapping[str, Any]) -> str | None:
    # Patterns are not looked at: to match a stranger's may take for ever.
    if schema.get("additionalProperties") is not False or schema.get("patternProperties"):
        return None
    names: Mapping[str, Any] = schema.get("properties", {})
    for name in cast(list[object], schema.get("required", [])):
        if name not in names:
            return f"requires {name!r}, which is no property of it, and allows no others"
    if schema.get("minProperties", 0) > len(names):
        return f"has minProperties {schema['minProperties']} and allows {len(names)} properties"
    return None


def _in_types(schema: Mapping[str, Any]) -> str | None:
    listed = cast(list[object], schema.get("allOf", []))
    parts = [schema, *(cast(dict[str, Any], part) for part in listed if isinstance(part, dict))]
    allowed: set[str] | None = None
    for part in parts:
        if "type" in part:
            types = set(_types(part))
            types |= {"integer"} if "number" in types else set()
            allowed = types if allowed is None else allowed & types
    return None if allowed is None or allowed else "asks for several types at once"


def _given(schema: Mapping[str, Any], *keys: str) -> list[str]:
    return [
        key
        for key in keys
        if isinstance(schema.get(key), int | float) and not isinstance(schema[key], bool)
    ]


def _types(schema: Mapping[str, Any]) -> list[str]:
    value = schema["type"]
    return cast(list[str], value if isinstance(value, list) else [value])


def _has_type(value: object, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _PYTHON_TYPES[name])
