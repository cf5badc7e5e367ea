"""A Markdown fence, or a line, that is nothing but calls as JSON objects. Every other fence is code."""

from collections.abc import Sequence

from composer_lsp.agent.formats.cursor import Cursor, More, NoCall, Offered, WrittenCall
from composer_lsp.agent.formats.json_call import read_object

_INFOS = ("json", "tool_call", "tool_code", "")


def read(cursor: Cursor, offered: Offered) -> Sequence[WrittenCall]:
    cursor.take("```")
    info = cursor.until("\n").strip()
    if info not in _INFOS:
        raise NoCall
    calls: list[WrittenCall] = []
    cursor.skip_space()
    while not calls or not cursor.has("```"):
        try:
            calls.append(read_object(cursor, offered))
        except (NoCall, More):
            if not calls or cursor.begun is None or not cursor.is_whole:
                raise
            name, start = cursor.begun
            cursor.at = len(cursor.text)
            return [*calls, WrittenCall(name, cursor.text[start:])]
        cursor.skip_space()
        if cursor.is_whole and cursor.at == len(cursor.text):
            break
    return calls


def read_line(cursor: Cursor, offered: Offered) -> Sequence[WrittenCall]:
    return [read_object(cursor, offered)]
