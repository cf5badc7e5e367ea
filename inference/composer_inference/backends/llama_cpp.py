"""llama.cpp behind the `Backend` protocol, through xllamacpp's in-process server.

What shapes this module (xllamacpp 2026.10, llama.cpp b11549):

- A streaming call blocks its thread and hands every result to a callback; the callback's true
  return value cancels. `return_progress` calls it as each slice of `n_batch` prompt tokens begins, so
  a prefill can be stopped after the slice that is under way.
- Its OpenAI-shaped results carry token ids only with log-probabilities, so `n_probs` is always at
  least 1 (seen to cost 3% of decode); the ids make a request resumable.
- It takes no draft from a client, and speculates for all requests of a server or for none, on what
  the prompt and the answer held before. Tokens that it verified come without log-probabilities, and
  with their ids only in its verbose results. So requests whose prompt holds their draft text go to a
  second server, and all others to the first, as if there were no speculation. A batch rounds other than
  single tokens do, so a greedy answer may turn where two tokens are nearly as likely (seen at 0.12
  nats, once in 1,300 tokens).
"""

import asyncio
import math
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from composer_inference.backends.base import (
    BackendError,
    Capability,
    GenerateChunk,
    GenerateRequest,
    MissingCapabilityError,
    Prompt,
    PromptTooLongError,
    RejectedRequestError,
    Timings,
    TokenLogprob,
)
from composer_inference.backends.llama_server import LlamaCppConfig, start_server
from composer_inference.gguf import GgufMetadata
from composer_inference.tokenizer import Tokenizer, build_tokenizer

MAX_SLICE_WAIT_S = 1.0
"""Bound on how long results of a prefill may queue."""


def prefill_slice_tokens(*, threads: int, model_bytes: int) -> int:
    """The power of two, 16 to 512, that takes at most about 0.15 s to prefill.

    Scaled from what was measured: 120 tokens a second with two threads and 491 MB of weights. A
    keystroke that comes while another prompt is prefilled waits for the rest of one slice.
    """
    rate_tps = 60 * threads * 491_400_064 / model_bytes
    return min(512, max(16, 1 << int(math.log2(max(1.0, 0.15 * rate_tps)))))


class LlamaCppBackend:
    """One GGUF model. Make it with `load`; the constructor blocks while the weights load.

    Raises: BackendError if llama.cpp refuses the file.
    """

    def __init__(self, config: LlamaCppConfig, metadata: GgufMetadata) -> None:
        self._config = config
        self._metadata = metadata
        self._pooling = metadata.pooling
        self._tokenizer: Tokenizer | None = None
        self._threads = ThreadPoolExecutor(max_workers=8, thread_name_prefix="llama.cpp")
        self._server = start_server(config, self._pooling)
        self._drafting_server: Any = None
        self._starting = asyncio.Lock()

    @classmethod
    async def load(cls, config: LlamaCppConfig) -> "LlamaCppBackend":
        metadata = await asyncio.to_thread(GgufMetadata.read, config.path)
        return await asyncio.to_thread(cls, config, metadata)

    @property
    def capabilities(self) -> frozenset[Capability]:
        if self._pooling == "rank":
            return frozenset({Capability.RERANK})
        if self._pooling is not None:
            return frozenset({Capability.EMBED})
        generates = {
            Capability.TOKENIZE,
            Capability.STEPWISE_PREEMPTION,
            Capability.GRAMMAR,
            Capability.LOGPROBS,
        }
        return frozenset(generates | ({Capability.DRAFT_TEXT} if self._config.can_draft else set()))

    @property
    def context_tokens(self) -> int:
        return self._config.context_tokens

    @property
    def chat_template(self) -> str | None:
        return self._metadata.chat_template

    @property
    def special_tokens(self) -> dict[str, str]:
        return self._metadata.special_tokens

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[GenerateChunk, None]:
        if self._pooling is not None:
            raise MissingCapabilityError(f"{self._config.path.name} is no generating model")
        if request.draft_text is not None and not self._config.can_draft:
            raise MissingCapabilityError("drafts are turned off, so that no draft text is taken")
        drafts = _can_draft(request)
        server = await self._start_drafting() if drafts else self._server
        call = _StreamingCall(server, self._threads, _request_body(request, drafts=drafts))
        state = _StreamState(request)
        try:
            async for result in call:
                chunk = state.chunk(result)
                yield chunk
                if chunk.finish_reason is not None:
                    return
        finally:
            await call.close()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if Capability.EMBED not in self.capabilities:
            raise MissingCapabilityError(f"{self._config.path.name} is no embedding model")
        result = await self._call("handle_embeddings", {"input": list(texts)})
        rows = sorted(result["data"], key=lambda row: row["index"])
        return [row["embedding"] for row in rows]

    async def rerank(self, query: str, documents: Sequence[str]) -> list[float]:
        if Capability.RERANK not in self.capabilities:
            raise MissingCapabilityError(f"{self._config.path.name} is no reranking model")
        body = {"query": query, "documents": list(documents)}
        result = await self._call("handle_rerank", body)
        scores = {row["index"]: row["relevance_score"] for row in result["results"]}
        return [scores[index] for index in range(len(documents))]

    async def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        if self._tokenizer is None:
            self._tokenizer = await asyncio.to_thread(build_tokenizer, self._metadata)
        return self._tokenizer.encode(text, special=special)

    async def close(self) -> None:
        # The server's destructor joins its threads and frees the weights: not on the event loop.
        await asyncio.to_thread(self._free)

    def _free(self) -> None:
        del self._server, self._drafting_server
        self._threads.shutdown()

    async def _start_drafting(self) -> Any:
        async with self._starting:
            if self._drafting_server is None:
                self._drafting_server = await asyncio.to_thread(
                    start_server, self._config, None, drafts=True
                )
        return self._drafting_server

    async def _call(self, method: str, body: dict[str, Any]) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        result = await loop.run_in_executor(self._threads, getattr(self._server, method), body)
        _raise_error(result)
        return result


class _StreamingCall:
    """One blocking `handle_completions` in a worker thread, as an async iterator of its results."""

    def __init__(self, server: Any, threads: ThreadPoolExecutor, body: dict[str, Any]) -> None:
        self._results: asyncio.Queue[dict[str, Any] | BaseException | None] = asyncio.Queue()
        self._cancelled = threading.Event()
        self._slice_started = 0.0
        self._loop = asyncio.get_running_loop()
        self._done = self._loop.run_in_executor(threads, self._run, server, body)

    def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        return self

    async def __anext__(self) -> dict[str, Any]:
        result = await self._results.get()
        if result is None:
            raise StopAsyncIteration
        if isinstance(result, BaseException):
            raise BackendError(f"llama.cpp failed: {result}") from result
        _raise_error(result)
        return result

    async def close(self) -> None:
        """Cancel, and wait until llama.cpp has let go of the slot: one token or one slice."""
        self._cancelled.set()
        # A second cancellation while waiting must not leave the slot busy behind our back.
        await asyncio.shield(self._done)

    def _run(self, server: Any, body: dict[str, Any]) -> None:
        try:
            server.handle_completions(body, self._on_result)
            self._put(None)
        except RuntimeError as error:
            self._put(error)

    def _on_result(self, result: dict[str, Any]) -> bool:
        self._put(result)
        progress = result.get("prompt_progress")
        if progress is not None and progress["processed"] < progress["total"]:
            self._wait_out_slice()
        return self._cancelled.is_set()

    def _wait_out_slice(self) -> None:
        # Results queue up meanwhile and nobody needs them early, but a cancellation that comes in
        # the middle of a slice is seen at once: waiting for the next result to return it would cost
        # a whole further slice, begun by then.
        now = time.monotonic()
        slice_s = now - self._slice_started if self._slice_started else 0.0
        self._slice_started = now
        self._cancelled.wait(0.8 * min(slice_s, MAX_SLICE_WAIT_S))

    def _put(self, result: dict[str, Any] | BaseException | None) -> None:
        with suppress(RuntimeError):  # The loop was closed under us; nobody listens any more.
            self._loop.call_soon_threadsafe(self._results.put_nowait, result)


class _StreamState:
    """Turns llama.cpp's results into chunks, and knows which of them are safe to stop after."""

    def __init__(self, request: GenerateRequest) -> None:
        self._request = request
        self._constrained = request.json_schema is not None or request.grammar is not None
        self._num_cached = 0
        self._num_prefilled = 0
        self._num_decoded = 0
        # Bytes decoded but not yet handed out: a stop string that has begun, half a character.
        self._num_withheld_bytes = 0

    def chunk(self, result: dict[str, Any]) -> GenerateChunk:
        if (progress := result.get("prompt_progress")) is not None:
            self._num_cached = progress["cache"]
            self._num_prefilled = progress["processed"] - progress["cache"]
            return GenerateChunk(timings=self._partial_timings(), resumable=True)
        if "__verbose" in result:
            return self._drafted_chunk(result)
        choice = result["choices"][0]
        text: str = choice["text"]
        logprobs: dict[str, list[dict[str, Any]]] = choice["logprobs"] or {}
        entries = [_logprob(entry) for entry in logprobs.get("content", [])]
        if self._request.sampling.max_tokens == 0:  # llama.cpp samples one all the same.
            text, entries = "", []
        self._num_decoded += len(entries)
        self._num_withheld_bytes += sum(num_bytes for _, num_bytes in entries)
        self._num_withheld_bytes -= len(text.encode("utf-8", "surrogatepass"))
        finished = choice["finish_reason"] is not None
        return GenerateChunk(
            text=text,
            token_ids=tuple(logprob.token_id for logprob, _ in entries),
            logprobs=tuple(logprob for logprob, _ in entries),
            finish_reason=choice["finish_reason"],
            timings=_final_timings(result) if finished else self._partial_timings(),
            resumable=not self._constrained and self._num_withheld_bytes == 0,
        )

    def _drafted_chunk(self, result: dict[str, Any]) -> GenerateChunk:
        # Such results come for every token but those inside a character, and have text unless a
        # stop string may have begun: then everything decoded is handed out.
        choice, verbose = result["choices"][0], result["__verbose"]
        token_ids: tuple[int, ...] = tuple(verbose["tokens"])
        self._num_decoded += len(token_ids)
        finished = choice["finish_reason"] is not None
        has_all = self._num_decoded == verbose["tokens_predicted"]
        return GenerateChunk(
            text=choice["text"],
            token_ids=token_ids,
            finish_reason=choice["finish_reason"],
            timings=_final_timings(result) if finished else self._partial_timings(),
            resumable=has_all and bool(choice["text"]),
        )

    def _partial_timings(self) -> Timings:
        return Timings(
            num_cached_tokens=self._num_cached,
            num_prefill_tokens=self._num_prefilled,
            num_decoded_tokens=self._num_decoded,
        )


def _can_draft(request: GenerateRequest) -> bool:
    """Whether the answer repeats what the prompt holds, and needs nothing that drafts take away."""
    text, sampling = (request.draft_text or "").strip(), request.sampling
    constrained = request.json_schema is not None or request.grammar is not None
    if not text or constrained or sampling.num_logprobs or sampling.max_tokens == 0:
        return False
    return any(isinstance(piece, str) and text in piece for piece in request.prompt)


def _request_body(request: GenerateRequest, *, drafts: bool) -> dict[str, Any]:
    sampling = request.sampling
    body: dict[str, Any] = {
        "prompt": _joined(request.prompt),
        "stream": True,
        "return_progress": True,
        "cache_prompt": True,
        "n_predict": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        # Greedy decoding needs one candidate; sorting the whole vocabulary costs 8% of decode.
        "top_k": sampling.top_k if sampling.temperature > 0 else 1,
        "min_p": sampling.min_p,
        "repeat_penalty": sampling.repeat_penalty,
        "stop": list(sampling.stop),
        "n_probs": 0 if drafts else max(1, sampling.num_logprobs),
        "verbose": drafts,
        "ignore_eos": sampling.ignore_eos,
    }
    if sampling.seed is not None:
        body["seed"] = sampling.seed
    if request.json_schema is not None:
        body["json_schema"] = request.json_schema
    if request.grammar is not None:
        body["grammar"] = request.grammar
    return body


def _joined(prompt: Prompt) -> str | list[str | int]:
    """llama.cpp takes a list of texts alone for as many prompts, and a mixed one for a single one."""
    if all(isinstance(piece, str) for piece in prompt):
        return "".join(map(str, prompt))
    return list(prompt)


def _logprob(entry: dict[str, Any]) -> tuple[TokenLogprob, int]:
    top = tuple(
        (alternative["token"], alternative["logprob"]) for alternative in entry["top_logprobs"]
    )
    token = TokenLogprob(
        token=entry["token"], token_id=entry["id"], logprob=entry["logprob"], top=top
    )
    return token, len(entry["bytes"])


def _final_timings(result: dict[str, Any]) -> Timings:
    timings = result["timings"]
    return Timings(
        num_cached_tokens=timings["cache_n"],
        num_prefill_tokens=timings["prompt_n"],
        prefill_ms=timings["prompt_ms"],
        num_decoded_tokens=timings["predicted_n"],
        decode_ms=timings["predicted_ms"],
        num_drafted=timings.get("draft_n", 0),
        num_draft_accepted=timings.get("draft_n_accepted", 0),
    )


def _raise_error(result: dict[str, Any]) -> None:
    error = result.get("error")
    if error is None:
        return
    if error.get("type") == "exceed_context_size_error":
        raise PromptTooLongError(
            f"the prompt has {error['n_prompt_tokens']} tokens and the context holds "
            f"{error['n_ctx']}; shorten it, or raise the engine's context"
        )
    kind = RejectedRequestError if error.get("code") == 400 else BackendError
    raise kind(str(error.get("message", error)))
