"""Remembers models whose loading ended the engine's process.

llama.cpp aborts on some damaged files. Every keystroke would start another engine to die of the same
file; after two deaths the model is refused for a while, or until its file has changed.
"""

import json
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from composer_inference.backends.base import BackendError
from composer_inference.endpoint import private_runtime_dir, write_private

MAX_DEATHS = 2
REFUSED_S = 600.0


class LoadGuard:
    """The tries to load one model from one file, over the lives of several engines."""

    def __init__(self, name: str, path: Path, *, is_installed: bool = True) -> None:
        """`is_installed`: whether `model verify` knows the name. Raises: EndpointError."""
        self._name = name
        self._path = path
        self._is_installed = is_installed
        self._marker = private_runtime_dir() / f"{name}.loading"

    @contextmanager
    def watched(self) -> Generator[None]:
        """Around the loading. Raises: BackendError where this file ended two engines lately."""
        num_deaths = self._num_deaths()
        if num_deaths >= MAX_DEATHS:
            way_out = "check or replace what is there"
            if self._is_installed:
                way_out = f"check the file: composer-lsp model verify {self._name}"
            raise BackendError(
                f"loading {self._name} ended the engine {num_deaths} times, so that it is left "
                f"alone for {REFUSED_S / 60:.0f} minutes or until {self._path} changes; {way_out}"
            )
        self._write(num_deaths + 1)
        try:
            yield
        finally:
            self._marker.unlink(missing_ok=True)

    def _num_deaths(self) -> int:
        """Tries that have begun and not ended, of the file as it is now."""
        try:
            if time.time() - self._marker.stat().st_mtime > REFUSED_S:
                return 0
            value: dict[str, Any] = json.loads(self._marker.read_text(encoding="utf-8"))
            return int(value["num_begun"]) if value["file"] == self._file() else 0
        except (OSError, ValueError, KeyError, TypeError):
            return 0

    def _write(self, num_begun: int) -> None:
        try:
            text = json.dumps({"file": self._file(), "num_begun": num_begun})
            write_private(self._marker, text)
        except OSError as error:
            raise BackendError(f"cannot write {self._marker}: {error.strerror}") from error

    def _file(self) -> list[int | str]:
        status = self._path.stat()
        return [str(self._path), status.st_size, status.st_mtime_ns]
