"""One window's index: folders and unsaved text go out to the worker, answers come back."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from composer_inference.environment import cache_dir, state_dir
from composer_lsp.config import EngineSettings, IndexSettings
from composer_lsp.index.client import IndexClient, Message, WorkerError
from composer_lsp.index.models import NO_MODELS, IndexModels, Models, ModelsError

logger = logging.getLogger(__name__)

BUFFER_DELAY_S = 0.3
"""After the last keystroke, before unsaved text is sent: a worker at low priority, and nothing on
the keystroke's path, has to keep up."""
RECONCILE_S = 10.0
"""Between two reconciles that clients ask for: whoever goes to and fro between two windows makes the
worker look at every file each time."""


class IndexHost(Protocol):
    """What the index needs of the window."""

    @property
    def index_settings(self) -> IndexSettings: ...

    @property
    def engine_settings(self) -> EngineSettings:
        """Of the engine, should it have to be started."""
        ...

    def index_roots(self) -> Sequence[str]:
        """The workspace folders' paths on this machine."""
        ...

    def on_index_progress(self, root: str, done: int, left: int) -> None:
        """`left` 0: all that is known to have changed is indexed."""
        ...

    def on_index_message(self, text: str) -> None:
        """For the user."""
        ...


def worker_command() -> list[str]:
    # -P: a module of the workspace must not stand in for one of ours.
    return [sys.executable, "-P", "-m", "composer_index.worker", str(cache_dir())]


class IndexService:
    """Event loop only. Requests raise WorkerError."""

    def __init__(self, host: IndexHost, command: Callable[[], Sequence[str]] = worker_command):
        self._host = host
        self._unsaved: dict[str, str] = {}
        self._sending: dict[str, asyncio.TimerHandle] = {}
        self._opened: dict[str, tuple[str, ...]] = {}
        self._is_paused = False
        self._reconciling: asyncio.TimerHandle | None = None
        self._must_reconcile = False
        self._restart: asyncio.Future[None] | None = None
        self._models = IndexModels(lambda: host.index_settings, lambda: host.engine_settings)
        self._told_models: Models = NO_MODELS
        self._launching: asyncio.Future[None] | None = None
        self._told: set[str] = set()
        self._client = IndexClient(
            command(), log=state_dir() / "index.log", state=self._state, on_event=self._on_event
        )

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    async def refresh(self) -> None:
        """Start the worker if there is a folder to index; follow the settings and the folders."""
        wanted = self._wanted()
        self._tell_models()
        gone = self._opened.keys() - wanted.keys()
        for root in gone:
            self._client.notify("close", {"root": root})
        for root, include_secret in wanted.items():
            if self._opened.get(root) != include_secret:
                self._client.notify("open", {"root": root, "include_secret": include_secret})
        if self._is_paused:
            self._client.notify("pause", {"paused": True})
        self._opened = wanted
        for root in gone:
            self._host.on_index_progress(root, 0, 0)
        if wanted:
            await self._client.start()

    async def close(self) -> None:
        timers = [*self._sending.values(), *([self._reconciling] if self._reconciling else [])]
        for timer in timers:
            timer.cancel()
        for task in (self._restart, self._launching):
            if task is not None:
                task.cancel()
        await self._client.close()

    # What changes. --------------------------------------------------------------------------------

    def document_changed(self, path: str, read: Callable[[], str]) -> None:
        """A document differs from its file; `read` gives its text when it is needed."""
        if (timer := self._sending.pop(path, None)) is not None:
            timer.cancel()
        if self._opened:
            loop = asyncio.get_running_loop()
            self._sending[path] = loop.call_later(BUFFER_DELAY_S, self._send_buffer, path, read)

    def document_saved(self, path: str) -> None:
        self.document_closed(path)
        self.files_changed([path])

    def document_closed(self, path: str) -> None:
        if (timer := self._sending.pop(path, None)) is not None:
            timer.cancel()
        if self._unsaved.pop(path, None) is not None:
            self._client.notify("buffer", {"path": path, "text": None})

    def files_changed(self, paths: Sequence[str]) -> None:
        """Hints of a client's watcher: files that may have changed, appeared or gone."""
        self._client.notify("changed", {"paths": list(paths)})

    def reconcile(self) -> None:
        """Anything may have changed, as while the window was away. Of many calls within
        `RECONCILE_S` only the first takes effect at once, and the last when that time is over."""
        if self._reconciling is None:
            self._reconcile()
        else:
            self._must_reconcile = True

    def _reconcile(self) -> None:
        self._must_reconcile = False
        self._client.notify("reconcile", {})
        loop = asyncio.get_running_loop()
        self._reconciling = loop.call_later(RECONCILE_S, self._may_reconcile_again)

    def _may_reconcile_again(self) -> None:
        self._reconciling = None
        if self._must_reconcile:
            self._reconcile()

    def pause(self, *, paused: bool) -> None:
        self._is_paused = paused
        self._client.notify("pause", {"paused": paused})

    # Questions. -----------------------------------------------------------------------------------

    async def search(
        self, query: str, *, limit: int = 10, glob: str | None = None, language: str | None = None
    ) -> Mapping[str, Any]:
        """`results`, best first, and each root's state: `cold`, `building` or `ready`."""
        params = {"query": query, "limit": limit, "glob": glob, "language": language}
        return await self._request("search", params)

    async def definitions(self, name: str) -> Sequence[Mapping[str, Any]]:
        """Where exactly this name is defined; "Class.method" narrows it down."""
        return await self._request("definitions", {"name": name})

    async def references(self, name: str, *, limit: int = 100) -> Sequence[Mapping[str, Any]]:
        """The lines in which an identifier occurs."""
        return await self._request("references", {"name": name, "limit": limit})

    async def symbols(self, query: str, *, limit: int = 100) -> Sequence[Mapping[str, Any]]:
        return await self._request("symbols", {"query": query, "limit": limit})

    async def related(
        self, path: str, line: int, *, limit: int = 12
    ) -> Sequence[Mapping[str, Any]]:
        """What belongs to a line (1-based) of a file: imports, siblings, its test, and what is
        edited together with it."""
        return await self._request("related", {"path": path, "line": line, "limit": limit})

    async def status(self) -> Sequence[Mapping[str, Any]]:
        return await self._request("status", {})

    async def rebuild(self) -> None:
        await self._request("rebuild", {})

    async def _request(self, method: str, params: Mapping[str, Any]) -> Any:
        if not self._host.index_settings.enabled:
            raise WorkerError("the index is off; the setting composer.index.enabled turns it on")
        if not self._wanted():
            raise WorkerError(self._why_nothing())
        await self.refresh()
        return await self._client.request(method, params)

    # Within. --------------------------------------------------------------------------------------

    def _wanted(self) -> dict[str, tuple[str, ...]]:
        settings = self._host.index_settings
        roots = self._host.index_roots() if settings.enabled else ()
        here = [root for root in roots if os.path.isdir(root)]  # noqa: PTH112 - of a few folders
        return dict.fromkeys(here, settings.include_secret)

    def _why_nothing(self) -> str:
        gone = ", ".join(self._host.index_roots())
        if gone:
            return f"nothing to search: {gone} is gone; what was indexed stays until it is back"
        return "this window has no folder open, so there is nothing to index"

    def _state(self) -> Iterator[Message]:
        yield "models", self._told_models
        for root, include_secret in self._opened.items():
            yield "open", {"root": root, "include_secret": include_secret}
        for path, text in self._unsaved.items():
            yield "buffer", {"path": path, "text": text}
        if self._is_paused:
            yield "pause", {"paused": True}

    def _send_buffer(self, path: str, read: Callable[[], str]) -> None:
        del self._sending[path]
        text = read()
        self._unsaved[path] = text
        self._client.notify("buffer", {"path": path, "text": text})

    def _tell_models(self, *, again: bool = False) -> None:
        """Say which models take part, if that changed, or `again`."""
        try:
            models = self._models.now()
        except ModelsError as error:
            self._tell_once(str(error))
            models = NO_MODELS
        if models != self._told_models or again:
            self._told_models = models
            self._client.notify("models", models)

    async def _launch_engine(self) -> None:
        """The worker found no engine where it should be."""
        try:
            await self._models.launch()
        except ModelsError as error:
            self._tell_once(str(error))
        else:
            self._tell_models(again=True)

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._host.on_index_message(text)

    def _on_event(self, method: str, params: Mapping[str, Any]) -> None:
        if method == "progress":
            # What the worker said before it closed a folder may come after.
            if params["root"] in self._opened:
                self._host.on_index_progress(params["root"], params["done"], params["left"])
        elif method == "message":
            self._host.on_index_message(params["message"])
        elif method == "engine_wanted":
            if self._launching is None or self._launching.done():
                self._launching = asyncio.ensure_future(self._launch_engine())
        elif method == "ended":
            for root in self._opened:
                self._host.on_index_progress(root, 0, 0)
            self._restart = asyncio.ensure_future(self._start_again())

    async def _start_again(self) -> None:
        while True:
            await asyncio.sleep(self._client.wait_s)
            try:
                return await self.refresh()
            except WorkerError as error:
                logger.info("%s", error)
