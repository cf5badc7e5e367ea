"""Sessions that can be loaded again: which folders they were of, and which transcripts they have.

A file each, `ID.json`, in a folder of its own below the state folder; what was said is in the
transcripts.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cattrs

from composer_lsp.agent.workspace.directory import write_whole

_ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
"""As `new_id` of the transcripts makes them."""
_MODE = 0o600
MAX_SESSIONS = 200
"""The oldest leave."""


class SavedSessionError(Exception):
    """A session is not there, or cannot be read; the text names it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedSession:
    id: str
    cwd: str
    additional: tuple[str, ...]
    """Further folders."""
    mode: str
    title: str
    """The first request's first line."""
    updated: str
    """When it was last used, as ISO 8601 writes it."""
    transcripts: tuple[str, ...]
    """Their ids, in order."""


class SavedSessions:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, session: SavedSession) -> None:
        """Raises: OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        data = json.dumps(asdict(session)).encode()
        write_whole(self._folder / f"{session.id}.json", data, _MODE)
        for path in self._files()[MAX_SESSIONS:]:
            path.unlink(missing_ok=True)

    def read(self, id: str) -> SavedSession:
        """Raises: SavedSessionError."""
        # The id is the client's, and becomes part of a path.
        if not _ID.fullmatch(id):
            raise SavedSessionError(f"there is no session {id!r}")
        return self._read(self._folder / f"{id}.json")

    def list(self, cwd: str | None) -> "Sequence[SavedSession]":
        """The newest first; of one folder, or all. What cannot be read is left out."""
        found: list[SavedSession] = []
        for path in self._files():
            try:
                session = self._read(path)
            except SavedSessionError:
                continue
            if cwd is None or session.cwd == cwd:
                found.append(session)
        return sorted(found, key=lambda session: session.updated, reverse=True)

    def _files(self) -> "Sequence[Path]":
        """The newest sessions first: their ids sort by time."""
        return sorted(self._folder.glob("*.json"), reverse=True)

    def _read(self, path: Path) -> SavedSession:
        try:
            value: Any = json.loads(path.read_bytes())
            return cattrs.structure(value, SavedSession)
        except FileNotFoundError as error:
            raise SavedSessionError(f"there is no session {path.stem!r}") from error
        except (OSError, ValueError, cattrs.BaseValidationError) as error:
            raise SavedSessionError(f"the session {path.stem} cannot be read: {path}") from error
