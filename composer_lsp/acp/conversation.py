"""Earlier turns of a session, put before each request: a run of the agent knows only its own."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from composer_lsp.agent.calls import cut_middle
from composer_lsp.agent.model import ChatModel, Delta, Message

_SHARE = 3
"""Earlier turns take at most one part in so many of the context."""
_MAX_TEXT_CHARS = 6_000
_MESSAGE_TOKENS = 8
"""That a template puts around a message, about."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    request: str
    answer: str
    """What was answered, and what became of the changes."""

    @property
    def messages(self) -> Sequence[Message]:
        return (
            {"role": "user", "content": cut_middle(self.request, _MAX_TEXT_CHARS)},
            {"role": "assistant", "content": cut_middle(self.answer, _MAX_TEXT_CHARS)},
        )


class ContinuedModel:
    """A `ChatModel` for one run, that has the turns before it in mind. The oldest are forgotten when
    they need too much room."""

    def __init__(self, model: ChatModel, turns: Sequence[Turn]) -> None:
        self._model = model
        self._turns = tuple(turns)
        self._earlier: tuple[Sequence[Message], int] | None = None

    async def context_tokens(self) -> int:
        _, num_tokens = await self._kept()
        return await self._model.context_tokens() - num_tokens

    async def num_tokens(self, text: str) -> int:
        return await self._model.num_tokens(text)

    async def reply(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        *,
        max_tokens: int,
        must_call: bool = False,
        prediction: str | None = None,
    ) -> AsyncGenerator[Delta, None]:
        earlier, _ = await self._kept()
        replies = self._model.reply(
            [messages[0], *earlier, *messages[1:]],
            tools,
            max_tokens=max_tokens,
            must_call=must_call,
            prediction=prediction,
        )
        async with aclosing(replies):
            async for delta in replies:
                yield delta

    async def _kept(self) -> tuple[Sequence[Message], int]:
        """The earlier messages, and how many tokens they take. Counted once, so that the prompt
        stays the same in a run."""
        if self._earlier is None:
            self._earlier = await self._fitted()
        return self._earlier

    async def _fitted(self) -> tuple[Sequence[Message], int]:
        budget = await self._model.context_tokens() // _SHARE
        kept: list[Message] = []
        num_tokens = 0
        for turn in reversed(self._turns):
            size = 0
            for message in turn.messages:
                size += await self._model.num_tokens(message["content"]) + _MESSAGE_TOKENS
            if num_tokens + size > budget:
                break
            num_tokens += size
            kept[:0] = turn.messages
        return kept, num_tokens
