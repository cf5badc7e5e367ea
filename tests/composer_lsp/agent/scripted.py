"""A model that says what a test wrote down: the model's side of the protocol and nothing else."""

import json
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from composer_lsp.agent.model import Delta, Message, Usage
from composer_lsp.engine.errors import EngineError

Said = str | list[tuple[str, Any]] | EngineError


class ScriptedModel:
    """Implements `ChatModel`. Each reply is a text, calls as (name, arguments), or an error. A call's
    arguments are an object, or a string that is sent as it is."""

    def __init__(self, *replies: Said, context_tokens: int = 100_000) -> None:
        self._replies = list(replies)
        self._context_tokens = context_tokens
        self.requests: list[list[Message]] = []
        self.tools: list[str] = []
        self.must_call: list[bool] = []

    async def context_tokens(self) -> int:
        return self._context_tokens

    async def num_tokens(self, text: str) -> int:
        return len(text) // 4 + 1

    async def reply(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        *,
        max_tokens: int,
        must_call: bool = False,
        prediction: str | None = None,
    ) -> AsyncGenerator[Delta, None]:
        self.requests.append(list(messages))
        self.must_call.append(must_call)
        self.tools = [tool["function"]["name"] for tool in tools]
        said = self._replies.pop(0)
        if isinstance(said, EngineError):
            yield Delta(text="Half an ans")
            raise said
        if isinstance(said, str):
            for word in re.findall(r"\S+\s*", said):
                yield Delta(text=word)
            yield Delta(finish_reason="stop", usage=Usage(num_prompt_tokens=1, num_reply_tokens=1))
            return
        for index, (name, arguments) in enumerate(said):
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            yield Delta(call_index=index, call_id=f"id{len(self.requests)}.{index}", call_name=name)
            half = len(text) // 2
            yield Delta(call_index=index, call_arguments=text[:half])
            yield Delta(call_index=index, call_arguments=text[half:])
        yield Delta(finish_reason="tool_calls")
