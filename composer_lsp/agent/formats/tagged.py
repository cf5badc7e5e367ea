"""Calls as tags: Qwen3-Coder's `<function=NAME><parameter=X>…</parameter></function>`, mostly within
`<tool_call>`; Llama's `<function=NAME>{…}</function>`; and what small models make of both:
`<function name="NAME">`, `<invoke name="NAME"><parameter name="X">`."""

import re
from collections.abc import Sequence

from composer_lsp.agent.formats.cursor import Cursor, NoCall, Offered, WrittenCall
from composer_lsp.agent.formats.values import arguments_text, inner_text

_NAME = re.compile(r"[\w.-]+")


def read(cursor: Cursor, offered: Offered) -> Sequence[WrittenCall]:
    is_wrapped = cursor.has("<tool_call>")
    cursor.skip_space()
    cursor.take("<")
    tag = "invoke" if cursor.has("invoke") else "function"
    if tag == "function":
        cursor.take(tag)
    name = _named(cursor)
    if name not in offered:
        raise NoCall(name)
    cursor.skip_space()
    if cursor.text.startswith(("{", "<parameter", f"</{tag}>"), cursor.at):
        cursor.begin(name)
    if cursor.text.startswith("{", cursor.at):
        arguments = cursor.json()
        cursor.skip_space()
        cursor.take(f"</{tag}>")
    else:
        arguments = arguments_text(_parameters(cursor, tag), offered[name])
    if is_wrapped:
        cursor.skip_space()
        cursor.has("</tool_call>")
    return [WrittenCall(name, arguments)]


def _parameters(cursor: Cursor, tag: str) -> list[tuple[str, str]]:
    """Up to the tag's end, which the cursor goes behind."""
    pairs: list[tuple[str, str]] = []
    while True:
        cursor.skip_space()
        if cursor.has(f"</{tag}>"):
            return pairs
        cursor.take("<parameter")
        name = _named(cursor)
        pairs.append((name, inner_text(_value(cursor, tag))))


def _value(cursor: Cursor, tag: str) -> str:
    """A text may hold the closing mark itself: its last is the one that another mark follows."""
    start = cursor.at
    while True:
        cursor.until("</parameter>")
        end = cursor.at
        cursor.skip_space()
        for mark in ("<parameter", f"</{tag}>"):
            if cursor.has(mark):
                cursor.at = end
                return cursor.text[start : end - len("</parameter>")]
        cursor.at = end


def _named(cursor: Cursor) -> str:
    """`=NAME>` or ` name="NAME">`."""
    if cursor.has("="):
        is_quoted = cursor.has('"')
    else:
        cursor.take(" ")
        cursor.skip_space()
        cursor.take("name=")
        is_quoted = cursor.has('"')
        if not is_quoted:
            raise NoCall
    name = cursor.take_match(_NAME, '"> ')
    if is_quoted:
        cursor.take('"')
    cursor.skip_space()
    cursor.take(">")
    return name
