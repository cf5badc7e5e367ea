"""What happened in a run, as JSON, one object a line: to resume it, to show it, to learn from it.

The first line is the header: the request and what the workspace was. Every other line has a `kind`:
`message` (as chat requests have it; an assistant's with `usage`, and `tokens` where the engine gives
them), `result` (a call's, with its duration), `event`, `changes` (the files changed so far), `verdict`
(hunks accepted and rejected), `end`.
"""

import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from composer_lsp.agent.edits.change_set import FileChange
from composer_lsp.agent.model import Message, Reply

FORMAT = 1
"""Of the file; another one is not resumed."""


class TranscriptError(Exception):
    """A file is no transcript that can be read; the text names it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    id: str
    mode: str
    request: str
    roots: Sequence[str]
    model: str = ""
    began: float = 0.0
    """Seconds since 1970."""
    base_commit: str = ""
    """Empty where there is no repository."""
    dirty_diff: str = ""
    """What `git diff` said against it, before the run."""


@dataclass(kw_only=True)
class Transcript:
    """Written as it grows; what was added is on the disk when `add` returns."""

    header: Header
    entries: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    file: IO[str] | None = None

    @classmethod
    def begin(cls, folder: Path, header: Header) -> "Transcript":
        """Raises: OSError."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(
            folder / f"{header.id}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600
        )
        transcript = cls(header=header, file=os.fdopen(descriptor, "w", encoding="utf-8"))
        transcript._write({"kind": "header", "format": FORMAT, **asdict(header)})
        return transcript

    @classmethod
    def read(cls, path: Path) -> "Transcript":
        """Of a run that was killed, the last line may be half written, and is left out. Raises:
        TranscriptError."""
        try:
            lines: list[Mapping[str, Any]] = list(_objects(path))
        except OSError as error:
            raise TranscriptError(f"{path} cannot be read: {error.strerror}") from error
        if not lines or lines[0].get("format") != FORMAT:
            raise TranscriptError(f"{path} is no transcript of this version")
        names = Header.__dataclass_fields__
        header = Header(**{name: value for name, value in lines[0].items() if name in names})
        return cls(header=header, entries=lines[1:])

    def resume(self, path: Path) -> None:
        """Go on writing where it ends. Raises: OSError."""
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        self.file = path.open("r+", encoding="utf-8")
        self.file.truncate(len(whole))
        self.file.seek(0, os.SEEK_END)

    @property
    def messages(self) -> list[Message]:
        return [entry["message"] for entry in self.entries if entry["kind"] == "message"]

    def add_message(self, message: Message, reply: Reply | None = None) -> None:
        entry: dict[str, Any] = {"message": dict(message)}
        if reply is not None:
            entry["usage"] = asdict(reply.usage)
            entry["finish_reason"] = reply.finish_reason
            if reply.tokens:
                entry["tokens"] = [asdict(token) for token in reply.tokens]
        self.add("message", **entry)

    def add_changes(self, changes: Sequence[FileChange]) -> None:
        self.add(
            "changes",
            files=[
                {
                    "path": change.path,
                    "moved_from": change.moved_from,
                    "before": None if change.before is None else change.before_text,
                    "after": change.after,
                }
                for change in changes
            ],
        )

    def add(self, kind: str, **fields: Any) -> None:
        entry = {"kind": kind, "at": round(time.time(), 3), **fields}
        self.entries.append(entry)
        self._write(entry)

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None

    def _write(self, entry: Mapping[str, Any]) -> None:
        if self.file is not None:
            # ASCII: a lone surrogate of a file's text is JSON, and no UTF-8.
            self.file.write(json.dumps(entry) + "\n")
            self.file.flush()


def new_id() -> str:
    """Sorts by time."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                return
            try:
                entry: object = json.loads(line)
            except ValueError as error:
                raise TranscriptError(f"{path} is no transcript: {error}") from error
            if not isinstance(entry, dict):
                raise TranscriptError(f"{path} is no transcript: a line holds no object")
            yield cast("dict[str, Any]", entry)
