"""What runs have changed, kept so that it can be taken back. Nothing of git is touched.

A checkpoint is a manifest and the files' bytes before and after, by their SHA-256 and so once each:

    FOLDER/ID.json     a `_Manifest`
    FOLDER/objects/    bytes

A form is the encoding and the byte order mark (hexadecimal) that the bytes are a text in: what was
guessed once could be guessed otherwise of another text. The oldest checkpoints leave when there are
too many or they are too large. A manifest that cannot be read is left out, and told in the log.
"""

import hashlib
import json
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import cattrs

from composer_lsp.agent.edits.change_set import FileChange
from composer_lsp.agent.edits.text_file import TextError, TextFile
from composer_lsp.agent.workspace.directory import write_whole

logger = logging.getLogger(__name__)

MAX_CHECKPOINTS = 50
MAX_BYTES = 200_000_000
_MODE = 0o600
_UTF_8 = TextFile(text="")


class CheckpointError(Exception):
    """A checkpoint is not there, or not whole; the text names it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    id: str
    label: str
    """The run's request."""
    at: float
    """Seconds since 1970."""
    paths: Sequence[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class _File:
    path: str
    moved_from: str | None
    before: str | None
    """The bytes' digest; None: there was no file."""
    after: str | None
    mode: int | None
    before_form: tuple[str, str] | None = None
    """None also of a checkpoint that is older than forms."""
    after_form: tuple[str, str] | None = None
    link: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Manifest:
    label: str
    at: float
    files: tuple[_File, ...]


class Checkpoints:
    """Of one workspace. Used by one process at a time; another's are seen, and may be pruned."""

    def __init__(
        self, folder: Path, *, max_checkpoints: int = MAX_CHECKPOINTS, max_bytes: int = MAX_BYTES
    ) -> None:
        self._folder = folder
        self._objects = folder / "objects"
        self._max_checkpoints = max_checkpoints
        self._max_bytes = max_bytes

    def save(self, id: str, label: str, changes: Iterable[FileChange]) -> None:
        """Keep what is about to be applied; nothing is kept where it fails. Raises: OSError,
        TextError."""
        path = self._path(id)
        self._objects.mkdir(mode=0o700, parents=True, exist_ok=True)
        files = tuple(self._kept(change) for change in changes)
        manifest = asdict(_Manifest(label=label, at=time.time(), files=files))
        write_whole(path, json.dumps(manifest).encode(), _MODE)
        try:
            self._prune()
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def list(self) -> "Sequence[Checkpoint]":
        """Those that can be read, the newest first."""
        return [
            Checkpoint(
                id=path.stem,
                label=manifest.label,
                at=manifest.at,
                paths=[file.path for file in manifest.files],
            )
            for path, manifest in self._readable()
        ]

    def reversed(self, id: str) -> "Sequence[FileChange]":
        """The changes that take it back. Raises: CheckpointError."""
        return [
            change for file in _manifest(self._path(id)).files for change in self._back(file, id)
        ]

    def drop(self, id: str) -> None:
        """After it was taken back."""
        self._path(id).unlink(missing_ok=True)
        self._collect()

    def _back(self, file: _File, id: str) -> Iterable[FileChange]:
        try:
            before = self._text(file.before, file.before_form)
            after = self._text(file.after, file.after_form)
        except (OSError, ValueError, TextError) as error:
            raise CheckpointError(
                f"the checkpoint of {file.path} is broken: {error}. Without {self._path(id)} the one "
                "before it is the last"
            ) from error
        origin = file.moved_from
        yield FileChange(
            path=origin or file.path,
            before=after,
            after=before.text if before else None,
            moved_from=file.path if origin and before and after else None,
            like=before,
            mode=file.mode,
            makes_link=file.link if before else None,
        )

    def _text(self, digest: str | None, form: tuple[str, str] | None) -> TextFile | None:
        """Raises: OSError, ValueError, TextError."""
        if digest is None:
            return None
        path = self._objects / digest
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != digest:
            raise ValueError(f"{path} holds other bytes")
        if form is None:  # of a checkpoint that is older than forms
            return TextFile.decode(data)
        encoding, bom = form
        return TextFile.decode_as(data, encoding, bytes.fromhex(bom))

    def _kept(self, change: FileChange) -> _File:
        before, before_form = self._put(change.before and change.before.text, change.before)
        after, after_form = self._put(change.after, change.like or change.before)
        return _File(
            path=change.path,
            moved_from=change.moved_from,
            before=before,
            before_form=before_form,
            after=after,
            after_form=after_form,
            mode=change.mode,
            link=change.link,
        )

    def _put(
        self, text: str | None, like: TextFile | None
    ) -> tuple[str | None, tuple[str, str] | None]:
        """Its digest and form. A text that its file's encoding lacks, which was not saved yet, is kept
        as UTF-8."""
        if text is None:
            return None, None
        form = like or _UTF_8
        try:
            data = form.encode(text)
        except TextError:
            form = _UTF_8
            data = form.encode(text)
        return self._put_bytes(data), (form.encoding, form.bom.hex())

    def _put_bytes(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        path = self._objects / digest
        if not path.exists() or path.stat().st_size != len(data):
            write_whole(path, data, _MODE)
        return digest

    def _path(self, id: str) -> Path:
        if Path(id).name != id:
            raise CheckpointError(f"{id!r} is no checkpoint")
        return self._folder / f"{id}.json"

    def _manifests(self) -> "list[Path]":
        # Runs' ids sort by time.
        return sorted(self._folder.glob("*.json"), reverse=True)

    def _readable(self) -> Iterator[tuple[Path, _Manifest]]:
        """With what they say, the newest first."""
        for path in self._manifests():
            try:
                yield path, _manifest(path)
            except CheckpointError as error:
                if path.exists():  # else another process has dropped it meanwhile
                    logger.warning("left out: %s", error)

    def _prune(self) -> None:
        for path in self._manifests()[self._max_checkpoints :]:
            path.unlink(missing_ok=True)
        self._collect()
        readable = [path for path, _ in self._readable()]
        # Those that cannot be read keep all bytes, and leave first.
        leaving = [path for path in self._manifests() if path not in readable] + readable[:0:-1]
        while leaving and self._size() > self._max_bytes:
            leaving.pop(0).unlink(missing_ok=True)
            self._collect()

    def _collect(self) -> None:
        """Remove the bytes that no manifest names; none as long as it is not known what one names."""
        manifests = dict(self._readable())
        if any(path not in manifests for path in self._manifests()):
            return
        named = {
            digest
            for manifest in manifests.values()
            for file in manifest.files
            for digest in (file.before, file.after)
        }
        for path in self._objects.glob("*"):
            if path.name not in named:
                path.unlink(missing_ok=True)

    def _size(self) -> int:
        return sum(path.stat().st_size for path in self._objects.glob("*"))


def _manifest(path: Path) -> _Manifest:
    """Raises: CheckpointError."""
    try:
        return cattrs.structure(json.loads(path.read_bytes()), _Manifest)
    except FileNotFoundError as error:
        raise CheckpointError(f"there is no checkpoint {path.stem}; it may be too old") from error
    except (OSError, ValueError, RecursionError, cattrs.BaseValidationError) as error:
        raise CheckpointError(f"the checkpoint {path} cannot be read: {error}") from error
