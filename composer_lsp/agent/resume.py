"""Goes on with a run from its transcript: one that was killed, failed, was stopped or came to a
limit, and a finished one with something new to do."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

from composer_lsp.agent.agent import Agent, Finished
from composer_lsp.agent.conversation import missing_results
from composer_lsp.agent.edits.anchor import AnchorError, carry_over
from composer_lsp.agent.edits.change_set import FileChange, Snapshot
from composer_lsp.agent.edits.hunks import find_hunks
from composer_lsp.agent.edits.text_file import TextFile
from composer_lsp.agent.events import EditsEvent, Event, NoticeEvent
from composer_lsp.agent.ledger import CommandRun
from composer_lsp.agent.model import Message
from composer_lsp.agent.prompt.system import Mode
from composer_lsp.agent.run import GOES_ON, Outcome
from composer_lsp.agent.state import restore_reads
from composer_lsp.agent.tools.context import PlanStep, ToolContext
from composer_lsp.agent.transcript import Transcript
from composer_lsp.agent.workspace.paths import PathError
from composer_lsp.agent.workspace.workspace import WorkspaceError


class ResumeError(Exception):
    """A run cannot go on; the text says why and what can be done."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Restored:
    """What a run goes on with. The context has its changes, reads, commands and plan again."""

    past: Sequence[Message]
    """In the transcript already."""
    new: Sequence[Message]
    conflicts: Mapping[str, str]
    """Files whose changes are not staged any more, and why."""
    unread: Sequence[str]
    """Files that were read and are others now."""


async def resume_run(
    agent: Agent,
    path: Path,
    text: str,
    emit: Callable[[Event], None],
    *,
    context: ToolContext | None = None,
) -> Finished:
    """Go on where the transcript ends, with what the user says now, which may be nothing unless the
    run had finished. Its changes are pending again.

    Raises: TranscriptError, also where another run writes it, ResumeError.
    """
    transcript = Transcript.read(path)
    mode = _mode(transcript)
    transcript.on_loss = lambda text: emit(NoticeEvent(text))
    transcript.reopen()
    context = context or agent.context()
    try:
        restored = await restore(transcript, context, text)
        for name, why in restored.conflicts.items():
            emit(NoticeEvent(f"the change to {name} is not pending any more: {why}"))
        if paths := [change.path for change in context.changes.changes()]:
            emit(EditsEvent(tuple(paths)))
        transcript.add("resumed", request=text)
        outcome = await agent.converse(
            mode, context, transcript, emit, restored.new, past=restored.past
        )
    finally:
        transcript.close()
    return Finished(outcome=outcome, context=context, transcript=transcript)


def is_offered(transcript: Transcript) -> bool:
    """Whether it finished with changes that nobody has accepted so far."""
    end = transcript.last("end")
    is_finished = end is not None and end["status"] == "finished"
    return is_finished and not missing_results(transcript.context) and bool(_kept(transcript))


async def offer_kept(
    path: Path, emit: Callable[[Event], None], *, context: ToolContext
) -> Finished:
    """The changes of a finished run are pending again, and the model is not asked.

    Raises: TranscriptError, also where another run writes it, ResumeError where none can be made.
    """
    transcript = Transcript.read(path)
    with transcript.held():
        conflicts = await _restore_changes(_kept(transcript), context)
    for name, why in conflicts.items():
        emit(NoticeEvent(f"the change to {name} is not pending any more: {why}"))
    if not context.changes:
        raise ResumeError("none of the run's changes can be applied; say what to do next")
    end = transcript.last("end")
    text = end["text"] if end else ""
    return Finished(
        outcome=Outcome(status="finished", text=text), context=context, transcript=transcript
    )


async def restore(transcript: Transcript, context: ToolContext, text: str) -> Restored:
    """Fill a new context. Raises: ResumeError."""
    past = transcript.context
    if len(past) < 2:
        raise ResumeError("the run had not begun; ask again")
    new = missing_results(past)
    end = transcript.last("end")
    if not text and not new and end is not None and end["status"] == "finished":
        raise ResumeError("the run has finished; say what to do next")
    entry = transcript.last("changes")
    conflicts = await _restore_changes(entry["files"] if entry else (), context)
    unread = await restore_reads(transcript, context)
    _restore_course(transcript, context)
    told = _told(conflicts, unread, has_commands=bool(context.ledger.commands))
    if told or text or (new or past)[-1]["role"] == "assistant":
        said = "\n\n".join(filter(None, (told, text or GOES_ON)))
        new.append({"role": "user", "content": said})
    return Restored(past=past, new=new, conflicts=conflicts, unread=unread)


def _mode(transcript: Transcript) -> Mode:
    """Raises: ResumeError."""
    mode = transcript.header.mode
    if mode not in get_args(Mode):
        raise ResumeError(f"the run has the mode {mode!r}, which is none; ask again")
    return cast("Mode", mode)


def _kept(transcript: Transcript) -> list[Mapping[str, Any]]:
    """The files that were changed, without those whose change was accepted wholly."""
    entry = transcript.last("changes")
    accepted: defaultdict[str, set[int]] = defaultdict(set)
    for each in transcript.entries:
        if each["kind"] == "changes":
            accepted.clear()
        elif each["kind"] == "verdict":
            accepted[each["path"]] |= set(each["accepted"])
    return [
        file
        for file in (entry["files"] if entry else ())
        if file["path"] not in accepted
        or len(accepted[file["path"]]) < len(find_hunks(file["before"] or "", file["after"] or ""))
    ]


async def _restore_changes(
    files: Iterable[Mapping[str, Any]], context: ToolContext
) -> dict[str, str]:
    """Why some are not pending again, by path."""
    conflicts: dict[str, str] = {}
    for file in files:
        try:
            change = await _change(file, context)
        except (AnchorError, PathError, WorkspaceError) as error:
            conflicts[file["path"]] = str(error)
            continue
        if change is not None:
            context.changes.add(change)
            context.ledger.edited()
    return conflicts


async def _change(file: Mapping[str, Any], context: ToolContext) -> FileChange | None:
    """Over what the file is now; None: it is as it should be already. Raises: AnchorError, PathError,
    WorkspaceError."""
    path, origin, after = file["path"], file["moved_from"], file["after"]
    now = await _now(path, context)
    source = await _now(origin, context) if origin else now
    # Transcripts were once without it.
    link = file.get("link", source.link if after is None or origin else None)
    text, source_text = _text(now), _text(source)
    if text == after and (not origin or source_text is None):
        return None
    if origin and text is not None:
        raise AnchorError("it exists by now")
    if file["before"] is not None and source_text is None:
        raise AnchorError("it is gone")
    if link != source.link and source_text is not None:
        raise AnchorError("it is a link by now, or leads elsewhere")
    if source_text != file["before"]:
        if file["before"] is None:
            raise AnchorError("it exists by now")
        if after is None:
            raise AnchorError("it changed meanwhile")
        after = carry_over(file["before"], after, source_text or "")
    return FileChange(
        path=path,
        before=source.file,
        after=after,
        version=source.version,
        moved_from=origin,
        like=_form(file.get("like")),
        mode=source.mode if file.get("mode") is None else file["mode"],
        link=link,
    )


def _form(kept: Sequence[str] | None) -> TextFile | None:
    """As `Transcript.add_changes` writes it."""
    if kept is None:
        return None
    encoding, bom = kept
    return TextFile(text="", encoding=encoding, bom=bytes.fromhex(bom))


async def _now(path: str, context: ToolContext) -> Snapshot:
    return await context.snapshot(context.workspace.paths.locate(path))


def _text(snapshot: Snapshot) -> str | None:
    return snapshot.file.text if snapshot.file else None


def _restore_course(transcript: Transcript, context: ToolContext) -> None:
    for entry in _states(transcript):
        for command in entry["commands"]:
            context.ledger.ran(CommandRun(**command))
        context.plan = tuple(PlanStep(**step) for step in entry["plan"])
    # What else happened meanwhile is not known: tests have to pass again.
    context.ledger.edited()


def _states(transcript: Transcript) -> list[Mapping[str, Any]]:
    return [entry for entry in transcript.entries if entry["kind"] == "state"]


def _told(conflicts: Mapping[str, str], unread: Sequence[str], *, has_commands: bool) -> str:
    """What the model does not know of the time between."""
    parts: list[str] = []
    if conflicts:
        listed = "\n".join(f"- {path}: {why}" for path, why in conflicts.items())
        parts.append(f"Your changes to these files are lost; make them anew:\n{listed}")
    if unread:
        parts.append(f"These files are others now; read them again: {', '.join(unread)}.")
    if parts and has_commands:
        parts.append("Commands have to be run again before you say what came of them.")
    return "\n\n".join(parts)
