"""What the HTTP API needs of the engine behind it."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from composer_inference.backends.base import (
    Backend,
    Capability,
    GenerateChunk,
    GenerateRequest,
)
from composer_inference.priority import Priority

ModelState = Literal["unloaded", "loading", "ready", "failed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelInfo:
    """One installed model."""

    id: str
    state: ModelState = "unloaded"
    error: str | None = None
    """Why it is `failed`."""
    size_bytes: int = 0
    context_tokens: int | None = None
    """None until it is loaded."""
    capabilities: frozenset[Capability] = frozenset()
    """Empty until it is loaded."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Health:
    status: Literal["ok", "draining"]
    version: str
    pid: int
    threads: int
    models: tuple[ModelInfo, ...] = ()
    """Those in use; installed ones that nobody asked for are left out."""


class EngineError(Exception):
    """The engine cannot serve the request; the message names the way out."""


class UnknownModelError(EngineError):
    """No installed model has this name."""

    def __init__(self, name: str, installed: Sequence[str]) -> None:
        self.name = name
        self.installed = tuple(installed)
        known = ", ".join(self.installed) or "none"
        super().__init__(
            f"model {name!r} is not installed (installed: {known}); "
            f"fetch it with: composer-lsp model pull {name}"
        )


class ModelLoadError(EngineError):
    """A model's file cannot be loaded, or none can be looked for; the message names the file or
    folder and the reason."""


class EngineService(Protocol):
    """The engine: its installed models, loaded on demand behind one scheduler.

    `model` is an installed model's name, or `auto`. Whatever computes raises UnknownModelError,
    ModelLoadError and the errors of `Backend`.
    """

    @property
    def draining(self) -> bool:
        """Whether the process is about to leave and takes no new work."""
        ...

    def model_infos(self) -> list[ModelInfo]: ...

    def resolve(self, model: str) -> str:
        """The installed model that the name means."""
        ...

    async def backend(self, model: str) -> Backend:
        """The model, loaded if it was not."""
        ...

    def generate(
        self, model: str, request: GenerateRequest, priority: Priority
    ) -> AsyncGenerator[GenerateChunk, None]:
        """`Backend.generate` in the order of priorities. Closing the iterator cancels."""
        ...

    async def embed(
        self, model: str, texts: Sequence[str], priority: Priority
    ) -> list[list[float]]: ...

    async def rerank(
        self, model: str, query: str, documents: Sequence[str], priority: Priority
    ) -> list[float]: ...

    async def tokenize(self, model: str, text: str) -> list[int]: ...

    async def reload(self, model: str, path: Path) -> int:
        """Puts a checkpoint's weights in place of the model's; returns their version. What runs is
        ended before, what comes meanwhile waits.

        Raises: MissingCapabilityError; RejectedRequestError for files that cannot be used.
        """
        ...

    def health(self) -> Health: ...

    def metrics(self) -> str:
        """Counters and gauges in Prometheus' text format."""
        ...

    def drain(self) -> None:
        """Take no new work, finish what runs, then leave."""
        ...
