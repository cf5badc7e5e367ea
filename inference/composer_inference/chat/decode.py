"""Decodes an answer with tool calls: free text first, then each call under its JSON schema.

A call is recognised by its opening in the free text. That stream is closed there, and the call is
decoded behind the canonical opening, constrained by the tools' schema: it is always well-formed JSON
of a known tool, and the prompt cache makes the second prefill a few tokens. The canonical opening is
also what the chat template will write for this call in the next turn, so that turn's prompt is
found in the cache.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Literal

from composer_inference.backends.base import (
    FinishReason,
    GenerateChunk,
    GenerateRequest,
    RejectedRequestError,
    Timings,
    TokenLogprob,
)
from composer_inference.chat.calls import CallDelta, CallReader
from composer_inference.chat.json_guard import JsonGuard
from composer_inference.chat.tools import CLOSER, OPENER, Opening, OpeningScanner, Tools

Generate = Callable[[GenerateRequest], AsyncGenerator[GenerateChunk, None]]
ToolChoice = Literal["none", "auto", "required"]

MAX_CALLS = 32
"""Calls of one answer; a model that goes on and on is stopped here."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One piece of an answer; the last one has a finish reason."""

    text: str = ""
    logprobs: tuple[TokenLogprob, ...] = ()
    """Of the text."""
    call_logprobs: tuple[TokenLogprob, ...] = ()
    """Of calls: all that was sampled for them, a name's tokens too."""
    token_ids: tuple[int, ...] = ()
    """Sampled for the text or the call, also where no text has come of them yet."""
    call: CallDelta | None = None
    finish_reason: FinishReason | Literal["tool_calls"] | None = None
    timings: Timings | None = None
    """Of the whole answer, on its last part."""
    prompt_timings: Timings | None = None
    """On the last part: those that tell the prompt's length and how much of it was cached."""
    weights_version: int | None = None
    """On the last part: the oldest weights that took part, if the backend counts them."""
    router_choices: Sequence[Sequence[Sequence[int]]] | None = None
    """On the last part of an answer decoded as one, if asked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CallRules:
    """What `tool_choice` and `parallel_tool_calls` say."""

    required: bool = False
    only: str | None = None
    """The one tool that must be called."""
    parallel: bool = True


class ToolCallDecoder:
    """One answer. `parts` is called once."""

    def __init__(
        self, generate: Generate, request: GenerateRequest, tools: Tools, rules: CallRules
    ) -> None:
        """`generate` must honour JSON schemas."""
        self._generate = generate
        self._request = request
        self._tools = tools
        self._rules = rules
        self._num_calls = 0
        self._opened = False
        """Whether the prompt ends with the opening of a call."""
        self._ended: FinishReason | Literal["tool_calls"] | None = None
        self._first: Timings | None = None
        self._total = Timings()
        self._weights_version: int | None = None

    async def parts(self) -> AsyncGenerator[Part, None]:
        """Raises: what the backend raises, and RejectedRequestError for a call that breaks off."""
        if self._rules.required:
            self._open("")
        while True:
            async with aclosing(self._call() if self._opened else self._free_text()) as parts:
                async for part in parts:
                    yield part
            if self._ended is not None:
                yield Part(
                    finish_reason=self._ended,
                    timings=self._total,
                    prompt_timings=self._first,
                    weights_version=self._weights_version,
                )
                return

    async def _free_text(self) -> AsyncGenerator[Part, None]:
        scanner = OpeningScanner(self._tools)
        text = ""
        logprobs: list[TokenLogprob] = []
        token_ids: list[int] = []
        async with aclosing(self._run(self._remaining())) as chunks:
            async for chunk in chunks:
                logprobs += chunk.logprobs
                token_ids += chunk.token_ids
                found = scanner.feed(chunk.text)
                if isinstance(found, Opening):
                    if found.text_before and not self._num_calls:
                        yield Part(text=found.text_before)
                    self._open(text + found.text_before)
                    return
                if chunk.finish_reason is not None:
                    found += scanner.flush()
                    self._ended = "tool_calls" if self._num_calls else chunk.finish_reason
                text += found
                if self._num_calls:
                    # After a call only another call counts: text would be a guess of what the
                    # tool is going to answer.
                    if text.strip():
                        self._ended = "tool_calls"
                        return
                elif scanner.is_holding and self._ended is None:
                    # Of tokens that may turn out to open a call it is not known yet whose they are.
                    if found:
                        yield Part(text=found)
                elif found or token_ids:
                    yield Part(text=found, logprobs=tuple(logprobs), token_ids=tuple(token_ids))
                    logprobs, token_ids = [], []

    async def _call(self) -> AsyncGenerator[Part, None]:
        remaining = self._remaining()
        request = replace(
            remaining,
            json_schema=self._tools.call_schema(self._rules.only),
            sampling=replace(remaining.sampling, stop=()),
            draft_text=None,
        )
        reader, guard = CallReader(self._num_calls), JsonGuard()
        text, reason = "", None
        async with aclosing(self._run(request)) as chunks:
            async for chunk in chunks:
                guard.check(chunk)
                text += chunk.text
                reason = chunk.finish_reason
                if chunk.token_ids:
                    yield Part(call_logprobs=chunk.logprobs, token_ids=chunk.token_ids)
                for delta in reader.feed(chunk.text):
                    yield Part(call=delta)
        self._num_calls += 1
        self._opened = False
        self._request = self._extended(f"{text}\n{CLOSER}")
        if not reader.complete:
            if reason != "length":
                raise RejectedRequestError(
                    f"the tools' schema was not enforced: the call is {text!r}"
                )
            self._ended = "length"
        elif not self._rules.parallel or self._rules.only or self._num_calls == MAX_CALLS:
            self._ended = "tool_calls"

    async def _run(self, request: GenerateRequest) -> AsyncGenerator[GenerateChunk, None]:
        timings = Timings()
        if request.sampling.max_tokens == 0:
            yield GenerateChunk(finish_reason="length")
            return
        try:
            async with aclosing(self._generate(request)) as chunks:
                async for chunk in chunks:
                    timings = chunk.timings
                    # Weights change between requests alone, and then to newer ones.
                    if self._weights_version is None:
                        self._weights_version = chunk.weights_version
                    yield chunk
        finally:
            # Also of a stream that was closed at an opening.
            self._first = self._first or timings
            self._total += timings

    def _open(self, text_before: str) -> None:
        self._request = self._extended(f"{text_before}{OPENER}\n")
        self._opened = True

    def _extended(self, text: str) -> GenerateRequest:
        *before, last = self._request.prompt
        # Joined to one text, so that it is cut into tokens as the template's own text would be.
        end = (last + text,) if isinstance(last, str) else (last, text)
        return replace(self._request, prompt=(*before, *end))

    def _remaining(self) -> GenerateRequest:
        sampling = self._request.sampling
        left = max(0, sampling.max_tokens - self._total.num_decoded_tokens)
        return replace(self._request, sampling=replace(sampling, max_tokens=left))
