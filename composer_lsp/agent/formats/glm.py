"""GLM-4.5 and later: `<tool_call>NAME`, then `<arg_key>X</arg_key><arg_value>…</arg_value>` each, then
`</tool_call>`."""

import re
from collections.abc import Sequence

from composer_lsp.agent.formats.cursor import Cursor, NoCall, Offered, WrittenCall
from composer_lsp.agent.formats.values import arguments_text, inner_text

_NAME = re.compile(r"[\w.-]+")
_VALUE_END = "</arg_value>"


def read(cursor: Cursor, offered: Offered) -> Sequence[WrittenCall]:
    cursor.take("<tool_call>")
    cursor.skip_space()
    name = cursor.take_match(_NAME, "\n< ")
    cursor.skip_space()
    if name not in offered:
        raise NoCall(name)
    if cursor.text.startswith(("<arg_key>", "</tool_call>"), cursor.at):
        cursor.begin(name)
    pairs: list[tuple[str, str]] = []
    while not cursor.has("</tool_call>"):
        cursor.take("<arg_key>")
        key = cursor.until("</arg_key>").strip()
        cursor.skip_space()
        cursor.take("<arg_value>")
        pairs.append((key, inner_text(_value(cursor))))
        cursor.skip_space()
    return [WrittenCall(name, arguments_text(pairs, offered[name]))]


def _value(cursor: Cursor) -> str:
    """A text may hold the closing mark itself: its last is the one that another mark follows."""
    start = cursor.at
    while True:
        cursor.until(_VALUE_END)
        end = cursor.at
        cursor.skip_space()
        for mark in ("<arg_key>", "</tool_call>"):
            if cursor.has(mark):
                cursor.at = end
                return cursor.text[start : end - len(_VALUE_END)]
        cursor.at = end
