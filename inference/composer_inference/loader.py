"""Turns a model's name into a backend that computes it."""

from pathlib import Path
from typing import Literal, Protocol

from composer_inference.api.service import ModelLoadError, UnknownModelError
from composer_inference.backends.base import Backend, BackendError
from composer_inference.backends.scripted import ScriptedBackend
from composer_inference.gguf import GgufMetadata, InvalidGgufError
from composer_inference.hardware import read_hardware
from composer_inference.load_guard import LoadGuard
from composer_inference.models.catalog import find_spec
from composer_inference.models.choose import choose_model
from composer_inference.models.errors import ModelError
from composer_inference.models.installed import InstalledModel
from composer_inference.models.store import ModelStore

Purpose = Literal["generate", "retrieve"]
"""Models that embed or rank retrieve."""


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

    def purpose(self, name: str) -> Purpose:
        """What the model is for, as far as its file tells; reads it."""
        ...

    async def load(self, name: str) -> Backend:
        """Raises: BackendError."""
        ...


class InstalledLoader:
    """Installed models: GGUF files, computed by llama.cpp, and ONNX files, by onnxruntime."""

    def __init__(self, *, threads: int, context_tokens: int) -> None:
        """`threads` 0: one per physical core; never more than those this process may use."""
        self._store = ModelStore()
        self._hardware = read_hardware()
        cores = self._hardware.num_usable_cores
        self.threads = min(threads or cores, cores)
        self._context_tokens = context_tokens

    def available(self) -> dict[str, int]:
        try:
            return {model.name: model.total_bytes for model in self._store.installed()}
        except ModelError as error:
            raise ModelLoadError(str(error)) from error

    def resolve(self, model: str) -> str:
        installed = tuple(self.available())
        name = choose_model(self._hardware, installed).name if model == "auto" else model
        if name not in installed:
            raise UnknownModelError(name, installed)
        return name

    def purpose(self, name: str) -> Purpose:
        model = self._store.find(name)
        retrieves = model is not None and (_is_onnx(model) or _is_gguf_encoder(model))
        return "retrieve" if retrieves else "generate"

    async def load(self, name: str) -> Backend:
        try:
            model = self._store.get(name)
            with LoadGuard(name, model.path).watched():
                return await (self._load_onnx if _is_onnx(model) else self._load_gguf)(model)
        except ModelError as error:
            raise BackendError(str(error)) from error

    def path(self, name: str) -> Path:
        """The model's file. Raises: BackendError."""
        try:
            return self._store.get(name).path
        except ModelError as error:
            raise BackendError(str(error)) from error

    async def _load_gguf(self, model: InstalledModel) -> Backend:
        # Imported here: an engine that only answers /health needs no llama.cpp.
        from composer_inference.backends.llama_cpp import (
            LlamaCppBackend,
            LlamaCppConfig,
            prefill_slice_tokens,
        )

        config = LlamaCppConfig(
            path=model.path,
            threads=self.threads,
            context_tokens=self._context_tokens,
            prefill_slice_tokens=prefill_slice_tokens(
                threads=self.threads, model_bytes=model.size_bytes
            ),
        )
        return await LlamaCppBackend.load(config)

    async def _load_onnx(self, model: InstalledModel) -> Backend:
        # Imported here: only a retrieving model needs onnxruntime, which an extra brings.
        from composer_inference.backends.onnx import OnnxBackend, OnnxConfig

        spec = find_spec(model.name, self._store.catalog)
        assert spec.task != "generate", "the catalogue's ONNX models embed or rank"
        return await OnnxBackend.load(
            OnnxConfig(
                path=model.path,
                tokenizer_path=model.path.with_name("tokenizer.json"),
                task=spec.task,
                threads=self.threads,
            )
        )


def _is_onnx(model: InstalledModel) -> bool:
    return model.path.suffix == ".onnx"


def _is_gguf_encoder(model: InstalledModel) -> bool:
    try:
        return GgufMetadata.read(model.path).pooling is not None
    except InvalidGgufError:
        return False  # Loading it tells what is wrong.


class ScriptedLoader:
    """One deterministic backend under every name, for tests."""

    threads = 1

    def __init__(self, script: Path) -> None:
        self._backend = ScriptedBackend.from_file(script)

    def available(self) -> dict[str, int]:
        return {"scripted": 0}

    def resolve(self, model: str) -> str:
        return "scripted"

    def purpose(self, name: str) -> Purpose:
        return "generate"

    async def load(self, name: str) -> Backend:
        return self._backend
