"""Turns a model's name into a backend that computes it."""

from pathlib import Path
from typing import Protocol

from composer_inference.api.service import ModelLoadError, UnknownModelError
from composer_inference.backends.base import Backend, BackendError
from composer_inference.backends.scripted import ScriptedBackend
from composer_inference.hardware import read_hardware
from composer_inference.load_guard import LoadGuard
from composer_inference.models.choose import choose_model
from composer_inference.models.errors import ModelError
from composer_inference.models.store import ModelStore


class Loader(Protocol):
    @property
    def threads(self) -> int:
        """Compute threads of a backend."""
        ...

    def available(self) -> dict[str, int]:
        """Names that `load` takes, with their sizes in bytes. Raises: ModelLoadError."""
        ...

    def resolve(self, model: str) -> str:
        """The installed model that a request's name means; `auto` is chosen by the hardware.

        Raises: UnknownModelError, ModelLoadError.
        """
        ...

    async def load(self, name: str) -> Backend:
        """Raises: BackendError."""
        ...


class LlamaCppLoader:
    """Installed GGUF models, computed by llama.cpp."""

    def __init__(self, *, threads: int, context_tokens: int) -> None:
        """`threads` 0: one per physical core; never more than those this process may use."""
        self._store = ModelStore()
        self._hardware = read_hardware()
        cores = self._hardware.num_usable_cores
        self.threads = min(threads or cores, cores)
        self._context_tokens = context_tokens

    def available(self) -> dict[str, int]:
        try:
            return {model.name: model.size_bytes for model in self._store.installed()}
        except ModelError as error:
            raise ModelLoadError(str(error)) from error

    def resolve(self, model: str) -> str:
        installed = tuple(self.available())
        name = choose_model(self._hardware, installed).name if model == "auto" else model
        if name not in installed:
            raise UnknownModelError(name, installed)
        return name

    async def load(self, name: str) -> Backend:
        # Imported here: an engine that only answers /health needs no llama.cpp.
        from composer_inference.backends.llama_cpp import (
            LlamaCppBackend,
            LlamaCppConfig,
            prefill_slice_tokens,
        )

        try:
            path = self._store.path(name)
        except ModelError as error:
            raise BackendError(str(error)) from error
        config = LlamaCppConfig(
            path=path,
            threads=self.threads,
            context_tokens=self._context_tokens,
            prefill_slice_tokens=prefill_slice_tokens(
                threads=self.threads, model_bytes=path.stat().st_size
            ),
        )
        with LoadGuard(name, path).watched():
            return await LlamaCppBackend.load(config)


class ScriptedLoader:
    """One deterministic backend under every name, for tests."""

    threads = 1

    def __init__(self, script: Path) -> None:
        self._backend = ScriptedBackend.from_file(script)

    def available(self) -> dict[str, int]:
        return {"scripted": 0}

    def resolve(self, model: str) -> str:
        return "scripted"

    async def load(self, name: str) -> Backend:
        return self._backend
