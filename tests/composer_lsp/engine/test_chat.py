"""What the agent takes of a chat completion's events."""

import pytest

from composer_lsp.agent.model import Reply, Token
from composer_lsp.engine.chat import (
    _deltas,  # pyright: ignore[reportPrivateUsage]
    _sendable,  # pyright: ignore[reportPrivateUsage]
)
from composer_lsp.engine.errors import NotAnEngineError


def test_tokens_come_with_their_ids_those_of_calls_marked() -> None:
    """`token_id` and `tool_calls` are our engine's; other servers give neither."""
    entry = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}
    logprobs = {
        "content": [{**entry, "token_id": 7}, entry],
        "tool_calls": [{**entry, "token_id": 8}],
    }
    event = {"choices": [{"delta": {}, "logprobs": logprobs, "finish_reason": None}]}
    reply = Reply()
    for delta in _deltas(event):
        reply.add(delta)
    assert reply.tokens == [
        Token(text="a", logprob=-0.5, id=7),
        Token(text="a", logprob=-0.5),
        Token(text="a", logprob=-0.5, id=8, is_call=True),
    ]


def test_bytes_that_are_no_text_can_be_sent() -> None:
    message = _sendable({"role": "tool", "content": "a\udcff", "tool_call_id": "1"})
    assert message == {"role": "tool", "content": "a?", "tool_call_id": "1"}


def call_event(index: int) -> dict[str, object]:
    call = {"index": index, "id": f"{index}", "function": {"name": "look", "arguments": "{}"}}
    return {"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": None}]}


def test_more_calls_than_are_done_are_no_error() -> None:
    reply = Reply()
    for index in range(100):
        for delta in _deltas(call_event(index)):
            reply.add(delta)
    assert [call.id for call in reply.calls] == [f"{index}" for index in range(100)]


@pytest.mark.parametrize("index", [-1, 10**9])
def test_an_index_of_no_call_is_an_error(index: int) -> None:
    with pytest.raises(NotAnEngineError, match="the index"):
        _deltas(call_event(index))
