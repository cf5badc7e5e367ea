"""From a keystroke to a suggestion: filter, memory, debounce, prompt, engine, trimming."""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from urllib.parse import unquote

from composer_index.ignores import HiddenFiles
from composer_lsp.completion.answer import Answers
from composer_lsp.completion.context import FixedContext, PromptContext
from composer_lsp.completion.debounce import Debounce
from composer_lsp.completion.filters import document_path, wants_suggestion, why_withheld
from composer_lsp.completion.generation import (
    Generation,
    ms_since,
    suggestion_at,
)
from composer_lsp.completion.prompt import PromptWindow
from composer_lsp.completion.request import CompletionRequest, Suggestion
from composer_lsp.completion.tab_engine import TabEngine
from composer_lsp.completion.templates import FimPrompt
from composer_lsp.completion.typed_through import TypedThrough
from composer_lsp.config import TabSettings

logger = logging.getLogger(__name__)

GO_ON_S = 0.3
"""How long the engine goes on after a keystroke has ended a request, until the request for the new
text says whether the answer still fits."""
_MAX_DOCUMENTS = 64
"""Documents whose windows and suggestions are kept; the least recently used go first."""


class Completer:
    """Suggestions for all open documents, at most one engine stream for each of them."""

    def __init__(
        self,
        engine: TabEngine,
        settings: Callable[[], TabSettings],
        *,
        roots: Callable[[], Sequence[str]] = tuple,
        context: PromptContext | None = None,
    ) -> None:
        """`roots`: paths of the workspace folders, which anchored globs count from. `context`: what
        is known of other files, by default nothing.
        """
        self._engine = engine
        self._settings = settings
        self._roots = roots
        self._context = context or FixedContext()
        self.answers = Answers()
        self._hidden = HiddenFiles()
        self._documents: OrderedDict[str, _Document] = OrderedDict()

    async def complete(self, request: CompletionRequest) -> Sequence[Suggestion]:
        """The suggestions at the cursor, the best first: none where there is nothing worth showing
        or a newer request for the document has come. Cancelling the call closes the engine's
        stream, but for a moment in which the next request may find that it says what was typed.

        Raises: TabEngineError, and what else the engine raises.
        """
        document = self._document(request.document.uri)
        if not document.is_newest(request):
            return ()
        settings = self._settings()
        if not self._is_wanted(request, settings, document):
            await document.supersede()
            return ()
        started = time.perf_counter()
        automatic = request.trigger == "automatic"
        wait_s = document.debounce.wait_s(settings.debounce_ms) if automatic else 0.0
        known = document.known(request, started)
        if not known and automatic and await document.went_on(request):
            known = document.known(request, started)
        if len(known) == request.max_suggestions:
            await document.supersede()
            return known
        generation = Generation(
            engine=self._engine,
            settings=settings,
            window=document.window,
            context=self._context,
            memory=document.typed_through,
            request=request,
            known=known,
            on_answer=self.answers.keep,
            started=started,
            wait_s=wait_s,
        )
        return await document.run(generation)

    def window(self, request: CompletionRequest) -> FimPrompt | None:
        """The text around the cursor that a prompt would have; None where none may be made."""
        if why_withheld(request.document, self._hidden) is not None:
            return None
        settings = self._settings()
        if not wants_suggestion(request.document, request.trigger, settings, self._roots()):
            return None
        window = self._document(request.document.uri).window
        return window.at(request, context_tokens=settings.context_tokens)

    def close_document(self, uri: str) -> None:
        """Forget a closed document and end its request."""
        document = self._documents.pop(unquote(uri), None)
        if document is not None:
            document.cancel()

    def forget_suggestions(self) -> None:
        """Ask the engine anew everywhere, for settings that have changed."""
        for document in self._documents.values():
            document.typed_through.forget()

    def _is_wanted(
        self, request: CompletionRequest, settings: TabSettings, document: "_Document"
    ) -> bool:
        if (reason := why_withheld(request.document, self._hidden)) is not None:
            if request.trigger == "invoked":
                document.tell_withheld(request.document.uri, reason)
            return False
        if request.trigger == "automatic" and _is_inside_word(request):
            return False
        return wants_suggestion(request.document, request.trigger, settings, self._roots())

    def _document(self, uri: str) -> "_Document":
        key = unquote(uri)
        document = self._documents.setdefault(key, _Document())
        self._documents.move_to_end(key)
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
        self._told_reason: str | None = None
        self._running: asyncio.Task[Sequence[Suggestion]] | None = None
        self._generation: Generation | None = None
        """Of what runs."""
        self._taken_over = asyncio.Event()
        """A newer request came: whoever waits for what runs goes without."""
        self._ending: asyncio.TimerHandle | None = None
        """Ends what runs on without anybody who waits for it."""

    def is_newest(self, request: CompletionRequest) -> bool:
        """Count the request's version; False for one older than a version seen before. Versions of
        a document never go back while it is open."""
        self._newest_version = max(self._newest_version, request.document.version)
        return request.document.version == self._newest_version

    def tell_withheld(self, uri: str, reason: str) -> None:
        """Say why who asked gets nothing; a warning, which editors' logs show."""
        if reason != self._told_reason:
            self._told_reason = reason
            name = (document_path(uri) or uri).encode(errors="backslashreplace").decode()
            logger.warning("no suggestions: %s %s; it is never put in a prompt", name, reason)

    def cancel(self) -> None:
        if self._running is not None:
            _cancel_once(self._running)

    async def supersede(self) -> None:
        """End the running request and wait until its stream is closed."""
        if self._running is not None:
            await _cancelled(self._running)

    def known(self, request: CompletionRequest, started: float) -> tuple[Suggestion, ...]:
        """What the memory has for the place."""
        rests = self.typed_through.rests(request.document.text, request.offset)
        return tuple(
            suggestion_at(request, rest, {"total": ms_since(started)})
            for rest in islice(rests, request.max_suggestions)
        )

    async def went_on(self, request: CompletionRequest) -> bool:
        """Wait while the answer to the request before says what was typed since; whether it did to its
        end, so that the memory has it."""
        task, generation = self._running, self._generation
        if task is None or generation is None:
            return False
        self._keep()
        self._taken_over.set()
        try:
            while not task.done():
                if not generation.goes_on(request):
                    return False
                await generation.more(task)
        except asyncio.CancelledError:
            self._end_soon(task)
            raise
        return not task.cancelled() and task.exception() is None

    async def run(self, generation: Generation) -> Sequence[Suggestion]:
        """Run in place of what runs; nothing when a newer request takes this one's place."""
        self._keep()
        self._taken_over.set()
        taken_over = self._taken_over = asyncio.Event()
        task = asyncio.create_task(_run_after(self._running, generation.run))
        self._running, self._generation = task, generation
        try:
            await _first_of(task, taken_over)
        except asyncio.CancelledError:
            if generation.may_go_on:
                self._end_soon(task)
            else:
                await _cancelled(task)
            raise
        finally:
            if self._running is task and task.done():
                self._running = self._generation = None
        # Where a newer request took over, that one has the answer.
        return () if not task.done() or task.cancelled() else task.result()

    def _keep(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None

    def _end_soon(self, task: asyncio.Task[Sequence[Suggestion]]) -> None:
        self._keep()
        task.add_done_callback(_take_exception)
        self._ending = asyncio.get_running_loop().call_later(GO_ON_S, _cancel_once, task)


async def _first_of(task: asyncio.Task[Sequence[Suggestion]], event: asyncio.Event) -> None:
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()


def _take_exception(task: asyncio.Task[Sequence[Suggestion]]) -> None:
    # Nobody waits for it any more.
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.info("an answer that nobody waited for failed: %s", error)


async def _run_after(
    previous: asyncio.Task[Sequence[Suggestion]] | None,
    work: Callable[[], Awaitable[Sequence[Suggestion]]],
) -> Sequence[Suggestion]:
    if previous is not None:
        await _cancelled(previous)
    return await work()


async def _cancelled(task: asyncio.Task[Sequence[Suggestion]]) -> None:
    _cancel_once(task)
    await asyncio.wait([task])


def _cancel_once(task: asyncio.Task[Sequence[Suggestion]]) -> None:
    # A second cancel would interrupt the closing of the stream, which the first one began.
    if not task.cancelling():
        task.cancel()


def _is_inside_word(request: CompletionRequest) -> bool:
    text, offset = request.document.text, request.offset
    return (
        offset > 0 and _is_word(text[offset - 1 : offset]) and _is_word(text[offset : offset + 1])
    )


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"
