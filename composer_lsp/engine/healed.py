"""Answers to prompts that end before the last token of the text before the cursor."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from composer_lsp.completion.healing import without_start
from composer_lsp.completion.tab_engine import TabChunk
from composer_lsp.engine.chunks import chunk_of, tokens_of

_UNLIKELY_LOGPROB = -4.0
"""The model gave the token less than two in a hundred."""


class UnlikelyStartError(Exception):
    """The held text was met by a token that the model did not mean there: of `.load` + `self` it
    wanted the first only, and the grammar made it find another `s` for `.loads`."""


def beginning_with(text: str) -> str:
    """A GBNF grammar of all texts that begin with this one."""
    literal = "".join(
        f"\\{char}" if char in '"\\' else char if char.isprintable() else f"\\U{ord(char):08X}"
        for char in text
    )
    return f'root ::= "{literal}" [^\\x00]*'


async def behind_held_text(
    events: AsyncGenerator[dict[str, Any], None], starts_with: str
) -> AsyncGenerator[TabChunk, None]:
    """The chunks of an answer without the held text that it begins with; nothing of an answer that
    begins otherwise.

    Raises: UnlikelyStartError, before the first chunk.
    """
    answer = ""
    is_behind = not starts_with
    async with aclosing(events):
        async for event in events:
            chunk = chunk_of(event)
            if is_behind:
                yield chunk
                continue
            if _is_met_by_chance(event, len(answer), len(starts_with)):
                raise UnlikelyStartError
            answer += chunk.text
            if len(answer) < len(starts_with) and chunk.finish_reason is None:
                continue
            text = without_start(answer, starts_with)
            if text is None:
                yield TabChunk(finish_reason="stop", timings=chunk.timings)
                return
            is_behind = True
            yield replace(chunk, text=text)


def _is_met_by_chance(event: dict[str, Any], num_before: int, num_held: int) -> bool:
    """Whether an unlikely token reaches over the end of the held text and not from its start."""
    start = num_before
    for token, logprob in tokens_of(event):
        end = start + len(token)
        if 0 < start < num_held < end and logprob < _UNLIKELY_LOGPROB:
            return True
        start = end
    return False
