"""An installed model, and the manifest that describes it on disk."""

import json
import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from composer_inference.models.catalog import Companion
from composer_inference.models.files import write_durably

logger = logging.getLogger(__name__)

MANIFEST = "manifest.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class InstalledFile:
    path: Path
    size_bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class InstalledModel:
    name: str
    path: Path
    size_bytes: int
    """Of the file; `total_bytes` counts the companions as well."""
    sha256: str
    companions: tuple[Companion, ...] = ()
    """Further files of the model, in the same folder."""
    source: str
    """Where the bytes came from, in words."""
    registered: bool = False
    """The file is the user's own and stays where it is."""

    @property
    def files(self) -> tuple[InstalledFile, ...]:
        """The model's own file, then its companions."""
        own = InstalledFile(path=self.path, size_bytes=self.size_bytes, sha256=self.sha256)
        others = (
            InstalledFile(
                path=self.path.with_name(companion.file_name),
                size_bytes=companion.size_bytes,
                sha256=companion.sha256,
            )
            for companion in self.companions
        )
        return (own, *others)

    @property
    def total_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    @property
    def problem(self) -> str | None:
        """What is plainly wrong with a file, and the command that mends it; None if nothing is.
        Only the size is looked at: `ModelStore.verify` reads every byte."""
        return next((problem for file in self.files if (problem := self._problem(file))), None)

    def _problem(self, file: InstalledFile) -> str | None:
        try:
            size_bytes = file.path.stat().st_size
        except FileNotFoundError:
            return f"the file of {self.name} has vanished: {file.path}; {self._way_out()}"
        except OSError as error:
            return f"the file of {self.name} cannot be read: {file.path}: {error.strerror}"
        if size_bytes != file.size_bytes:
            return (
                f"the file of {self.name} has {size_bytes:,} bytes instead of "
                f"{file.size_bytes:,}: {file.path}; {self._way_out()}"
            )
        return None

    def _way_out(self) -> str:
        if self.registered:
            return (
                f"register it again: composer-lsp model pull --file PATH --name {self.name}, "
                f"or forget it: composer-lsp model remove {self.name}"
            )
        return f"fetch it again: composer-lsp model pull {self.name}"


def read_manifest(folder: Path) -> InstalledModel | None:
    """The model described in the folder, None if there is none or the description is damaged."""
    path = folder / MANIFEST
    try:
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return InstalledModel(
            name=folder.name,
            path=folder / value["path"],  # an absolute path stays as it is
            size_bytes=int(value["size_bytes"]),
            sha256=str(value["sha256"]),
            companions=tuple(Companion(**entry) for entry in value.get("companions", [])),
            source=str(value["source"]),
            registered=bool(value["registered"]),
        )
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        logger.warning("%s does not describe a model, which is ignored: %s", path, error)
        return None


def write_manifest(folder: Path, model: InstalledModel) -> None:
    """Describe the model in the folder, which is made when it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    # A file of our own is named relative to its folder, so that the data folder can move.
    path = str(model.path) if model.registered else model.path.name
    write_durably(folder / MANIFEST, json.dumps({**asdict(model), "path": path}, indent=2))
