"""What happened in a run, as JSON, one object a line: to resume it, to show it, to learn from it.

The first line is the header: the request and what the workspace was. Every other line has a `kind`:

- `tools`: the definitions that a run offers;
- `message`, as chat requests have it. An assistant's with `usage`, `finish_reason`, `sampling` (how it
  was asked for), `tokens` where the engine gives them, and `written` and `written_arguments` where
  the model wrote something else than what it is shown of it later;
- `context`: all messages that the next request has, when old ones were shortened, and at the beginning
  of a run that goes on from another one's;
- `result`: a call's, with its duration;
- `changes`: the files changed so far; `like`: the encoding and the byte order mark (hexadecimal) of one
  that takes others than it had;
- `state`: lines read, with the digest of the text that they are of, commands, the plan;
- `resumed`, `end`, and `verdict`: which hunks of a file the user has accepted and rejected.
"""

import json
import logging
import os
import secrets
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from composer_lsp.agent.edits.change_set import FileChange
from composer_lsp.agent.model import Message, Reply
from composer_lsp.agent.transcript_shape import is_entry, is_header

logger = logging.getLogger(__name__)

FORMAT = 1
"""Of the file; another one is not resumed."""


class TranscriptError(Exception):
    """A file is no transcript that can be read, or another run writes it; the text names it."""


def _log(text: str) -> None:
    logger.warning("%s", text)


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
    """Written as it grows; what was added is on the disk when `add` returns. Where it cannot be written
    any more, it goes on in memory. No other run goes on with one that is open (on Windows nothing keeps
    them from it)."""

    header: Header
    entries: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    file: IO[str] | None = None
    path: Path | None = None
    """None: it is kept in memory alone."""
    on_loss: Callable[[str], None] = _log
    """Told once, when it is kept in memory alone from here on."""

    @classmethod
    def begin(
        cls, folder: Path, header: Header, on_loss: Callable[[str], None] = _log
    ) -> "Transcript":
        """A new file, `ID.jsonl`, locked until `close`. Where it cannot be written, `on_loss` is told and
        it is kept in memory alone."""
        path = folder / f"{header.id}.jsonl"
        transcript = cls(header=header, path=path, on_loss=on_loss)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            transcript._lose(error)
            return transcript
        transcript.file = os.fdopen(descriptor, "w", encoding="utf-8")
        _lock(transcript.file)
        transcript._write({"kind": "header", "format": FORMAT, **asdict(header)})
        if transcript.path is None:
            with suppress(OSError):
                path.unlink()
        return transcript

    @classmethod
    def read(cls, path: Path) -> "Transcript":
        """Of a run that was killed, the last line may be half written, and is left out. Each line holds
        what `transcript_shape` says. Raises: TranscriptError."""
        try:
            lines: list[Mapping[str, Any]] = list(_objects(path))
        except OSError as error:
            raise TranscriptError(f"{path} cannot be read: {error.strerror}") from error
        if not lines or lines[0].get("format") != FORMAT:
            raise TranscriptError(f"{path} is no transcript of this version")
        _check(path, lines)
        names = Header.__dataclass_fields__
        header = Header(**{name: value for name, value in lines[0].items() if name in names})
        return cls(header=header, entries=lines[1:], path=path)

    def reopen(self) -> None:
        """Go on writing where it ends, with what others have added meanwhile. Raises: TranscriptError
        where another run writes it."""
        assert self.path is not None, "a transcript in memory has no end"
        try:
            self.file = self.path.open("r+", encoding="utf-8")
            _lock(self.file)
            data = self.path.read_bytes()
            whole = data[: data.rfind(b"\n") + 1]
            self.file.truncate(len(whole))
            self.file.seek(0, os.SEEK_END)
        except BlockingIOError as error:
            self.close()
            raise TranscriptError(
                f"the run {self.header.id} is going on elsewhere; stop it there, or answer what it asks"
            ) from error
        except OSError as error:
            self._lose(error)
            return
        if whole.count(b"\n") != 1 + len(self.entries):
            lines = list(_objects(self.path))
            _check(self.path, lines)
            self.entries[:] = lines[1:]

    @contextmanager
    def held(self) -> Generator[None, None, None]:
        """Open again, so that no other run goes on with it meanwhile. Raises: TranscriptError where one
        does."""
        if self.path is not None:
            self.reopen()
        try:
            yield
        finally:
            self.close()

    @property
    def messages(self) -> list[Message]:
        """All that was said."""
        return [entry["message"] for entry in self.entries if entry["kind"] == "message"]

    @property
    def context(self) -> list[Message]:
        """What the next request would hold: old messages may be shortened."""
        found: list[Message] = []
        for entry in self.entries:
            if entry["kind"] == "message":
                found.append(entry["message"])
            elif entry["kind"] == "context":
                found = list(entry["messages"])
        return found

    def last(self, kind: str) -> Mapping[str, Any] | None:
        return next((entry for entry in reversed(self.entries) if entry["kind"] == kind), None)

    @property
    def status(self) -> str:
        """How the run ended; `running`, or `cut off` where nobody writes it any more. On Windows nobody
        can tell the two apart, and it is `cut off`."""
        kinds = ("end", "resumed")
        entry = next((each for each in reversed(self.entries) if each["kind"] in kinds), None)
        if entry is not None and entry["kind"] == "end":
            return entry["status"]
        return "running" if self.path is not None and _is_locked(self.path) else "cut off"

    def add_message(self, message: Message, reply: Reply | None = None) -> None:
        entry: dict[str, Any] = {"message": dict(message)}
        if reply is not None:
            entry |= _of_reply(reply)
        self.add("message", **entry)

    def add_changes(self, changes: Sequence[FileChange]) -> None:
        """All that is staged now: the last of these entries holds."""
        self.add(
            "changes",
            files=[
                {
                    "path": change.path,
                    "moved_from": change.moved_from,
                    "before": None if change.before is None else change.before_text,
                    "after": change.after,
                    "like": change.like and [change.like.encoding, change.like.bom.hex()],
                    "mode": change.mode,
                    "link": change.link,
                }
                for change in changes
            ],
        )

    def add_verdict(self, path: str, *, accepted: Sequence[int], rejected: Sequence[int]) -> None:
        """What the user made of the hunks of a file, by their number in `FileChange.hunks`. Also
        after `close`. Raises: TranscriptError where another run writes it by now."""
        is_closed = self.file is None and self.path is not None
        if is_closed:
            self.reopen()
        self.add("verdict", path=path, accepted=list(accepted), rejected=list(rejected))
        if is_closed:
            self.close()

    def add_verdicts(self, changes: Sequence[FileChange], *, is_accepted: bool) -> None:
        """The same for all hunks of all files. Raises: as `add_verdict`."""
        for change in changes:
            hunks = range(len(change.hunks))
            accepted, rejected = (hunks, ()) if is_accepted else ((), hunks)
            self.add_verdict(change.path, accepted=accepted, rejected=rejected)

    def add(self, kind: str, **fields: Any) -> None:
        entry = {"kind": kind, "at": round(time.time(), 3), **fields}
        self.entries.append(entry)
        self._write(entry)

    def close(self) -> None:
        file, self.file = self.file, None
        if file is not None:
            # What `add` has written is on the disk; there is nothing else to be lost.
            with suppress(OSError):
                file.close()

    def _write(self, entry: Mapping[str, Any]) -> None:
        if self.file is None:
            return
        # ASCII: a lone surrogate of a file's text is JSON, and no UTF-8.
        line = json.dumps(entry) + "\n"
        try:
            self.file.write(line)
            self.file.flush()
        except OSError as error:
            self._lose(error)

    def _lose(self, error: OSError) -> None:
        path, self.path = self.path, None
        self.close()
        self.on_loss(
            f"The transcript cannot be kept ({error.filename or path}: {error.strerror}). The run goes "
            "on without it, and cannot be resumed when it has ended."
        )


def _of_reply(reply: Reply) -> dict[str, Any]:
    entry: dict[str, Any] = {"usage": asdict(reply.usage), "finish_reason": reply.finish_reason}
    if reply.sampling is not None:
        entry["sampling"] = asdict(reply.sampling)
    if reply.tokens:
        entry["tokens"] = [asdict(token) for token in reply.tokens]
    if reply.written != reply.text:
        entry["written"] = reply.written
    written = [call.arguments for call in reply.calls]
    if written != [each["function"]["arguments"] for each in reply.message.get("tool_calls", ())]:
        entry["written_arguments"] = written
    return entry


def transcripts_in(state: Path) -> Path:
    """Their folder, of the user's state folder."""
    return state / "transcripts"


def new_id() -> str:
    """Sorts by time."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"


def _lock(file: IO[str], *, shared: bool = False) -> None:
    """Until it is closed. Raises: BlockingIOError where it is locked."""
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:  # a file system without locks
        logger.warning("%s cannot be locked: %s", file.name, error.strerror)


def _is_locked(path: Path) -> bool:
    """Whether a run has it open."""
    try:
        with path.open() as file:
            _lock(file, shared=True)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _check(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Raises: TranscriptError for one that was changed or damaged."""
    header, *entries = lines
    if not is_header(header):
        raise TranscriptError(f"{path} is damaged: line 1 is no header of a run")
    for number, entry in enumerate(entries, 2):
        if not is_entry(entry):
            raise TranscriptError(f"{path} is damaged: line {number} lacks what its kind has")


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                return
            try:
                entry: object = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise TranscriptError(f"{path} is no transcript: {error}") from error
            if not isinstance(entry, dict):
                raise TranscriptError(f"{path} is no transcript: a line holds no object")
            yield cast("dict[str, Any]", entry)
