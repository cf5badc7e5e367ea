"""From a tool's signature to the JSON schema of its arguments, and from a call's JSON to arguments.

A parameter is written `name: Annotated[type, "what it means"] = default`. Types: `str`, `int`,
`bool`, a `Literal` of strings, `tuple[...]` of these or of a frozen dataclass with such fields, and
any of them `| None`.
"""

import dataclasses
import difflib
import inspect
import types
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

_SIMPLE: dict[object, tuple[str, str]] = {
    str: ("string", "a string"),
    int: ("integer", "a whole number"),
    bool: ("boolean", "true or false"),
}


class ArgumentError(Exception):
    """A call's arguments do not fit the tool; the text says which, and what would fit."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Parameter:
    name: str
    kind: Any
    description: str
    default: Any
    """`inspect.Parameter.empty` where there is none."""

    @property
    def is_required(self) -> bool:
        return self.default is inspect.Parameter.empty


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The JSON schema of the arguments after the first, which is the tool's context."""
    return _object_schema(_parameters(function))


def arguments_of(function: Callable[..., Any], given: object) -> dict[str, Any]:
    """The keyword arguments for a call. Raises: ArgumentError."""
    return _arguments(_parameters(function), given, "the arguments")


@cache
def _parameters(function: Callable[..., Any]) -> tuple[_Parameter, ...]:
    hints = get_type_hints(function, include_extras=True)
    skipped = 0 if isinstance(function, type) else 1
    return tuple(
        _Parameter(
            name=name,
            kind=_bare(hints[name]),
            description=next((str(each) for each in get_args(hints[name])[1:]), "")
            if get_origin(hints[name]) is Annotated
            else "",
            default=parameter.default,
        )
        for name, parameter in list(inspect.signature(function).parameters.items())[skipped:]
    )


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _object_schema(parameters: tuple[_Parameter, ...]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            each.name: {
                **_schema(each.kind),
                **({"description": each.description} if each.description else {}),
            }
            for each in parameters
        },
        "required": [each.name for each in parameters if each.is_required],
        "additionalProperties": False,
    }


def _schema(kind: Any) -> dict[str, Any]:
    if kind in _SIMPLE:
        return {"type": _SIMPLE[kind][0]}
    if get_origin(kind) is Literal:
        return {"type": "string", "enum": list(get_args(kind))}
    if get_origin(kind) is tuple:
        return {"type": "array", "items": _schema(get_args(kind)[0])}
    if get_origin(kind) in (Union, types.UnionType):
        return _schema(_not_none(kind))
    assert dataclasses.is_dataclass(kind), f"no schema for {kind}"
    return _object_schema(_parameters(cast("Callable[..., Any]", kind)))


def _not_none(kind: Any) -> Any:
    return next(each for each in get_args(kind) if each is not types.NoneType)


def _arguments(parameters: tuple[_Parameter, ...], given: object, where: str) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise ArgumentError(f"{where} must be an object, not {_shown(given)}")
    values = cast("Mapping[str, Any]", given)
    known = {each.name: each for each in parameters}
    for name in values:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise ArgumentError(f"{name} is no argument; {hint}")
    found: dict[str, Any] = {}
    for each in parameters:
        value = values.get(each.name)
        if value is None:
            if each.is_required:
                raise ArgumentError(f"{each.name} is missing, {_wanted(each.kind)}")
            continue
        found[each.name] = _value(each.kind, value, each.name)
    return found


def _value(kind: Any, value: Any, where: str) -> Any:
    if get_origin(kind) in (Union, types.UnionType):
        return _value(_not_none(kind), value, where)
    if get_origin(kind) is tuple:
        if not isinstance(value, list):
            raise ArgumentError(f"{where} must be a list, not {_shown(value)}")
        inner = get_args(kind)[0]
        items = enumerate(cast("list[Any]", value))
        return tuple(_value(inner, item, f"{where}[{index}]") for index, item in items)
    if dataclasses.is_dataclass(kind):
        build = cast("Callable[..., Any]", kind)
        return build(**_arguments(_parameters(build), value, where))
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)  # JSON knows one kind of number
    if (kind in _SIMPLE and type(value) is not kind) or (
        get_origin(kind) is Literal and value not in get_args(kind)
    ):
        raise ArgumentError(f"{where} must be {_wanted(kind)}, not {_shown(value)}")
    return value


def _wanted(kind: Any) -> str:
    if kind in _SIMPLE:
        return _SIMPLE[kind][1]
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(get_args(kind))
    if get_origin(kind) is tuple:
        return "a list"
    if get_origin(kind) in (Union, types.UnionType):
        return _wanted(_not_none(kind))
    return "an object"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"
