"""Changes to files as one LSP workspace edit."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lsprotocol import types

from composer_lsp.agent.edits.hunks import find_hunks
from composer_lsp.agent.edits.lines import split_lines
from composer_lsp.server.documents import TextBuffer
from composer_lsp.server.positions import PositionEncoding

_ANNOTATION = "composer"

DocumentChange = types.TextDocumentEdit | types.CreateFile | types.RenameFile | types.DeleteFile


@dataclass(frozen=True, kw_only=True, slots=True)
class TextChange:
    """A file as it is now and as it is to be. `before` or `after` None: it is created, or deleted."""

    path: str
    """Absolute."""
    before: str | None
    after: str | None
    version: int | None = None
    """Of the open document that `before` is the text of; None: it is not open."""
    moved_from: str | None = None
    """Absolute; `before` is the text there."""


def workspace_edit(
    changes: Sequence[TextChange],
    encoding: PositionEncoding,
    *,
    label: str,
    is_annotated: bool,
    needs_confirmation: bool = False,
) -> types.WorkspaceEdit:
    """With versioned `documentChanges`. `is_annotated`: the client understands annotations."""
    listed = [each for change in changes for each in _of(change, encoding, is_annotated)]
    annotations = None
    if is_annotated:
        annotation = types.ChangeAnnotation(label=label, needs_confirmation=needs_confirmation)
        annotations = {_ANNOTATION: annotation}
    return types.WorkspaceEdit(document_changes=listed, change_annotations=annotations)


def plain_edit(changes: Sequence[TextChange], encoding: PositionEncoding) -> types.WorkspaceEdit:
    """For clients without `documentChanges`, of texts that are changed alone: nothing is created,
    renamed or deleted by it."""
    return types.WorkspaceEdit(
        changes={
            _uri(change.path): text_edits(change.before, change.after, encoding)
            for change in changes
            if change.before is not None and change.after is not None
        }
    )


def text_edits(before: str, after: str, encoding: PositionEncoding) -> list[types.TextEdit]:
    """One edit a hunk, of whole lines, in order."""
    lines = split_lines(before)
    buffer = TextBuffer(before, encoding)
    edits: list[types.TextEdit] = []
    for hunk in find_hunks(before, after):
        start = sum(map(len, lines[: hunk.start]))
        end = start + sum(map(len, hunk.old))
        place = types.Range(buffer.position_at(start), buffer.position_at(end))
        edits.append(types.TextEdit(range=place, new_text="".join(hunk.new)))
    return edits


def _of(change: TextChange, encoding: PositionEncoding, is_annotated: bool) -> list[DocumentChange]:
    uri = _uri(change.path)
    annotation = _ANNOTATION if is_annotated else None
    if change.after is None:
        return [types.DeleteFile(uri=uri, annotation_id=annotation)]
    found: list[DocumentChange] = []
    if change.before is None:
        found.append(types.CreateFile(uri=uri, annotation_id=annotation))
    elif change.moved_from is not None:
        old = _uri(change.moved_from)
        found.append(types.RenameFile(old_uri=old, new_uri=uri, annotation_id=annotation))
    edits = text_edits(change.before or "", change.after, encoding)
    if edits:
        # After a rename the client gives the document a version of its own.
        version = None if change.moved_from else change.version
        document = types.OptionalVersionedTextDocumentIdentifier(uri=uri, version=version)
        found.append(types.TextDocumentEdit(document, _annotated(edits, annotation)))
    return found


def _annotated(
    edits: Sequence[types.TextEdit], annotation: str | None
) -> list[types.TextEdit | types.AnnotatedTextEdit | types.SnippetTextEdit]:
    if annotation is None:
        return list(edits)
    return [
        types.AnnotatedTextEdit(annotation_id=annotation, range=edit.range, new_text=edit.new_text)
        for edit in edits
    ]


def _uri(path: str) -> str:
    return Path(path).as_uri()
