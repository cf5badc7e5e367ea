"""Hermes, Qwen2.5, Qwen3: `<tool_call>{"name": …, "arguments": {…}}</tool_call>`, and other tags that
small models put there."""

from collections.abc import Sequence

from composer_lsp.agent.formats.cursor import Cursor, More, NoCall, Offered, WrittenCall
from composer_lsp.agent.formats.json_call import begin_object, calls_of

_TAGS = ("tool_call", "function_call", "tools")


def read(cursor: Cursor, offered: Offered) -> Sequence[WrittenCall]:
    tag = next((tag for tag in _TAGS if cursor.has(f"<{tag}>")), None)
    if tag is None:
        raise NoCall
    closer = f"</{tag}>"
    cursor.skip_space()
    start = cursor.at
    begin_object(cursor, offered)
    try:
        cursor.json()
        cursor.skip_space()
        cursor.has(closer)  # some models leave it out
        body = cursor.text[start : cursor.at].rstrip().removesuffix(closer)
    except More:
        if not cursor.is_whole or cursor.text.find(closer, start) < 0:
            raise
        # A quote that is none for JSON: the mark is what there is to go by.
        cursor.at = start
        body = cursor.until(closer)
    return calls_of(body, offered)
