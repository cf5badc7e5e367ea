"""The text of other files that a document's prompts begin with, and prompts that are computed ahead.

Reading a long prompt takes a small machine many seconds, and a keystroke can wait for none of them. So
other files' text is looked for while the user rests, computed in the background, and stands in a prompt
only from then on; and a prompt that is not computed yet is asked for in short until it is.
"""

import asyncio
import logging
import math
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol
from urllib.parse import unquote

from composer_lsp.completion.filters import prompt_path
from composer_lsp.completion.literals import line_comment
from composer_lsp.completion.prompt import PromptWindow, path_end
from composer_lsp.completion.repository import NO_CONTEXT, RepositoryContext
from composer_lsp.completion.request import CompletionRequest
from composer_lsp.completion.selection import Candidate, select
from composer_lsp.completion.speed import Speed
from composer_lsp.completion.tab_engine import TabEngineError
from composer_lsp.completion.templates import FimPrompt
from composer_lsp.completion.tokens import estimated_tokens
from composer_lsp.config import Settings

logger = logging.getLogger(__name__)

REST_S = 0.5
"""Without a request, before anything is computed ahead."""
_NUM_COMPUTED = 8
"""Prompts of a document that the engine may still have."""
_MAX_DOCUMENTS = 64
_MIN_PREPARED_TOKENS = 32
"""Fewer are computed as fast with the next keystroke."""

Prepare = Callable[[FimPrompt], Awaitable[Mapping[str, float]]]
"""Computes a prompt in the background, and tells its timings."""


class PromptContext(Protocol):
    """What makes the text around the cursor a prompt."""

    def prompt(self, request: CompletionRequest, window: FimPrompt) -> FimPrompt:
        """`window`: the text around the cursor. Never waits."""
        ...

    def computed(
        self, request: CompletionRequest, prompt: FimPrompt, timings: Mapping[str, float]
    ) -> None:
        """The engine has read this prompt of `request`'s document, in `num_prefill_tokens` and
        `prefill_ms`."""
        ...


@dataclass(frozen=True, slots=True)
class FixedContext:
    """Implements `PromptContext`: always the same."""

    context: RepositoryContext = NO_CONTEXT

    def prompt(self, request: CompletionRequest, window: FimPrompt) -> FimPrompt:
        return _extended(window, self.context, request)

    def computed(
        self, request: CompletionRequest, prompt: FimPrompt, timings: Mapping[str, float]
    ) -> None: ...


class Sources(Protocol):
    """Where other files' text comes from."""

    async def gather(self, request: CompletionRequest) -> Sequence[Candidate] | None:
        """What may help at a place, nothing of a hidden file; None: nobody can tell now."""
        ...

    def repository_of(self, path: str) -> str:
        """The name of the repository that holds a file; empty where none is known."""
        ...

    def is_hidden(self, path: str) -> bool:
        """Whether a candidate's path has become one that no prompt may tell of."""
        ...


@dataclass(kw_only=True, slots=True)
class _Document:
    context: RepositoryContext = NO_CONTEXT
    computed: deque[FimPrompt] = field(
        default_factory=lambda: deque[FimPrompt](maxlen=_NUM_COMPUTED)
    )
    short: PromptWindow = field(default_factory=PromptWindow)
    latest: "_Latest | None" = None
    work: "asyncio.Task[None] | None" = None
    preparing: FimPrompt | None = None
    """What the engine computes now."""
    served_at: float = -math.inf
    """The latest time that the user was at a place whose prompt was seen to."""

    @property
    def is_working(self) -> bool:
        return self.work is not None and not self.work.done()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Latest:
    """Where the user is."""

    request: CompletionRequest
    window: FimPrompt
    at: float


class ContextKeeper:
    """Implements `PromptContext`. Event loop only."""

    def __init__(
        self,
        *,
        sources: Sources,
        prepare: Prepare,
        speed: Speed,
        settings: Callable[[], Settings],
        rest_s: float = REST_S,
    ) -> None:
        self._sources = sources
        self._prepare = prepare
        self._speed = speed
        self._settings = settings
        self._rest_s = rest_s
        self._documents: OrderedDict[str, _Document] = OrderedDict()

    def prompt(self, request: CompletionRequest, window: FimPrompt) -> FimPrompt:
        document = self._document(request.document.uri)
        self._note(document, request, window)
        # What was hidden or turned off since is in no prompt from now on.
        context = self._shown(document.context) if self._settings().tab.retrieval else NO_CONTEXT
        whole = _extended(window, context, request)
        limit = self._speed.new_tokens
        if request.trigger == "invoked" or limit is None:
            return whole
        if num_new_tokens(whole, document.computed) <= 2 * limit:
            return whole
        return _extended(document.short.at(request, context_tokens=limit), context, request)

    def computed(
        self, request: CompletionRequest, prompt: FimPrompt, timings: Mapping[str, float]
    ) -> None:
        self._speed.observe(timings)
        document = self._document(request.document.uri)
        document.computed.append(prompt)
        if not document.is_working:
            self._start(document, self._rest_s)

    async def rest(self, request: CompletionRequest, window: FimPrompt) -> None:
        """The user rests at a place: returns when its prompt is computed, or the user went elsewhere."""
        document = self._document(request.document.uri)
        latest = self._note(document, request, window)
        if document.is_working and _is_elsewhere(latest, document.preparing):
            _cancel(document.work)
            await _ended(document.work)
        # The document may be closed while this waits.
        while document.served_at < latest.at and self._is_open(document, request):
            work = document.work
            if work is None or work.done():
                work = self._start(document, 0.0)
            await _ended(work)
            if work.cancelled():
                return

    def forget(self, uri: str) -> None:
        """The document was closed."""
        if (document := self._documents.pop(unquote(uri), None)) is not None:
            _cancel(document.work)

    def forget_computed(self) -> None:
        """Another engine or model answers from now on."""
        self._speed.forget()
        for document in self._documents.values():
            _cancel(document.work)
            document.context = NO_CONTEXT
            document.computed.clear()

    def close(self) -> None:
        """End what runs."""
        for document in self._documents.values():
            _cancel(document.work)

    def _note(
        self, document: _Document, request: CompletionRequest, window: FimPrompt
    ) -> "_Latest":
        at = asyncio.get_running_loop().time()
        document.latest = _Latest(request=request, window=window, at=at)
        return document.latest

    def _start(self, document: _Document, rest_s: float) -> "asyncio.Task[None]":
        # One document is worked at: the one that the user is in.
        for other in self._documents.values():
            if other is not document:
                _cancel(other.work)
        document.work = asyncio.create_task(self._work(document, rest_s))
        return document.work

    async def _work(self, document: _Document, rest_s: float) -> None:
        latest = await _when_resting(document, rest_s)
        try:
            context = await self._selected(document, latest)
            prompt = _extended(latest.window, context, latest.request)
            if not self._is_quick(num_new_tokens(prompt, document.computed)):
                if not self._settings().tab.prepare_ahead:
                    return
                document.preparing = prompt
                self._speed.observe(await self._prepare(prompt))
                document.computed.append(prompt)
            document.context = context
        except TabEngineError as error:
            logger.info("no prompt was computed ahead: %s", error)
        finally:
            document.preparing = None
            document.served_at = latest.at

    def _is_quick(self, num_tokens: int) -> bool:
        """Whether the next keystroke may read so many tokens."""
        limit = self._speed.new_tokens
        return num_tokens < _MIN_PREPARED_TOKENS or (limit is not None and num_tokens <= limit)

    async def _selected(self, document: _Document, latest: _Latest) -> RepositoryContext:
        budget = self._budget()
        candidates = await self._sources.gather(latest.request) if budget else ()
        present = self._shown(document.context)
        if candidates is None:
            return present
        return select(
            candidates,
            max_tokens=budget,
            present=present,
            name=self._sources.repository_of(prompt_path(latest.request.document.uri)),
        )

    def _shown(self, context: RepositoryContext) -> RepositoryContext:
        shown = tuple(each for each in context.snippets if not self._sources.is_hidden(each.path))
        return context if shown == context.snippets else replace(context, snippets=shown)

    def _budget(self) -> int:
        """Tokens of other files' text."""
        settings = self._settings()
        tab = settings.tab
        if not tab.retrieval:
            return 0
        if tab.url:
            return self._speed.stable_tokens
        room = settings.engine.context_tokens - tab.context_tokens - tab.max_tokens
        return max(0, min(self._speed.stable_tokens, room))

    def _is_open(self, document: _Document, request: CompletionRequest) -> bool:
        return self._documents.get(unquote(request.document.uri)) is document

    def _document(self, uri: str) -> _Document:
        key = unquote(uri)
        document = self._documents.setdefault(key, _Document())
        self._documents.move_to_end(key)
        if len(self._documents) > _MAX_DOCUMENTS:
            _, oldest = self._documents.popitem(last=False)
            _cancel(oldest.work)
        return document


def num_new_tokens(prompt: FimPrompt, computed: Iterable[FimPrompt]) -> int:
    """About how many of the prompt's tokens stand behind what it shares with any of those that were
    computed, in the order other files, suffix, prefix."""
    suffix, prefix = estimated_tokens(prompt.suffix), prompt.prefix
    every = sum(estimated_tokens(each.text) for each in prompt.context.snippets)
    best = every + suffix + estimated_tokens(prefix)
    for other in computed:
        if (other.context, other.path) != (prompt.context, prompt.path):
            continue
        if other.suffix == prompt.suffix:
            best = min(best, estimated_tokens(prefix[_num_shared(prefix, other.prefix) :]))
        else:
            best = min(best, suffix + estimated_tokens(prefix))
    return best


def _num_shared(one: str, other: str) -> int:
    """Characters of the common beginning."""
    if one.startswith(other):
        return len(other)
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _extended(
    window: FimPrompt, context: RepositoryContext, request: CompletionRequest
) -> FimPrompt:
    if not context.snippets:
        return window
    return replace(
        window,
        path=path_end(prompt_path(request.document.uri)),
        context=context,
        line_comment=line_comment(request.document.language_id),
    )


def _is_elsewhere(latest: _Latest, preparing: FimPrompt | None) -> bool:
    """Whether what the engine computes is of no use there: another place's window."""
    if preparing is None:
        return False
    prompt = _extended(latest.window, preparing.context, latest.request)
    return num_new_tokens(prompt, (preparing,)) > num_new_tokens(latest.window, ()) // 2


async def _when_resting(document: _Document, rest_s: float) -> _Latest:
    loop = asyncio.get_running_loop()
    while True:
        latest = document.latest
        assert latest is not None, "a document is worked at from its first request on"
        if (wait_s := latest.at + rest_s - loop.time()) <= 0:
            return latest
        await asyncio.sleep(wait_s)


async def _ended(task: "asyncio.Task[None] | None") -> None:
    """Waits, whether it ends well or is cancelled; the waiting alone is ended with who waits."""
    if task is not None:
        await asyncio.wait((task,))


def _cancel(task: "asyncio.Task[None] | None") -> None:
    if task is not None:
        task.cancel()
