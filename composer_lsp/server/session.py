"""One window's state: settings, what the user switched, the engine's service, running requests.

Mutable, and only on the event loop; what leaves it are immutable snapshots.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lsprotocol.types import WorkspaceFolder

from composer_lsp.completion.copies import Copies
from composer_lsp.completion.edit_history import EditHistory
from composer_lsp.completion.request import CompletionRequest, DocumentSnapshot, Suggestion
from composer_lsp.config import Settings
from composer_lsp.index.service import IndexService
from composer_lsp.server.agent.diagnostics import Diagnostics
from composer_lsp.server.agent.usable import UsableDocuments
from composer_lsp.server.auto_imports import AutoImports
from composer_lsp.server.conditions import Conditions
from composer_lsp.server.configuration import Configuration, Layer
from composer_lsp.server.documents import Document, DocumentStore
from composer_lsp.server.editor import Editor
from composer_lsp.server.imports import import_agent
from composer_lsp.server.latest import Latest, SupersededError
from composer_lsp.server.models import AUTO, Models, recommended_model
from composer_lsp.server.next_edit import NextEdits
from composer_lsp.server.service import (
    CompletionService,
    ModelMissingError,
    ServiceError,
    ServiceFactory,
    ServiceHost,
)
from composer_lsp.server.shown import Shown
from composer_lsp.server.status import StatusBoard
from composer_lsp.server.switches import Switches
from composer_lsp.server.window_index import WindowIndex, local_path

if TYPE_CHECKING:
    from composer_index.ignores import HiddenFiles
    from composer_lsp.completion.answer import Answer
    from composer_lsp.completion.templates import FimPrompt
    from composer_lsp.next_edit.content import Filled
    from composer_lsp.server.agent.runs import Runs

logger = logging.getLogger(__name__)


class Session:
    def __init__(
        self,
        editor: Editor,
        documents: Callable[[], DocumentStore],
        factory: ServiceFactory,
        pull_command: Sequence[str],
    ) -> None:
        self.editor = editor
        self.board = StatusBoard()
        self.models = Models(editor, self.board, pull_command)
        self.switches = Switches(Settings(), self._on_switched)
        self.index = WindowIndex(editor, lambda: self.settings, self._roots)
        self._documents = documents
        self._factory = factory
        self._configuration = Configuration(editor)
        self._conditions = Conditions(editor, self.board)
        self._service: asyncio.Task[CompletionService] | None = None
        self._running: Latest[Sequence[Suggestion]] = Latest()
        self._is_paused = False
        self._places: dict[str, tuple[int, int]] = {}
        self._agent: asyncio.Task[Runs] | None = None
        self.diagnostics = Diagnostics()
        self.may_show = _Visible()
        self.copies = Copies()
        self.edits = EditHistory(self.may_show)
        self.usable_documents = UsableDocuments(
            self.index.index_roots, lambda: self.settings.index.include_secret
        )
        self.next_edits = NextEdits(self)
        self.last_suggestion: Suggestion | None = None
        """The last one that was given to the client."""
        self.on_screen: str | None = None
        """The text of the first suggestion that the client was given last; None: it was given none."""
        self.shown = Shown()
        self._auto_imports = AutoImports(
            editor, settings=lambda: self.settings, documents=documents, index=self.index.service
        )
        self._background: set[asyncio.Task[None]] = set()

    @property
    def documents(self) -> DocumentStore:
        return self._documents()

    @property
    def settings(self) -> Settings:
        """The settings of now, with what the user switched."""
        return self.switches.settings

    # Life cycle ----------------------------------------------------------------------------------

    def configure(self, layer: Layer, sent: object) -> None:
        """Take settings from the client."""
        had_lenses = self.settings.agent.code_lens
        self.switches.use(self._configuration.update(layer, sent))
        if self.loaded_runs is not None and self.settings.agent.code_lens != had_lenses:
            self.run_in_background(self.editor.refresh_code_lenses())
        if (service := self._ready_service()) is not None:
            service.settings_changed()

    async def start(self) -> None:
        """After `initialized`: ask for settings, and get the service ready in the background."""
        self.board.start(self.editor.send_status)
        await self.editor.watch_configuration()
        await self.pull_configuration()
        self.run_in_background(self._warm_up())

    async def pull_configuration(self) -> None:
        self.configure("pulled", await self.editor.configuration())
        self._configuration.report_problems()
        await self.index.follow()

    async def close(self) -> None:
        """End what runs. The engine, which other windows may share, stays."""
        self._running.end_all()
        self.next_edits.end_all()
        if self._agent is not None:
            await (await self._agent).close()
        await self.models.close()
        await self.index.service.close()
        if (service := self._ready_service()) is not None:
            await service.close()

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run to the end without a caller that waits; a failure is logged."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._on_background_done)

    # Suggestions ---------------------------------------------------------------------------------

    async def suggest(self, request: CompletionRequest) -> Sequence[Suggestion]:
        """Suggestions for this version of the document, the best first.

        Raises: SupersededError if a newer request came or the document changed meanwhile.
        """
        task = self.start_suggesting(request)
        try:
            await asyncio.wait((task,))
        finally:
            task.cancel()
        return self.suggestions(request, task)

    def start_suggesting(self, request: CompletionRequest) -> asyncio.Task[Sequence[Suggestion]]:
        """Start, in place of what runs for the same document; `suggestions` gives the result."""
        key = unquote(request.document.uri)
        self._places[key] = _place(request)
        return self._running.start(key, self._suggest(request))

    def resume_suggesting(self, request: CompletionRequest) -> asyncio.Task[Sequence[Suggestion]]:
        """What runs for this very place and version, else `start_suggesting`."""
        key = unquote(request.document.uri)
        task = self._running.running(key)
        if task is not None and self._places.get(key) == _place(request):
            return task
        return self.start_suggesting(request)

    def suggestions(
        self, request: CompletionRequest, task: asyncio.Task[Sequence[Suggestion]]
    ) -> Sequence[Suggestion]:
        """The result of a finished task. Raises: SupersededError."""
        result = self._running.result(task)
        document = self._documents().find(request.document.uri)
        if document is None or document.version != request.document.version:
            raise SupersededError
        self.on_screen = result[0].text if result else None
        if result:
            self.last_suggestion = result[0]
        return result

    def accepted(self, id: str) -> None:
        """The user took a suggestion to its end. Raises: UnknownSuggestionError."""
        self.run_in_background(self._auto_imports.add(self.shown.accept(id)))

    @property
    def last_answer(self) -> "Answer | None":
        """What the engine said last, or what is on the screen where the memory had it."""
        service = self._ready_service()
        return service.answer(self.on_screen) if service else None

    def end_suggesting(self, uri: str) -> None:
        """The document changed or closed: what runs for it has no use any more."""
        self._running.end(unquote(uri))
        self.next_edits.end(uri)

    async def infill(
        self, prompt: "FimPrompt", *, max_tokens: int, stop: Sequence[str]
    ) -> "Filled":
        """What the model puts between two texts. Raises: ServiceError."""
        with self.board.thinking():
            service = await self._get_service()
            return await service.infill(prompt, max_tokens=max_tokens, stop=stop)

    def watch_edits(self, document: Document) -> None:
        """The document was opened."""
        if (service := self._ready_service()) is not None:
            service.opened(document.language_id or "")
        buffer = document.buffer
        buffer.watch = self.edits.opened(
            document.uri, document.language_id or "", lambda: buffer.lines
        )

    def forget(self, uri: str) -> None:
        """The document was closed, or opened afresh."""
        self.edits.closed(uri)
        self.end_suggesting(uri)
        self.diagnostics.forget(uri)
        self.usable_documents.forget(uri)
        self._places.pop(unquote(uri), None)
        if (service := self._ready_service()) is not None:
            service.forget(uri)

    async def prepare(self, request: CompletionRequest) -> bool:
        """The user rests at a place: have its prompt computed; whether one may be made there."""
        if self._is_paused:
            return False
        try:
            return await (await self._get_service()).prepare(request)
        except ServiceError as error:
            self.on_service_error(error)
            return False

    async def restart_service(self) -> None:
        """Raises: ServiceError."""
        self._running.end_all()
        await (await self._get_service()).restart()

    async def _suggest(self, request: CompletionRequest) -> Sequence[Suggestion]:
        if self.switches.is_snoozed and request.trigger == "automatic":
            return ()
        with self.board.thinking():
            try:
                service = await self._get_service()
                return await service.complete(request)
            except ServiceError as error:
                self.on_service_error(error)
                return ()

    async def _warm_up(self) -> None:
        try:
            await (await self._get_service()).warm_up()
        except ServiceError as error:
            self.on_service_error(error)

    async def _get_service(self) -> CompletionService:
        if self._service is None or _has_failed(self._service):
            self._service = asyncio.ensure_future(self._factory(self._service_host()))
        # Whoever waits may be cancelled; the others still need the service.
        return await asyncio.shield(self._service)

    def _ready_service(self) -> CompletionService | None:
        task = self._service
        if task is None or not task.done() or _has_failed(task):
            return None
        return task.result()

    def _service_host(self) -> ServiceHost:
        return ServiceHost(
            settings=lambda: self.settings,
            roots=self._roots,
            index=self.code_index,
            documents=self._documents,
            edits=self.edits,
            copies=self.copies,
            on_condition=self._conditions.on_condition,
            on_note=self.board.set_note,
            on_model=self.board.set_model,
        )

    def code_index(self) -> IndexService | None:
        return self.index.service if self.settings.index.enabled else None

    def _roots(self) -> list[str]:
        folders: dict[str, WorkspaceFolder] = self._documents().folders
        paths = (local_path(folder.uri) for folder in folders.values())
        return [path for path in paths if path]

    def on_service_error(self, error: ServiceError) -> None:
        """Tell the user, as far as they can do something about it."""
        logger.info("no suggestion: %s", error)
        if isinstance(error, ModelMissingError):
            self.run_in_background(self._provide_model(error.model))
            return
        self._conditions.on_condition(error.condition, str(error))
        if error.is_for_user:
            self.editor.show_once(str(error))

    async def pull_model(self, name: str | None) -> str:
        """Fetch a model, by default the one that the settings choose, and return its path.

        Raises: ModelFetchError.
        """
        configured = self.settings.tab.model
        name = name or (configured if configured != AUTO else recommended_model())
        path = await self.models.fetch(name)
        self.run_in_background(self._warm_up())
        return path

    async def _provide_model(self, model: str) -> None:
        if await self.models.provide(model, self.settings.model_download):
            await self._warm_up()

    # Agent ---------------------------------------------------------------------------------------

    async def agent_runs(self) -> "Runs":
        """The window's runs; what they need is imported the first time."""
        if self._agent is None:
            self._agent = asyncio.ensure_future(self._load_agent())
        return await asyncio.shield(self._agent)

    @property
    def loaded_runs(self) -> "Runs | None":
        """None: nothing was asked of the agent yet."""
        task = self._agent
        is_there = task is not None and task.done() and not task.cancelled()
        return task.result() if task and is_there and task.exception() is None else None

    async def _load_agent(self) -> "Runs":
        module = await asyncio.to_thread(import_agent)
        return module.Runs(_AgentHost(self), self.editor)

    # Switches ------------------------------------------------------------------------------------

    def _on_switched(self) -> None:
        is_enabled = self.settings.tab.enabled
        was_paused = self._is_paused
        self._is_paused = self.switches.is_snoozed or not is_enabled
        if self._is_paused and not was_paused:
            self._running.end_all()
        self.board.set_enabled(is_enabled)
        self.board.set_snoozed(self.switches.is_snoozed)

    def _on_background_done(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("background work failed", exc_info=error)


class _Visible:
    """Whether a document's text may be put in a prompt."""

    def __init__(self) -> None:
        self._hidden: HiddenFiles | None = None

    def __call__(self, uri: str, language_id: str) -> bool:
        # Imported here: before `initialize` is answered nobody asks.
        from composer_index.ignores import HiddenFiles
        from composer_lsp.completion.filters import why_withheld

        self._hidden = self._hidden or HiddenFiles()
        document = DocumentSnapshot(uri=uri, version=0, text="", language_id=language_id)
        return why_withheld(document, self._hidden) is None


class _AgentHost:
    """What the agent's runs need of the window."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def settings(self) -> Settings:
        return self._session.settings

    @property
    def code_index(self) -> IndexService | None:
        return self._session.code_index()

    def roots(self) -> Sequence[str]:
        return self._session.index.index_roots()

    def documents(self) -> DocumentStore:
        return self._session.documents

    @property
    def diagnostics(self) -> Diagnostics:
        return self._session.diagnostics

    @property
    def can_ask(self) -> bool:
        return self._session.editor.features.message_request

    async def confirm(self, question: str) -> bool:
        return await self._session.editor.ask(question, "Yes", "No") == "Yes"

    async def ask(self, question: str, *answers: str) -> str | None:
        return await self._session.editor.ask(question, *answers)

    def log(self, message: str) -> None:
        self._session.editor.log(message)

    def thinking(self) -> AbstractContextManager[None]:
        return self._session.board.thinking()

    def pending_changed(self) -> None:
        self._session.run_in_background(self._session.editor.refresh_code_lenses())


def _place(request: CompletionRequest) -> tuple[int, int]:
    return request.document.version, request.offset


def _has_failed(task: asyncio.Task[CompletionService]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
