"""Suggestions in earnest: the completer over the engine of this machine, or over a URL.

Only `imports.import_engine_service` imports this module.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace

from composer_inference.endpoint import EndpointError
from composer_lsp.completion.answer import Answer
from composer_lsp.completion.completer import Completer
from composer_lsp.completion.context import ContextKeeper
from composer_lsp.completion.parsing import load_grammar
from composer_lsp.completion.request import CompletionRequest, Suggestion
from composer_lsp.completion.speed import Speed, unread_prompt
from composer_lsp.completion.tab_engine import TabChunk, TabEngine, TabEngineError
from composer_lsp.completion.templates import FimPrompt, UnknownTemplateError
from composer_lsp.config import Settings, TabSettings
from composer_lsp.engine.client import local_client
from composer_lsp.engine.errors import (
    BackingOffError,
    EngineError,
    EngineStartError,
    ModelNotFoundError,
)
from composer_lsp.engine.launcher import Launcher
from composer_lsp.engine.local import load_model
from composer_lsp.engine.select import ConfiguredTabEngine
from composer_lsp.next_edit.content import Filled
from composer_lsp.server.models import AUTO, recommended_model, smaller_model
from composer_lsp.server.prompt_sources import PromptSources
from composer_lsp.server.service import (
    ModelMissingError,
    ServiceError,
    ServiceHost,
    ServiceOfflineError,
)
from composer_lsp.server.tab_pace import TabPace

logger = logging.getLogger(__name__)


class EngineService:
    """Implements `CompletionService`."""

    def __init__(self, host: ServiceHost) -> None:
        self._host = host
        self._launcher = Launcher(lambda: host.settings().engine)
        self._engine = ConfiguredTabEngine(self._launcher, self._tab)
        self._watched = _WatchedEngine(self._engine, self._before_answer, self._on_answer)
        self._speed = Speed()
        self._pace = TabPace(self._speed, host.on_note, smaller_model)
        self._model: str | None = None
        self._context = ContextKeeper(
            sources=PromptSources(host.index, host.documents, host.roots, host.edits, host.copies),
            prepare=self._read_ahead,
            speed=self._speed,
            settings=self._settings,
        )
        self._completer = Completer(
            self._watched,
            self._tab,
            roots=host.roots,
            context=self._context,
        )
        self._loaded: dict[str, asyncio.Task[None]] = {}
        """Grammars that were asked for."""
        self._answering = _answering(host.settings().tab)
        self._getting_ready: asyncio.Task[None] | None = None

    async def warm_up(self) -> None:
        for document in self._host.documents().recent:
            self.opened(document.language_id or "")
        if self._tab().enabled:
            with _told_to_users(self._tab()):
                await self._get_ready()

    async def complete(self, request: CompletionRequest) -> Sequence[Suggestion]:
        with _told_to_users(self._tab()):
            found = await self._completer.complete(request)
        if found and request.trigger == "automatic":
            tab = self._host.settings().tab
            if self._pace.observe(found[0], tab, self._model or tab.model):
                self._answer_anew()
        return found

    async def prepare(self, request: CompletionRequest) -> bool:
        with _told_to_users(self._tab()):
            window = self._completer.window(request)
            if window is None:
                return False
            await self._context.rest(request, window)
            return True

    async def infill(self, prompt: FimPrompt, *, max_tokens: int, stop: Sequence[str]) -> Filled:
        text, tokens = "", list[tuple[str, float]]()
        with _told_to_users(self._tab()):
            chunks = self._watched.complete(prompt, max_tokens=max_tokens, stop=stop, invoked=False)
            async with aclosing(chunks):
                async for chunk in chunks:
                    text += chunk.text
                    tokens += chunk.tokens
        return Filled(text=text, tokens=tuple(tokens))

    def opened(self, language_id: str) -> None:
        if language_id not in self._loaded:
            self._loaded[language_id] = asyncio.create_task(
                asyncio.to_thread(load_grammar, language_id)
            )

    def answer(self, shown: str | None) -> Answer | None:
        return self._completer.answers.latest(shown)

    def forget(self, uri: str) -> None:
        self._completer.close_document(uri)
        self._context.forget(uri)

    def settings_changed(self) -> None:
        self._completer.forget_suggestions()
        if (answering := _answering(self._host.settings().tab)) != self._answering:
            self._pace.forget()
            self._context.forget_computed()
            self._answering = answering
            self._model = None
            self._host.on_model(None)
            self._host.on_condition("ready", "")
            if not self._tab().url and self._launcher.endpoint is not None:
                self._start_getting_ready()

    async def restart(self) -> None:
        self._host.on_condition("starting", "")
        with _told_to_users(self._tab()):
            await self._launcher.restart()
            self._context.forget_computed()
            await self._get_ready()

    async def close(self) -> None:
        if self._getting_ready is not None:
            self._getting_ready.cancel()
        self._context.close()
        await self._engine.aclose()

    def _tab(self) -> TabSettings:
        """The settings that the machine can keep up with."""
        return self._pace.cut(self._host.settings().tab)

    def _settings(self) -> Settings:
        return replace(self._host.settings(), tab=self._tab())

    def _answer_anew(self) -> None:
        """By another model from now on."""
        self._completer.forget_suggestions()
        self._context.forget_computed()
        self._start_getting_ready()

    async def _read_ahead(self, prompt: FimPrompt) -> Mapping[str, float]:
        """Raises: TabEngineError."""
        self._before_answer(False)
        try:
            return await self._engine.prepare(prompt)
        except (EndpointError, UnknownTemplateError) as error:
            raise TabEngineError(str(error)) from error

    def _before_answer(self, invoked: bool) -> None:
        # The request that starts the engine may be cancelled by the next keystroke, and the engine
        # comes up all the same: its state is told by a task of its own.
        if self._tab().url or self._launcher.endpoint is not None:
            return
        if invoked or not self._launcher.is_backing_off:
            self._start_getting_ready(at_once=invoked)

    def _on_answer(self) -> None:
        self._host.on_condition("ready", "")

    async def _get_ready(self) -> None:
        await asyncio.shield(self._start_getting_ready())

    def _start_getting_ready(self, *, at_once: bool = False) -> "asyncio.Task[None]":
        if self._getting_ready is None or self._getting_ready.done():
            self._getting_ready = asyncio.create_task(self._load(at_once))
            self._getting_ready.add_done_callback(self._on_load_done)
        return self._getting_ready

    def _on_load_done(self, task: "asyncio.Task[None]") -> None:
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            # Whoever asked may be gone, and "loading" must not stay.
            told = _service_error(error, self._tab())
            self._host.on_condition(told.condition, str(told))
            logger.info("the engine did not get ready: %s", error)
        elif self._model is None and not self._tab().url:
            self._start_getting_ready()  # The settings changed meanwhile.

    async def _load(self, at_once: bool) -> None:
        """Have the engine run and the model loaded; tell how far it is."""
        tab = self._tab()
        if tab.url:
            return
        if self._launcher.endpoint is None:
            self._host.on_condition("starting", "")
        endpoint = await self._launcher.ensure(at_once=at_once)
        self._host.on_condition("loading", "")
        client = local_client(endpoint, "tab")
        try:
            answer = await load_model(client, tab.model)
        finally:
            await client.aclose()
        if tab.model == self._tab().model:
            self._model = str(answer.get("model", tab.model))
            self._host.on_model(self._model)
        self._host.on_condition("ready", "")
        if self._speed.tokens_per_s is None:
            try:
                self._speed.observe(await self._read_ahead(unread_prompt()))
            except TabEngineError as error:
                logger.info("the engine's speed was not measured: %s", error)


class _WatchedEngine:
    """Implements `TabEngine` and tells when an answer is asked for and when it begins."""

    def __init__(
        self,
        engine: TabEngine,
        before_answer: Callable[[bool], None],
        on_answer: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._before_answer = before_answer
        self._on_answer = on_answer

    async def complete(
        self,
        prompt: FimPrompt,
        *,
        max_tokens: int,
        stop: Sequence[str],
        invoked: bool,
        seed: int | None = None,
    ) -> AsyncGenerator[TabChunk, None]:
        self._before_answer(invoked)
        chunks = self._engine.complete(
            prompt, max_tokens=max_tokens, stop=stop, invoked=invoked, seed=seed
        )
        has_answered = False
        async with aclosing(chunks):
            async for chunk in chunks:
                if not has_answered:
                    has_answered = True
                    self._on_answer()
                yield chunk


@contextmanager
def _told_to_users(tab: TabSettings) -> Generator[None]:
    """Turns what the engine raises into what the session tells the user."""
    try:
        yield
    except (EngineError, EndpointError, UnknownTemplateError) as error:
        raise _service_error(error, tab) from error


def _service_error(error: BaseException, tab: TabSettings) -> ServiceError:
    if isinstance(error, BackingOffError):
        # As it was told before the pause: a status that counts seconds would flicker.
        return _service_error(error.reason, tab)
    if isinstance(error, ModelNotFoundError) and not tab.url:
        model = recommended_model() if error.model == AUTO else error.model
        return ModelMissingError(str(error), model)
    if not isinstance(error, EngineStartError) and getattr(error, "is_transient", False):
        # The local engine is started again by itself.
        return ServiceOfflineError(str(error), is_for_user=bool(tab.url))
    return ServiceError(str(error))


def _answering(tab: TabSettings) -> tuple[str, str]:
    return tab.model, tab.url
