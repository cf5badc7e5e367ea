"""Mistral: `[TOOL_CALLS][{"name": …, "arguments": {…}}]`, later `[TOOL_CALLS]NAME[ARGS]{…}`, and
Llama's `<|python_tag|>{"name": …, "parameters": {…}}`."""

import re
from collections.abc import Sequence

from composer_lsp.agent.formats.cursor import Cursor, NoCall, Offered, WrittenCall
from composer_lsp.agent.formats.json_call import begin_object, calls_of

_NAME = re.compile(r"[\w.-]+")


def read(cursor: Cursor, offered: Offered) -> Sequence[WrittenCall]:
    if not cursor.has("[TOOL_CALLS]"):
        cursor.take("<|python_tag|>")
    cursor.skip_space()
    if cursor.text[cursor.at : cursor.at + 1] in ("[", "{", ""):
        begin_object(cursor, offered)
        return calls_of(cursor.json(), offered)
    name = cursor.take_match(_NAME, "[{ \n")
    cursor.skip_space()
    if cursor.has("[CALL_ID]"):
        cursor.take_match(_NAME, "[{ \n")
        cursor.skip_space()
    cursor.has("[ARGS]")
    if name not in offered:
        raise NoCall(name)
    cursor.skip_space()
    cursor.begin(name)
    return [WrittenCall(name, cursor.json())]
