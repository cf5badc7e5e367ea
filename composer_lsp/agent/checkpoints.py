"""What runs have changed, kept so that it can be taken back. Nothing of git is touched.

A checkpoint is a manifest and the files' bytes before and after, by their SHA-256 and so once each:

    FOLDER/ID.json     {"label", "at", "files": [{"path", "moved_from", "before", "before_form",
                       "after", "after_form", "mode", "link"}]}
    FOLDER/objects/    bytes

A form is the encoding and the byte order mark (hexadecimal) that the bytes are a text in: what was
guessed once could be guessed otherwise of another text. The oldest checkpoints leave when there are too many or they are too large.
"""

import hashlib
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from composer_lsp.agent.edits.change_set import FileChange
from composer_lsp.agent.edits.text_file import TextError, TextFile
from composer_lsp.agent.workspace.directory import write_whole

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
        """Keep what is about to be applied. Raises: OSError, TextError."""
        self._objects.mkdir(mode=0o700, parents=True, exist_ok=True)
        files = [
            {
                "path": change.path,
                "moved_from": change.moved_from,
                **self._kept("before", change.before and change.before.text, change.before),
                **self._kept("after", change.after, change.like or change.before),
                "mode": change.mode,
                "link": change.link,
            }
            for change in changes
        ]
        manifest = {"label": label, "at": time.time(), "files": files}
        write_whole(self._folder / f"{id}.json", json.dumps(manifest).encode(), _MODE)
        self._prune()

    def list(self) -> "Sequence[Checkpoint]":
        """The newest first."""
        found: list[Checkpoint] = []
        for path in self._manifests():
            manifest = self._manifest(path)
            found.append(
                Checkpoint(
                    id=path.stem,
                    label=manifest["label"],
                    at=manifest["at"],
                    paths=[file["path"] for file in manifest["files"]],
                )
            )
        return found

    def reversed(self, id: str) -> "Sequence[FileChange]":
        """The changes that take it back. Raises: CheckpointError."""
        return [
            change
            for file in self._manifest(self._path(id))["files"]
            for change in self._back(file)
        ]

    def drop(self, id: str) -> None:
        """After it was taken back."""
        self._path(id).unlink(missing_ok=True)
        self._collect()

    def _back(self, file: dict[str, Any]) -> Iterable[FileChange]:
        before, after = self._text(file, "before"), self._text(file, "after")
        origin = file["moved_from"]
        yield FileChange(
            path=origin or file["path"],
            before=after,
            after=before.text if before else None,
            moved_from=file["path"] if origin and before and after else None,
            like=before,
            mode=file["mode"],
            makes_link=file.get("link") if before else None,
        )

    def _text(self, file: dict[str, Any], name: str) -> TextFile | None:
        digest, form = file[name], file.get(f"{name}_form")
        if digest is None:
            return None
        try:
            data = (self._objects / digest).read_bytes()
            if form is None:  # of a checkpoint that is older than forms
                return TextFile.decode(data)
            encoding, bom = form
            return TextFile.decode_as(data, encoding, bytes.fromhex(bom))
        except OSError as error:
            raise CheckpointError(f"the checkpoint is not whole: {error.strerror}") from error
        except TextError as error:
            raise CheckpointError(f"the checkpoint of {file['path']} is broken: {error}") from error

    def _kept(self, name: str, text: str | None, like: TextFile | None) -> dict[str, Any]:
        """Of the manifest. A text that its file's encoding lacks, which was not saved yet, is kept as
        UTF-8."""
        if text is None:
            return {name: None, f"{name}_form": None}
        form = like or _UTF_8
        try:
            data = form.encode(text)
        except TextError:
            form = _UTF_8
            data = form.encode(text)
        return {name: self._put(data), f"{name}_form": [form.encoding, form.bom.hex()]}

    def _put(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        if not (self._objects / digest).exists():
            write_whole(self._objects / digest, data, _MODE)
        return digest

    def _path(self, id: str) -> Path:
        if Path(id).name != id:
            raise CheckpointError(f"{id!r} is no checkpoint")
        return self._folder / f"{id}.json"

    def _manifest(self, path: Path) -> dict[str, Any]:
        try:
            return json.loads(path.read_bytes())
        except FileNotFoundError as error:
            raise CheckpointError(
                f"there is no checkpoint {path.stem}; it may be too old"
            ) from error
        except (OSError, ValueError) as error:
            raise CheckpointError(f"the checkpoint {path} cannot be read: {error}") from error

    def _manifests(self) -> "list[Path]":
        # Runs' ids sort by time.
        return sorted(self._folder.glob("*.json"), reverse=True)

    def _prune(self) -> None:
        for path in self._manifests()[self._max_checkpoints :]:
            path.unlink(missing_ok=True)
        self._collect()
        manifests = self._manifests()
        while len(manifests) > 1 and self._size() > self._max_bytes:
            manifests.pop().unlink(missing_ok=True)
            self._collect()

    def _collect(self) -> None:
        """Remove the bytes that no manifest names."""
        named = {
            digest
            for path in self._manifests()
            for file in self._manifest(path)["files"]
            for digest in (file["before"], file["after"])
        }
        for path in self._objects.glob("*"):
            if path.name not in named:
                path.unlink(missing_ok=True)

    def _size(self) -> int:
        return sum(path.stat().st_size for path in self._objects.glob("*"))
