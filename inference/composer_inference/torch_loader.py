"""Models that our own decoder computes: one that was named at the start, and installed GGUF files."""

from dataclasses import replace
from pathlib import Path

from composer_inference.api.service import ModelLoadError
from composer_inference.backends.base import Backend
from composer_inference.backends.torch_config import DecoderOptions, TorchDecoderConfig
from composer_inference.load_guard import LoadGuard
from composer_inference.loader import InstalledLoader, Purpose


class TorchLoader:
    """Implements `Loader`. What embeds or ranks is computed as by `InstalledLoader`."""

    def __init__(
        self,
        model: str,
        options: DecoderOptions,
        *,
        threads: int,
        context_tokens: int,
        draft_model: str = "",
    ) -> None:
        """`model`: a folder, a GGUF file or an installed model's name; `auto` means it from then on.
        `draft_model`: one that drafts for it alone; empty: none.

        Raises: ModelLoadError for a path that is not there, UnknownModelError for a name, ParallelError
            as `TorchDecoderConfig`.
        """
        self._installed = InstalledLoader(threads=threads, context_tokens=context_tokens)
        self._own = _own_path(model)
        self._name = model if self._own is None else self._own.name.removesuffix(".gguf")
        if self._own is None:
            self._name = self._installed.resolve(model)
        self._config = TorchDecoderConfig(
            path=self._own or self._installed.path(self._name),
            threads=self.threads,
            context_tokens=context_tokens,
            options=options,
            draft_path=self._draft_path(draft_model),
        )

    @property
    def threads(self) -> int:
        return self._installed.threads

    def available(self) -> dict[str, int]:
        found = self._installed.available()
        if self._own is not None:
            found[self._name] = _num_bytes(self._own)
        return found

    def resolve(self, model: str) -> str:
        return self._name if model in ("auto", self._name) else self._installed.resolve(model)

    def purpose(self, name: str) -> Purpose:
        return "generate" if self._is_own(name) else self._installed.purpose(name)

    async def load(self, name: str) -> Backend:
        if self.purpose(name) == "retrieve":
            return await self._installed.load(name)
        # Imported here: torch takes seconds, and who only asks for /health needs none.
        from composer_inference.backends.torch_decoder import TorchDecoderBackend

        config = self._config
        if name != self._name:
            config = replace(config, path=self._installed.path(name), draft_path=None)
        with LoadGuard(name, config.path, is_installed=not self._is_own(name)).watched():
            return await TorchDecoderBackend.load(config)

    def _draft_path(self, model: str) -> Path | None:
        """Raises: ModelLoadError for a path that is not there, UnknownModelError for a name."""
        if not model:
            return None
        return _own_path(model) or self._installed.path(self._installed.resolve(model))

    def _is_own(self, name: str) -> bool:
        return self._own is not None and name == self._name


def _own_path(model: str) -> Path | None:
    """None for what can only be an installed model's name.

    Raises: ModelLoadError for a path that is not there.
    """
    try:
        path = Path(model).expanduser().absolute()
        is_there = bool(model) and path.exists()
    except (OSError, RuntimeError) as error:  # RuntimeError: `~` of somebody who has no home.
        raise ModelLoadError(f"{model} cannot be looked for: {error}") from error
    if _is_path(model) and not is_there:
        raise ModelLoadError(f"there is no {path}")
    return path if is_there else None


def _is_path(model: str) -> bool:
    return "/" in model or "\\" in model or model.endswith(".gguf")


def _num_bytes(path: Path) -> int:
    files = path.glob("*.safetensors") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)
