"""Models on this machine: one folder each, with a manifest that is written last.

    models/NAME/manifest.json     what it is; a folder without one is not a model
    models/NAME/FILE.gguf         absent for a registered file, which stays where the user has it
    models/NAME/FILE.onnx         with its tokenizer.json beside it
    models/.partial/NAME/         a download on its way, never used
    models/.locks/NAME            held while a model is being fetched, registered or removed

A finished download becomes visible by one rename of its folder.
"""

import re
import shutil
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from composer_inference.environment import data_dir
from composer_inference.gguf import GgufMetadata, InvalidGgufError
from composer_inference.models.catalog import CATALOG, ModelSpec, find_spec
from composer_inference.models.errors import (
    InvalidModelFileError,
    ModelFileError,
    ModelNameError,
    ModelNotInstalledError,
    UnknownModelError,
    folder_errors_told,
)
from composer_inference.models.files import OnBytes, ignore_bytes, sha256_of, sync_dir
from composer_inference.models.installed import (
    MANIFEST,
    InstalledFile,
    InstalledModel,
    read_manifest,
    write_manifest,
)

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_RESERVED = frozenset({"auto"})
_LOCK_POLL_S = 0.2


class ModelStore:
    """The models under one folder. Cheap to make; every call reads the disk afresh, because other
    processes fetch and remove models too."""

    def __init__(
        self, directory: Path | None = None, catalog: Sequence[ModelSpec] = CATALOG
    ) -> None:
        self.directory = directory or data_dir() / "models"
        self.catalog = tuple(catalog)

    def installed(self) -> list[InstalledModel]:
        """Every model that has a manifest, by name; its file may have vanished since.

        Raises: ModelFolderError.
        """
        found = (self.find(name) for name in self._names())
        return [model for model in found if model is not None]

    def find(self, name: str) -> InstalledModel | None:
        """The installed model of this name, None if there is none or none can be read."""
        return read_manifest(self.directory / name) if _NAME.fullmatch(name) else None

    def get(self, name: str) -> InstalledModel:
        """The installed model, its file present and of the right size.

        Raises: ModelNotInstalledError, UnknownModelError, ModelFileError.
        """
        model = self.find(name)
        if model is None:
            raise self._missing(name)
        if model.problem:
            raise ModelFileError(model.problem)
        return model

    def path(self, name: str) -> Path:
        """Where the model's file is.

        Raises: ModelNotInstalledError, UnknownModelError, ModelFileError.
        """
        return self.get(name).path

    def verify(self, name: str, on_bytes: OnBytes = ignore_bytes) -> InstalledModel:
        """Read every byte and compare the digest.

        Raises: ModelNotInstalledError, UnknownModelError, ModelFileError.
        """
        model = self.get(name)
        before_bytes = 0

        def on_file_bytes(done_bytes: int, _: int) -> None:
            on_bytes(before_bytes + done_bytes, model.total_bytes)

        for file in model.files:
            with folder_errors_told(self.directory):
                digest = sha256_of(file.path, on_file_bytes)
            if digest != file.sha256:
                raise ModelFileError(_damaged(model, file, digest))
            before_bytes += file.size_bytes
        return model

    def register(
        self, path: Path, name: str | None = None, on_bytes: OnBytes = ignore_bytes
    ) -> InstalledModel:
        """Make a GGUF file of the user's known; it stays where it is. Without a name it is known
        by the catalogue's if the bytes are the catalogue's, else by its file name.

        Raises: InvalidModelFileError, ModelNameError, ModelFolderError.
        """
        path = path.expanduser().absolute()
        _check_gguf(path)
        size_bytes, digest = _size_and_digest(path, on_bytes)
        name = name or self._name_for(path, digest)
        self._check_name(name, digest)
        model = InstalledModel(
            name=name,
            path=path,
            size_bytes=size_bytes,
            sha256=digest,
            source="a file of yours",
            registered=True,
        )
        with folder_errors_told(self.directory), self.lock(name):
            known = self.find(name)
            if known is not None and not known.registered and known.problem is None:
                if known.sha256 == digest:
                    return known
                raise ModelNameError(
                    f"{name} is installed already; choose another name with --name, "
                    f"or remove it first: composer-lsp model remove {name}"
                )
            self._clear(name)
            write_manifest(self.directory / name, model)
        return model

    def remove(self, name: str) -> InstalledModel:
        """Delete the model, or forget a registered file and leave it where it is. An engine that
        has it loaded keeps it until it leaves.

        Raises: ModelNotInstalledError, UnknownModelError, ModelFolderError.
        """
        if self.find(name) is None:
            raise self._missing(name)
        with folder_errors_told(self.directory), self.lock(name):
            model = self.find(name)
            if model is None:  # another process was faster
                raise self._missing(name)
            self._clear(name)
        return model

    @contextmanager
    def lock(self, name: str, *, on_wait: Callable[[], None] = lambda: None) -> Generator[None]:
        """Held while the model is changed, by one process at a time; a holder's death releases it.
        `on_wait` is called again and again while another one holds it; what it raises ends the
        wait."""
        path = self.directory / ".locks" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        while not _acquire(lock):
            on_wait()
        try:
            yield
        finally:
            lock.release()

    def partial_dir(self, name: str) -> Path:
        """Where a download of this model is put together."""
        return self.directory / ".partial" / name

    def publish(self, spec: ModelSpec, source: str) -> InstalledModel:
        """Make the finished download in `partial_dir` the installed model; the caller holds the
        lock and has verified the digest."""
        partial, folder = self.partial_dir(spec.name), self.directory / spec.name
        model = InstalledModel(
            name=spec.name,
            path=folder / spec.file_name,
            size_bytes=spec.size_bytes,
            sha256=spec.sha256,
            companions=spec.companions,
            source=source,
        )
        write_manifest(partial, model)
        self._clear(spec.name)
        partial.rename(folder)
        sync_dir(self.directory)
        return model

    def _names(self) -> list[str]:
        """Names of all that is in the folder. Raises: ModelFolderError."""
        with folder_errors_told(self.directory):
            try:
                # Not `glob`: it finds nothing, silently, where it may not look.
                return sorted(path.name for path in self.directory.iterdir())
            except FileNotFoundError:
                return []

    def _clear(self, name: str) -> None:
        folder = self.directory / name
        if folder.exists():
            # The manifest first: what is left of an interrupted removal is no model.
            (folder / MANIFEST).unlink(missing_ok=True)
            shutil.rmtree(folder)

    def _name_for(self, path: Path, digest: str) -> str:
        for spec in self.catalog:
            if spec.sha256 == digest:
                return spec.name
        stem = re.sub(r"[^a-z0-9._-]+", "-", path.stem.lower()).strip("-._")
        if not _NAME.fullmatch(stem):
            raise ModelNameError(f"no model name can be made of {path.name}; give one with --name")
        return stem

    def _check_name(self, name: str, digest: str) -> None:
        if name in _RESERVED or not _NAME.fullmatch(name):
            raise ModelNameError(
                f"{name!r} cannot be a model's name: use lower-case letters, digits, '.', '_' "
                "and '-', starting with a letter or digit, and not 'auto'"
            )
        pinned = {spec.name: spec.sha256 for spec in self.catalog}.get(name)
        if pinned not in {None, digest}:
            raise ModelNameError(
                f"{name} is the catalogue's name for a file with SHA-256 {pinned}, and this file "
                f"has {digest}; choose another name with --name"
            )

    def _missing(self, name: str) -> ModelNotInstalledError | UnknownModelError:
        self._names()  # Where nothing can be seen, nothing is known to be missing.
        try:
            find_spec(name, self.catalog)
        except UnknownModelError as error:
            return error
        return ModelNotInstalledError(
            f"the model {name} is not installed; fetch it: composer-lsp model pull {name}"
        )


def _damaged(model: InstalledModel, file: InstalledFile, digest: str) -> str:
    way_out = (
        f"register it again: composer-lsp model pull --file {model.path} --name {model.name}"
        if model.registered
        else f"fetch it again: composer-lsp model pull {model.name}"
    )
    return (
        f"the file of {model.name} is damaged: its SHA-256 is {digest} instead of {file.sha256}: "
        f"{file.path}; {way_out}"
    )


def _acquire(lock: FileLock) -> bool:
    try:
        lock.acquire(timeout=_LOCK_POLL_S)
    except Timeout:
        return False
    return True


def _size_and_digest(path: Path, on_bytes: OnBytes) -> tuple[int, str]:
    try:
        return path.stat().st_size, sha256_of(path, on_bytes)
    except BrokenPipeError:
        raise  # whoever was told of the progress has gone
    except OSError as error:
        raise InvalidModelFileError(f"cannot read {path}: {error.strerror}") from error


def _check_gguf(path: Path) -> None:
    if not path.is_file():
        raise InvalidModelFileError(f"there is no file {path}")
    try:
        metadata = GgufMetadata.read(path)
    except InvalidGgufError as error:
        raise InvalidModelFileError(str(error)) from error
    if not metadata.architecture:
        raise InvalidModelFileError(f"{path} is a GGUF file that names no model architecture")
