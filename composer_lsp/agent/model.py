"""The seam between the agent and the model that it runs on."""

import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from composer_lsp.agent.arguments import as_object_text
from composer_lsp.agent.formats.cursor import WrittenCall

Message = Mapping[str, Any]
"""As chat-completion requests have it: `role`, `content`, and `tool_calls` or `tool_call_id`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolCall:
    id: str
    name: str
    arguments: str
    """JSON, if the model wrote what it should."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    num_prompt_tokens: int = 0
    num_reply_tokens: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    text: str
    logprob: float
    """By the model's own distribution, also where a grammar left other tokens only."""
    id: int | None = None
    """None where the server does not say it."""
    is_call: bool = False
    """Of a call. The marks around one are the chat template's, and no tokens that were sampled."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """How a reply was asked for."""

    model: str
    temperature: float
    max_tokens: int
    must_call: bool = False
    has_prediction: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Delta:
    """A piece of a reply. Pieces of a call's arguments come after its id and name, by its index."""

    text: str = ""
    call_index: int | None = None
    call_id: str = ""
    call_name: str = ""
    call_arguments: str = ""
    tokens: Sequence[Token] = ()
    finish_reason: str | None = None
    """`stop`, `tool_calls`, `length`, of the last piece."""
    usage: Usage | None = None
    sampling: Sampling | None = None
    """With the first piece, where the model says it."""


@dataclass(kw_only=True)
class Reply:
    """What a model has answered, as far as it came."""

    text: str = ""
    """What the user is shown."""
    written: str = ""
    """The text as it came, with calls that were written into it."""
    calls: list[ToolCall] = field(default_factory=list[ToolCall])
    finish_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    tokens: list[Token] = field(default_factory=list[Token])
    sampling: Sampling | None = None
    written_calls: list[WrittenCall] = field(default_factory=list[WrittenCall])
    """Found in `written`, and not among the calls yet."""
    unknown_tools: Sequence[str] = ()
    """Tools that are not offered, whose calls were left in the text."""
    doubtful_tools: Sequence[str] = ()
    """Tools whose calls were left in the text, because they may be examples."""

    def add(self, delta: Delta) -> None:
        self.text += delta.text
        self.written += delta.text
        self.add_unshown(delta)

    def add_unshown(self, delta: Delta) -> None:
        """All but its text."""
        self.tokens += delta.tokens
        self.finish_reason = delta.finish_reason or self.finish_reason
        self.usage = delta.usage or self.usage
        self.sampling = delta.sampling or self.sampling
        if delta.call_index is None:
            return
        while len(self.calls) <= delta.call_index:
            self._add_call("", "")
        call = self.calls[delta.call_index]
        self.calls[delta.call_index] = ToolCall(
            id=delta.call_id or call.id,
            name=call.name + delta.call_name,
            arguments=call.arguments + delta.call_arguments,
        )

    def take_written_calls(self) -> None:
        """When nothing comes any more."""
        for call in self.written_calls:
            self._add_call(call.name, call.arguments)
        if self.written_calls and self.finish_reason != "length":
            self.finish_reason = "tool_calls"
        self.written_calls = []

    def _add_call(self, name: str, arguments: str) -> None:
        self.calls.append(
            ToolCall(id=f"call_{secrets.token_hex(6)}", name=name, arguments=arguments)
        )

    @property
    def num_chars(self) -> int:
        return len(self.written) + sum(len(call.name) + len(call.arguments) for call in self.calls)

    @property
    def message(self) -> Message:
        """For the next request. Arguments are JSON of an object, whatever the model wrote."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {
                        "name": call.name,
                        "arguments": as_object_text(call.arguments),
                    },
                }
                for call in self.calls
            ]
        return message


class ChatModel(Protocol):
    async def context_tokens(self) -> int:
        """What prompt and reply may be together. Raises: EngineError."""
        ...

    async def num_tokens(self, text: str) -> int:
        """By the model's tokenizer, or an estimate that is not too low. Raises: EngineError."""
        ...

    def reply(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        *,
        max_tokens: int,
        must_call: bool = False,
        prediction: str | None = None,
    ) -> AsyncGenerator[Delta, None]:
        """The pieces of a reply; closing the generator ends the work.

        `must_call`: a tool is to be called, where the engine can see to that. `prediction` is a text
        that the reply will mostly repeat. Raises: EngineError.
        """
        ...
