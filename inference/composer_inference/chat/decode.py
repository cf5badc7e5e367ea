"""Decodes an answer with tool calls: free text first, then each call under its JSON schema.

A call is recognised by its opening in the free text. The stream is then closed and the call decoded
anew behind the canonical opener, constrained by the tools' schema, so it is always well-formed JSON
of a known tool; the prompt cache makes the second prefill a few tokens. A backend without grammars
has its text read to the end of the call instead.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Literal

from composer_inference.backends.base import (
    BackendError,
    FinishReason,
    GenerateChunk,
    GenerateRequest,
    Timings,
    TokenLogprob,
)
from composer_inference.chat.tools import CLOSER, OPENER, ToolCall, Tools, parse_call

Generate = Callable[[GenerateRequest], AsyncGenerator[GenerateChunk, None]]
ToolChoice = Literal["none", "auto", "required"]
MAX_CALLS = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One piece of an answer; the last one has a finish reason."""

    text: str = ""
    logprobs: tuple[TokenLogprob, ...] = ()
    call: ToolCall | None = None
    finish_reason: FinishReason | Literal["tool_calls"] | None = None
    timings: Timings | None = None


class ToolCallDecoder:
    def __init__(
        self,
        generate: Generate,
        request: GenerateRequest,
        tools: Tools,
        *,
        choice: ToolChoice,
        only: str | None = None,
        has_grammar: bool,
    ) -> None:
        self._generate = generate
        self._request = request
        self._tools = tools
        self._must_call = choice == "required"
        self._only = only
        self._has_grammar = has_grammar
        self._num_calls = 0
        self._num_tokens = 0
        self._timings = Timings()

    async def parts(self) -> AsyncGenerator[Part, None]:
        """Raises: what the backend raises, and BackendError for a call that must come and does not."""
        if self._must_call:
            if not self._has_grammar:
                raise BackendError("this backend cannot force a tool call: it has no grammar")
            self._extend(OPENER + "\n")
            yield await self._constrained_call()
        while self._num_calls < MAX_CALLS:
            opened = False
            async with aclosing(self._free_text()) as parts:
                async for part in parts:
                    if part is None:
                        opened = True
                    else:
                        yield part
                        if part.finish_reason is not None:
                            return
            if not opened:
                break
            yield await self._constrained_call()
        yield Part(finish_reason="tool_calls", timings=self._timings)

    async def _free_text(self) -> AsyncGenerator[Part | None, None]:
        """Text up to the opening of a call, told by None."""
        text, num_sent = "", 0
        async with aclosing(self._generate(self._remaining())) as chunks:
            async for chunk in chunks:
                text += chunk.text
                self._num_tokens += len(chunk.token_ids)
                finished = chunk.finish_reason is not None
                if finished:
                    self._add_timings(chunk.timings)
                opening = self._tools.find_opening(text)
                if opening is not None and (self._has_grammar or finished or CLOSER in text):
                    yield self._said(text[num_sent : opening[0]])
                    async for part in self._opened(text, opening):
                        yield part
                    return
                settled = len(text) if finished else self._tools.num_settled(text)
                if opening is not None:
                    settled = opening[0]
                if settled > num_sent or finished:
                    yield self._ended(text[num_sent:settled], chunk)
                    num_sent = max(num_sent, settled)

    async def _opened(
        self, text: str, opening: tuple[int, int]
    ) -> AsyncGenerator[Part | None, None]:
        before, start = opening
        if self._has_grammar:
            self._extend(text[:before] + OPENER + "\n")
            yield None
            return
        end = text.find(CLOSER, start)
        call = parse_call(text[start : end if end >= 0 else None].strip(" \n`"), self._tools.names)
        if call is None:
            raise BackendError(
                f"the model's tool call is no JSON of a known tool: {text[start:]!r}"
            )
        self._num_calls += 1
        yield Part(call=call)
        yield Part(finish_reason="tool_calls", timings=self._timings)

    def _said(self, text: str) -> Part:
        # Between two calls models put line breaks, which are nobody's answer.
        return Part(text="" if self._num_calls and text.isspace() else text)

    def _ended(self, text: str, chunk: GenerateChunk) -> Part:
        reason = chunk.finish_reason
        part = self._said(text)
        return replace(
            part,
            logprobs=chunk.logprobs,
            finish_reason="tool_calls" if reason == "stop" and self._num_calls else reason,
            timings=self._timings if reason is not None else None,
        )

    async def _constrained_call(self) -> Part:
        request = replace(self._remaining(), json_schema=self._tools.call_schema(self._only))
        text = ""
        async with aclosing(self._generate(request)) as chunks:
            async for chunk in chunks:
                text += chunk.text
                self._num_tokens += len(chunk.token_ids)
                if chunk.finish_reason is not None:
                    self._add_timings(chunk.timings)
        call = parse_call(text, self._tools.names)
        if call is None:
            raise BackendError(
                f"the tool call did not fit into max_tokens={self._request.sampling.max_tokens}"
            )
        self._num_calls += 1
        self._extend(f"{text}\n{CLOSER}")
        return Part(call=call)

    def _extend(self, text: str) -> None:
        self._request = replace(self._request, prompt=(*self._request.prompt, text))

    def _remaining(self) -> GenerateRequest:
        sampling = self._request.sampling
        left = max(1, sampling.max_tokens - self._num_tokens)
        return replace(self._request, sampling=replace(sampling, max_tokens=left))

    def _add_timings(self, more: Timings) -> None:
        total = self._timings
        first = total.num_decoded_tokens == total.num_prefill_tokens == 0
        self._timings = Timings(
            queue_ms=total.queue_ms + more.queue_ms,
            num_cached_tokens=more.num_cached_tokens if first else total.num_cached_tokens,
            num_prefill_tokens=total.num_prefill_tokens + more.num_prefill_tokens,
            prefill_ms=total.prefill_ms + more.prefill_ms,
            num_decoded_tokens=total.num_decoded_tokens + more.num_decoded_tokens,
            decode_ms=total.decode_ms + more.decode_ms,
            num_preemptions=total.num_preemptions + more.num_preemptions,
        )
