"""From a keystroke to a suggestion: filter, memory, debounce, prompt, engine, trimming."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from composer_index.ignores import HiddenFiles
from composer_lsp.completion.debounce import Debounce
from composer_lsp.completion.filters import wants_suggestion, why_withheld
from composer_lsp.completion.prompt import PromptWindow
from composer_lsp.completion.request import CompletionRequest, Suggestion
from composer_lsp.completion.surroundings import Surroundings
from composer_lsp.completion.templates import FimPrompt
from composer_lsp.completion.trim import FinishReason, Trimmer
from composer_lsp.completion.typed_through import TypedThrough
from composer_lsp.config import TabSettings

_MAX_DOCUMENTS = 64
"""Documents whose windows and suggestions are kept; the least recently used go first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TabChunk:
    """A piece of an engine's answer; the last one says why the answer ended."""

    text: str = ""
    finish_reason: FinishReason | None = None
    timings: Mapping[str, float] = field(default_factory=dict[str, float])
    """What the engine reports of its own stages, on the last chunk: `queue_ms`, `prefill_ms`,
    `decode_ms` and token counts."""


class TabEngine(Protocol):
    """What answers a prompt: the engine on this machine, or a server behind a URL."""

    def complete(
        self, prompt: FimPrompt, *, max_tokens: int, stop: Sequence[str], invoked: bool
    ) -> AsyncGenerator[TabChunk, None]:
        """Stream an answer; closing the iterator (`aclose`) cancels the work. `invoked`: the user
        waits for it, so an engine that failed lately is tried at once."""
        ...


class Completer:
    """Suggestions for all open documents, at most one engine stream for each of them."""

    def __init__(
        self,
        engine: TabEngine,
        settings: Callable[[], TabSettings],
        *,
        roots: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """`roots`: paths of the workspace folders, which anchored globs count from."""
        self._engine = engine
        self._settings = settings
        self._roots = roots
        self._hidden = HiddenFiles()
        self._documents: OrderedDict[str, _Document] = OrderedDict()

    async def complete(self, request: CompletionRequest) -> Suggestion | None:
        """The suggestion at the cursor, None when there is nothing worth showing or a newer
        request for the document has come. Cancelling the call closes the engine's stream.

        Raises: what the engine raises.
        """
        document = self._document(request.document.uri)
        if not document.is_newest(request):
            return None
        settings = self._settings()
        if not self._is_wanted(request, settings):
            await document.supersede()
            return None
        started = time.perf_counter()
        automatic = request.trigger == "automatic"
        wait_s = document.debounce.wait_s(settings.debounce_ms) if automatic else 0.0
        rest = document.typed_through.rest(request.document.text, request.offset)
        if rest is not None:
            await document.supersede()
            return _suggestion(request, rest, {"total": _ms_since(started)})
        generation = _Generation(self._engine, settings, document, request, started, wait_s)
        return await document.run(generation.run)

    def close_document(self, uri: str) -> None:
        """Forget a closed document and end its request."""
        document = self._documents.pop(uri, None)
        if document is not None:
            document.cancel()

    def forget_suggestions(self) -> None:
        """Ask the engine anew everywhere, for settings that have changed."""
        for document in self._documents.values():
            document.typed_through.forget()

    def _is_wanted(self, request: CompletionRequest, settings: TabSettings) -> bool:
        if why_withheld(request.document, self._hidden) is not None:
            return False
        if request.trigger == "automatic" and _is_inside_word(request):
            return False
        return wants_suggestion(request.document, request.trigger, settings, self._roots())

    def _document(self, uri: str) -> "_Document":
        document = self._documents.setdefault(uri, _Document())
        self._documents.move_to_end(uri)
        if len(self._documents) > _MAX_DOCUMENTS:
            _, oldest = self._documents.popitem(last=False)
            oldest.cancel()
        return document


class _Document:
    """What is kept for one open document."""

    def __init__(self) -> None:
        self.window = PromptWindow()
        self.typed_through = TypedThrough()
        self.debounce = Debounce()
        self._newest_version = -1
        self._running: asyncio.Task[Suggestion | None] | None = None

    def is_newest(self, request: CompletionRequest) -> bool:
        """Count the request's version; False for one older than a version seen before."""
        self._newest_version = max(self._newest_version, request.document.version)
        return request.document.version == self._newest_version

    def cancel(self) -> None:
        if self._running is not None:
            _cancel_once(self._running)

    async def supersede(self) -> None:
        """End the running request and wait until its stream is closed."""
        if self._running is not None:
            await _cancelled(self._running)

    async def run(self, work: Callable[[], Awaitable[Suggestion | None]]) -> Suggestion | None:
        """Run in place of what runs; None when a newer request takes this one's place."""
        task = asyncio.create_task(_run_after(self._running, work))
        self._running = task
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            await _cancelled(task)
            raise
        finally:
            if self._running is task:
                self._running = None
        return None if task.cancelled() else task.result()


class _Generation:
    """One request's way through the engine."""

    def __init__(
        self,
        engine: TabEngine,
        settings: TabSettings,
        document: _Document,
        request: CompletionRequest,
        started: float,
        wait_s: float,
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._document = document
        self._request = request
        self._started = started
        self._wait_s = wait_s
        self._timings: dict[str, float] = {}

    async def run(self) -> Suggestion | None:
        with self._timed("debounce"):
            await asyncio.sleep(self._wait_s)
        request, text = self._request, self._request.document.text
        with self._timed("prompt"):
            prompt = self._document.window.prompt(
                text, request.offset, context_tokens=self._settings.context_tokens
            )
            trimmer = Trimmer(
                Surroundings.of(
                    text,
                    request.offset,
                    language_id=request.document.language_id,
                    num_indent_spaces=request.num_indent_spaces,
                )
            )
        reason = await self._stream(prompt, trimmer)
        with self._timed("trim"):
            answer = trimmer.finish(reason)
        if answer is None:
            return None
        self._document.typed_through.remember(text, request.offset, answer)
        self._timings["total"] = _ms_since(self._started)
        return _suggestion(request, answer, self._timings)

    async def _stream(self, prompt: FimPrompt, trimmer: Trimmer) -> FinishReason:
        """Feed the answer to the trimmer until either has enough."""
        asked = time.perf_counter()
        first_ms: float | None = None
        trim_s = 0.0
        chunk = TabChunk()
        stream = self._engine.complete(
            prompt,
            max_tokens=self._settings.max_tokens,
            stop=trimmer.stop,
            invoked=self._request.trigger == "invoked",
        )
        async with aclosing(stream):
            async for chunk in stream:
                if first_ms is None and chunk.text:
                    first_ms = _ms_since(asked)
                trim_started = time.perf_counter()
                is_enough = trimmer.feed(chunk.text)
                trim_s += time.perf_counter() - trim_started
                if is_enough:
                    break
        first_ms = _ms_since(asked) if first_ms is None else first_ms
        reported = chunk.timings
        self._timings |= {
            "queue": reported.get("queue_ms", 0.0),
            "prefill": reported.get("prefill_ms", first_ms),
            "first_token": first_ms,
            "decode": reported.get("decode_ms", _ms_since(asked) - first_ms),
            "trim": trim_s * 1000,
        }
        return chunk.finish_reason or "stop"

    @contextmanager
    def _timed(self, stage: str) -> Generator[None]:
        started = time.perf_counter()
        yield
        self._timings[stage] = self._timings.get(stage, 0.0) + _ms_since(started)


async def _run_after(
    previous: asyncio.Task[Suggestion | None] | None,
    work: Callable[[], Awaitable[Suggestion | None]],
) -> Suggestion | None:
    if previous is not None:
        await _cancelled(previous)
    return await work()


async def _cancelled(task: asyncio.Task[Suggestion | None]) -> None:
    _cancel_once(task)
    await asyncio.wait([task])


def _cancel_once(task: asyncio.Task[Suggestion | None]) -> None:
    # A second cancel would interrupt the closing of the stream, which the first one began.
    if not task.cancelling():
        task.cancel()


def _suggestion(request: CompletionRequest, text: str, timings: Mapping[str, float]) -> Suggestion:
    return Suggestion(text=text, start=request.offset, end=request.offset, timings=timings)


def _is_inside_word(request: CompletionRequest) -> bool:
    text, offset = request.document.text, request.offset
    return (
        offset > 0 and _is_word(text[offset - 1 : offset]) and _is_word(text[offset : offset + 1])
    )


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _ms_since(started: float) -> float:
    return (time.perf_counter() - started) * 1000
