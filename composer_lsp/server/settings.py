"""From the JSON that editors send to `Settings`, key by key.

A bad value costs that key alone: it keeps its documented default and the user is told the key, the
value and what would be allowed.
"""

import dataclasses
import difflib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal, cast, get_args, get_origin

import cattrs
from cattrs.errors import CattrsError

from composer_lsp.config import Settings

SECTION = "composer"

_RANGES = {
    "max_tokens": (1, 4096),
    "context_tokens": (64, 1 << 20),
    "min_score": (0, 1),
    "debounce_ms": (0, 60_000),
    "temperature": (0, 2),
    "command_timeout_s": (1, 86_400),
    "timeout_s": (0, 86_400),
    "threads": (0, 1024),
    "idle_exit_s": (0, 31_536_000),
}
"""Smallest and largest useful value of each number."""

_GLOB_FIELDS = frozenset({"disabled_paths", "include_secret"})

_WHOLE_KEYS = frozenset({"mcpServers"})
"""Keys whose value is taken whole: what a layer leaves out must not come back from one below."""

_EDITOR_KEYS = frozenset({"server", "serverPath", "trace"})
"""Keys of the same section that are for the editor's plugin and reach us with the rest."""

_MAX_SHOWN = 60


class _BadValueError(ValueError):
    """Says what is allowed instead."""


def section_of(sent: object) -> Mapping[str, Any]:
    """The settings inside what a client sent: all of its sections, or ours alone, or nothing."""
    if not isinstance(sent, Mapping):
        return {}
    values = cast("Mapping[str, Any]", sent)
    inner = values.get(SECTION)
    return cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else values


def merged(*layers: Mapping[str, Any]) -> Mapping[str, Any]:
    """The layers on top of each other; the last wins, key by key, and null leaves what is below."""
    result: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            below = result.get(key)
            is_merged = isinstance(value, Mapping) and key not in _WHOLE_KEYS
            if is_merged and isinstance(below, Mapping):
                result[key] = merged(
                    cast("Mapping[str, Any]", below), cast("Mapping[str, Any]", value)
                )
            elif value is not None:
                result[key] = value
    return result


def parse_settings(values: Mapping[str, Any]) -> tuple[Settings, list[str]]:
    """The settings, and a message for the user about each value that could not be used."""
    problems: list[str] = []
    settings: Settings = _parse(Settings, values, SECTION, problems)
    index = settings.index
    for name, role, unset in (
        ("embedder", index.embedder, "static"),
        ("reranker", index.reranker, ""),
    ):
        if role.url and role.model == unset:
            key = f"{SECTION}.index.{name}"
            problems.append(
                f"{key}.url is set and {key}.model is not: name the model that the server is to use. "
                f"Until then it is not asked."
            )
    return settings, problems


def camel_case(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _parse(cls: type[Any], values: Mapping[str, Any], path: str, problems: list[str]) -> Any:
    fields = {camel_case(field.name): field for field in dataclasses.fields(cls)}
    parsed: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{path}.{key}"
        if key not in fields:
            if not (cls is Settings and key in _EDITOR_KEYS):
                problems.append(_unknown(name, key, fields))
            continue
        field = fields[key]
        if value is None:
            continue  # How editors write "not set".
        try:
            parsed[field.name] = _parse_value(field, value, name, problems)
        except _BadValueError as error:
            default = json.dumps(_default(field))
            problems.append(
                f"{name} is {_shown(value)}, but must be {error}. Using the default, {default}."
            )
    return cls(**parsed)


def _parse_value(
    field: dataclasses.Field[Any], value: object, name: str, problems: list[str]
) -> Any:
    field_type: Any = field.type
    if dataclasses.is_dataclass(field_type):
        if not isinstance(value, Mapping):
            raise _BadValueError("an object")
        return _parse(
            cast("type[Any]", field_type), cast("Mapping[str, Any]", value), name, problems
        )
    if get_origin(field_type) is Mapping:
        if not isinstance(value, Mapping):
            raise _BadValueError("an object")
        return cast("Mapping[str, Any]", value)  # its keys are names that the user chose
    result = _structure(value, field_type)
    if isinstance(result, int | float) and not isinstance(result, bool):
        _check_range(result, *_RANGES[field.name])
    if field.name == "fim_template" and result not in (names := _fim_templates()):
        raise _BadValueError(_one_of(names))
    if field.name in _GLOB_FIELDS and result:
        _check_globs(cast("tuple[str, ...]", result))
    if field.name == "command_rules" and result:
        return _readable_rules(cast("tuple[str, ...]", result), name, problems)
    if field.name == "sandbox_read_only_paths":
        _check_paths(cast("tuple[str, ...]", result))
    return result


def _structure(value: object, field_type: Any) -> Any:
    converter = _converter()
    try:
        return converter.structure(value, field_type)
    except (ValueError, TypeError, OverflowError, CattrsError) as error:
        raise _BadValueError(_allowed(field_type)) from error


def _check_range(number: float, minimum: int, maximum: int) -> None:
    if not minimum <= number <= maximum:  # nor is "not a number" in between
        raise _BadValueError(f"a number from {minimum} to {maximum}")


def _check_globs(globs: Sequence[str]) -> None:
    from composer_index.ignores import PatternError, parse_pattern  # needed by few

    for glob in globs:
        try:
            parse_pattern(glob)
        except PatternError as error:
            raise _BadValueError(f"a list of globs in git-ignore syntax, and {error}") from None


def _readable_rules(rules: Sequence[str], name: str, problems: list[str]) -> tuple[str, ...]:
    """Those that can be read: one that cannot must not take one that forbids with it."""
    from composer_lsp.agent.command_rules import parse_rule  # needed by few
    from composer_lsp.agent.commands import RuleError

    readable: list[str] = []
    for rule in rules:
        try:
            parse_rule(rule)
            readable.append(rule)
        except RuleError as error:
            problems.append(f"{name}: {error}. The others hold.")
    return tuple(readable)


def _check_paths(paths: Sequence[str]) -> None:
    for path in paths:
        if not path.startswith(("/", "~/")):
            raise _BadValueError(
                f'a list of paths that begin with "/" or "~/", and {path!r} does not'
            )


@cache
def _converter() -> cattrs.Converter:
    """cattrs, strict: it would take "12" for 12 and any value for a string."""
    converter = cattrs.Converter(detailed_validation=False)
    for exact in (bool, int, str):
        converter.register_structure_hook(exact, _exactly)
    converter.register_structure_hook(float, _number)
    converter.register_structure_hook_func(lambda kind: kind == tuple[str, ...], _strings)
    return converter


def _exactly(value: Any, expected: type) -> Any:
    # JSON knows one kind of number: 64.0 is a whole one.
    if expected is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if type(value) is not expected:
        raise TypeError(value)
    return value


def _number(value: Any, _: type) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(value)
    return float(value)


def _strings(value: Any, _: type) -> tuple[str, ...]:
    # A string is a sequence of strings too, and iterating it would be a silent surprise.
    if not isinstance(value, list | tuple):
        raise TypeError(value)
    return tuple(_exactly(item, str) for item in cast("Sequence[Any]", value))


def _allowed(field_type: Any) -> str:
    if get_origin(field_type) is Literal:
        return _one_of(get_args(field_type))
    if field_type == tuple[str, ...]:
        return "a list of strings"
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}
    return names[field_type]


def _one_of(words: Sequence[str]) -> str:
    return "one of " + ", ".join(json.dumps(word) for word in words)


def _fim_templates() -> tuple[str, ...]:
    from composer_lsp.completion.templates import template_names  # needed by few

    return ("auto", *template_names())


def _unknown(name: str, key: str, fields: Mapping[str, object]) -> str:
    near = difflib.get_close_matches(key, fields, n=1)
    hint = f"Did you mean {near[0]}?" if near else f"There are {', '.join(sorted(fields))}."
    return f"{name} is not a setting of Composer. {hint}"


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return {}
    return field.default


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"
