"""Calls as JSON objects with a name and arguments: what every JSON format holds."""

import json
import re
from collections.abc import Sequence
from typing import Any, cast

from composer_lsp.agent.formats.cursor import Cursor, NoCall, Offered, WrittenCall
from composer_lsp.agent.lenient_json import read_json

_NAME = re.compile(r"[\w.-]+")
_HEAD = re.compile(r"""[\[\s]*\{\s*(["'])name\1\s*:\s*(["'])(?P<name>[\w.-]+)\2\s*[,}]""")


def read_object(cursor: Cursor, offered: Offered) -> WrittenCall:
    """An object that is nothing but a call: its name first, then its arguments. The cursor goes
    behind it."""
    start = cursor.at
    cursor.take("{")
    _key(cursor, ("name",))
    cursor.take('"')
    name = cursor.take_match(_NAME, '"')
    cursor.take('"')
    cursor.skip_space()
    cursor.take(",")
    cursor.skip_space()
    _key(cursor, ("arguments", "parameters"))
    if name not in offered:
        raise NoCall(name)
    if cursor.text.startswith("{", cursor.at):
        cursor.begin(name)
    cursor.json()
    cursor.begun = None  # an object with more in it is none of ours
    cursor.skip_space()
    if not cursor.is_at_end:
        cursor.take("}")
    (call,) = calls_of(cursor.text[start : cursor.at], offered)
    return call


def calls_of(body: str, offered: Offered) -> Sequence[WrittenCall]:
    """The calls of an object, or of a list of objects, however their fields are ordered.

    Raises: NoCall for what names no offered tool.
    """
    try:
        value = read_json(body)
    except ValueError:
        return [_unread(body, offered)]
    entries = cast("list[Any]", value if isinstance(value, list) else [value])
    if not entries:
        raise NoCall
    return [_call(entry, offered) for entry in entries]


def begin_object(cursor: Cursor, offered: Offered) -> None:
    """Note the tool whose call begins here, as far as that is told by the first characters."""
    match = _HEAD.match(cursor.text, cursor.at)
    if match is not None and match["name"] in offered:
        cursor.begin(match["name"])


def _key(cursor: Cursor, names: Sequence[str]) -> None:
    cursor.skip_space()
    cursor.take('"')
    name = cursor.take_match(_NAME, '"')
    if name not in names:
        raise NoCall
    cursor.take('"')
    cursor.skip_space()
    cursor.take(":")
    cursor.skip_space()


def _call(entry: Any, offered: Offered) -> WrittenCall:
    fields = cast("dict[str, Any]", entry if isinstance(entry, dict) else {})
    function = fields.get("function")
    if isinstance(function, dict):  # as OpenAI's API nests it
        fields = cast("dict[str, Any]", function)
    name = next((fields[key] for key in ("name", "tool", "function") if key in fields), None)
    if not isinstance(name, str):
        raise NoCall
    if name not in offered:
        raise NoCall(name)
    arguments = fields.get("arguments", fields.get("parameters"))
    if isinstance(arguments, str):
        return WrittenCall(name, arguments)
    return WrittenCall(name, json.dumps({} if arguments is None else arguments))


def _unread(body: str, offered: Offered) -> WrittenCall:
    """A call whose JSON cannot be read, which the model is to be told of."""
    match = _HEAD.match(body)
    if match is None:
        raise NoCall
    if match["name"] not in offered:
        raise NoCall(match["name"])
    return WrittenCall(match["name"], body)
