"""The engine: which models are loaded, and one scheduler for all of them."""

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

from composer_inference.api.service import Health, ModelInfo, ModelLoadError, ModelState
from composer_inference.backends.base import (
    Backend,
    BackendError,
    BackendLostError,
    BackendStats,
    Capability,
    GenerateChunk,
    GenerateRequest,
    Measured,
    MissingCapabilityError,
    RejectedRequestError,
    Reloadable,
    check_capabilities,
)
from composer_inference.endpoint import EndpointError
from composer_inference.loader import Loader, Purpose
from composer_inference.metrics import Metrics
from composer_inference.priority import Priority
from composer_inference.scheduler import Scheduler
from composer_inference.weights.errors import CheckpointError

logger = logging.getLogger(__name__)

MAX_LOADED: dict[Purpose, int] = {"generate": 2, "retrieve": 2}
"""Models in memory: one a role, and beside them an embedder and a reranker. Loading one more frees
that of its kind which has rested longest."""


@dataclass(eq=False, slots=True)
class _Slot:
    """One model in memory, or on its way there."""

    loading: asyncio.Task[Backend]
    purpose: Purpose
    last_used: float
    num_users: int = 0

    @property
    def backend(self) -> Backend | None:
        done = self.loading.done() and not self.loading.cancelled()
        return self.loading.result() if done and not self.loading.exception() else None


class Engine:
    """Implements `EngineService`. Lives on one event loop."""

    def __init__(self, loader: Loader, *, on_drain: Callable[[], None]) -> None:
        self._loader = loader
        self._on_drain = on_drain
        self._scheduler = Scheduler()
        self._slots: dict[str, _Slot] = {}
        self._failures: dict[str, str] = {}
        self._metrics = Metrics()
        self._num_active = 0
        self._draining = False
        self.last_active = time.monotonic()
        """When the last request ended, on the monotonic clock."""

    @property
    def draining(self) -> bool:
        return self._draining

    @property
    def busy(self) -> bool:
        """Whether a request is being answered or a model loaded."""
        return self._num_active > 0

    def model_infos(self) -> list[ModelInfo]:
        return [self._info(name, size) for name, size in self._loader.available().items()]

    def resolve(self, model: str) -> str:
        return self._loader.resolve(model)

    async def backend(self, model: str) -> Backend:
        async with self._using(model) as backend:
            return backend

    async def generate(
        self, model: str, request: GenerateRequest, priority: Priority
    ) -> AsyncGenerator[GenerateChunk, None]:
        async with self._using(model) as backend:
            check_capabilities(backend, request)
            request = replace(request, priority=priority)
            if Capability.BATCHING in backend.capabilities:
                stream = backend.generate(request)
            else:
                stream = self._scheduler.generate(backend, request, priority)
            try:
                async with aclosing(stream) as chunks, self._metrics.request(priority) as observe:
                    async for chunk in chunks:
                        observe(chunk)
                        yield chunk
            except BackendLostError:
                await self._forget(backend)
                raise

    async def embed(
        self, model: str, texts: Sequence[str], priority: Priority
    ) -> list[list[float]]:
        # A text a step: a keystroke that comes meanwhile runs beside one text, not beside them all.
        async with self._using(model) as backend:
            steps = [partial(backend.embed, [text]) for text in texts]
            return [vector for (vector,) in await self._scheduler.in_turns(priority, steps)]

    async def rerank(
        self, model: str, query: str, documents: Sequence[str], priority: Priority
    ) -> list[float]:
        async with self._using(model) as backend:
            steps = [partial(backend.rerank, query, [document]) for document in documents]
            return [score for (score,) in await self._scheduler.in_turns(priority, steps)]

    async def tokenize(self, model: str, text: str) -> list[int]:
        async with self._using(model) as backend:
            return await backend.tokenize(text)

    async def reload(self, model: str, path: Path) -> int:
        async with self._using(model) as backend:
            if not isinstance(backend, Reloadable):
                raise MissingCapabilityError(
                    f"{model} is computed by a backend that cannot take other weights in place"
                )
            try:
                is_there = await asyncio.to_thread(path.exists)
            except OSError as error:
                raise RejectedRequestError(f"{path} cannot be looked for: {error}") from error
            if not is_there:
                raise RejectedRequestError(f"there is no {path}")
            try:
                return await backend.reload(path)
            except BackendLostError:
                await self._forget(backend)
                raise
            except CheckpointError as error:
                raise RejectedRequestError(str(error)) from error

    def health(self) -> Health:
        try:
            infos = self.model_infos()
        except ModelLoadError:
            infos = []  # Told to whoever asks for a model; this engine lives all the same.
        in_use = self._slots.keys() | self._failures.keys()
        return Health(
            status="draining" if self._draining else "ok",
            version=version("composer-lsp"),
            pid=os.getpid(),
            threads=self._loader.threads,
            models=tuple(info for info in infos if info.id in in_use),
        )

    def metrics(self) -> str:
        stats = self._stats()
        # A backend that batches keeps its requests' turns itself.
        return self._metrics.render(
            num_running=self._scheduler.num_running + sum(s.num_running for s in stats.values()),
            num_waiting=self._scheduler.num_waiting + sum(s.num_waiting for s in stats.values()),
            num_loaded_models=sum(slot.backend is not None for slot in self._slots.values()),
            models=stats,
        )

    def drain(self) -> None:
        if not self._draining:
            self._draining = True
            self._on_drain()

    async def close(self) -> None:
        """Free every model."""
        for name in list(self._slots):
            await self._free(name)

    def _stats(self) -> dict[str, BackendStats]:
        """Of the loaded models that tell theirs."""
        backends = {name: slot.backend for name, slot in self._slots.items()}
        return {
            name: backend.stats()
            for name, backend in backends.items()
            if isinstance(backend, Measured)
        }

    def _info(self, name: str, size_bytes: int) -> ModelInfo:
        slot = self._slots.get(name)
        backend = slot.backend if slot else None
        state: ModelState = "unloaded"
        if slot is not None:
            state = "ready" if backend else "loading"
        elif name in self._failures:
            state = "failed"
        return ModelInfo(
            id=name,
            state=state,
            error=self._failures.get(name),
            size_bytes=size_bytes,
            context_tokens=backend.context_tokens if backend else None,
            capabilities=backend.capabilities if backend else frozenset(),
        )

    @asynccontextmanager
    async def _using(self, model: str) -> AsyncGenerator[Backend]:
        with self._active():
            slot = await self._slot(self._loader.resolve(model))
            slot.num_users += 1
            try:
                # Shielded: the model is wanted by whoever asks next, even if this one gives up.
                yield await asyncio.shield(slot.loading)
            finally:
                slot.num_users -= 1
                slot.last_used = time.monotonic()

    @contextmanager
    def _active(self) -> Generator[None]:
        self._num_active += 1
        try:
            yield
        finally:
            self._num_active -= 1
            self.last_active = time.monotonic()

    async def _slot(self, name: str) -> _Slot:
        """The model's slot, its loading begun if there was none."""
        if (slot := self._slots.get(name)) is not None:
            return slot
        # Reads a file, which is not for the event loop.
        purpose = await asyncio.to_thread(self._loader.purpose, name)
        if name not in self._slots:
            await self._make_room(purpose)
        if name not in self._slots:
            task = asyncio.create_task(self._load(name))
            # An exception that nobody awaited is told by `health`, not by the event loop.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            self._slots[name] = _Slot(task, purpose, time.monotonic())
        return self._slots[name]

    async def _load(self, name: str) -> Backend:
        started = time.monotonic()
        self._failures.pop(name, None)
        try:
            backend = await self._loader.load(name)
        except (BackendError, EndpointError) as error:
            self._slots.pop(name, None)
            self._failures[name] = str(error)
            raise ModelLoadError(str(error)) from error
        except Exception as error:
            # Such as memory that does not suffice. Kept in its place, it would fail for ever.
            logger.exception("loading %s failed", name)
            self._slots.pop(name, None)
            self._failures[name] = message = f"loading {name} failed: {error!r}; the log says where"
            raise ModelLoadError(message) from error
        logger.info("loaded %s in %.1f s", name, time.monotonic() - started)
        return backend

    async def _make_room(self, purpose: Purpose) -> None:
        alike = {name: slot for name, slot in self._slots.items() if slot.purpose == purpose}
        resting = [(slot.last_used, name) for name, slot in alike.items() if slot.num_users == 0]
        if len(alike) >= MAX_LOADED[purpose] and resting:
            await self._free(min(resting)[1])

    async def _forget(self, lost: Backend) -> None:
        """Whoever asks next has the model loaded anew."""
        for name in [name for name, slot in self._slots.items() if slot.backend is lost]:
            await self._free(name)

    async def _free(self, name: str) -> None:
        slot = self._slots.pop(name)
        if (backend := slot.backend) is not None:
            await backend.close()
        else:
            slot.loading.cancel()
