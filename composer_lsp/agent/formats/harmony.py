"""gpt-oss, harmony: `<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{…}<|call|>`.

What is said in the channel `analysis` is hidden; the marks around the others are.
Source: OpenAI's harmony response format.
"""

import re
from collections.abc import Sequence

from composer_lsp.agent.formats.cursor import Cursor, Hidden, More, NoCall, Offered, WrittenCall

_MAX_HEADER_CHARS = 300
_RECIPIENT = re.compile(r"to=(?:functions\.)?([\w.-]+)")
_CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")
_ENDS = ("<|end|>", "<|return|>", "<|call|>")
_HEADS = ("<|start|>", "<|channel|>", "to=functions.")


def read(cursor: Cursor, offered: Offered) -> Sequence[WrittenCall] | Hidden:
    if any(cursor.has(mark) for mark in _ENDS):
        return Hidden()
    header = _header(cursor)
    recipient = _RECIPIENT.search(header)
    if recipient is None:
        channel = _CHANNEL.search(header)
        if channel is not None and channel[1] == "analysis":
            _skip_message(cursor)
        return Hidden()
    name = recipient[1]
    if name not in offered:
        raise NoCall(name)
    cursor.begin(name)
    cursor.skip_space()
    arguments = cursor.json()
    cursor.skip_space()
    cursor.has("<|call|>")  # where it ends the answer it is not sent
    return [WrittenCall(name, arguments)]


def _header(cursor: Cursor) -> str:
    start = cursor.at
    if not any(cursor.has(mark) for mark in _HEADS):
        raise NoCall
    end = cursor.text.find("<|message|>", start, start + _MAX_HEADER_CHARS)
    if end < 0:
        raise NoCall if cursor.is_whole or len(cursor.text) > start + _MAX_HEADER_CHARS else More
    cursor.at = end + len("<|message|>")
    return cursor.text[start:end]


def _skip_message(cursor: Cursor) -> None:
    match = re.compile(r"<\|(?:end|return|start|channel)\|>").search(cursor.text, cursor.at)
    if match is not None:
        cursor.at = match.end() if match[0] in _ENDS else match.start()
    elif cursor.is_whole:
        cursor.at = len(cursor.text)
    else:
        raise More
