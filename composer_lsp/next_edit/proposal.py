"""What is proposed as the next edit, and what finders look at to find it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol

from composer_lsp.completion.edit_history import Edit
from composer_lsp.completion.lines import split_lines
from composer_lsp.completion.request import DocumentSnapshot
from composer_lsp.next_edit.reader import read_source
from composer_lsp.next_edit.source import Source

_NEAR_EDITS = 12

Kind = Literal["rename", "argument", "repeat", "import", "diagnostic"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Gap:
    """A text that the model is to write, between two that are known."""

    before: str = ""
    after: str = ""
    cue: str = ""
    """What the model is shown in front of the gap beside that, such as the parameter's name."""
    hint: str = ""
    """What the model is told above the line, as comments; may have several lines."""
    about: str = ""
    """Code that tells what is wanted, such as the function that is called."""
    until: Literal["argument", "line"] = "argument"
    """Where it ends: at the comma or bracket behind an argument, or with the line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """Replace `document.text[start:end]` by `text`."""

    kind: Kind
    document: DocumentSnapshot
    start: int
    end: int
    text: str
    """Without what `gap` holds, if there is one."""
    title: str
    """For people, such as "Rename total to amount"."""
    change: tuple[str, ...]
    """What it follows from; dismissed proposals of one change do not come back."""
    gap: Gap | None = None

    @property
    def line(self) -> int:
        return line_of(self.document.text, self.start)

    @property
    def old_text(self) -> str:
        return self.document.text[self.start : self.end]


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnostic:
    line: int
    message: str
    is_error: bool = True


class OtherFiles(Protocol):
    """The rest of the workspace. Nothing of it is a hidden file's."""

    async def mentioning(self, name: str) -> Sequence[DocumentSnapshot]:
        """Other files in which an identifier occurs, as they are in the editor, else on the disk. Such
        as are not open have version -1. Empty where no index answers in time."""
        ...

    async def definitions(self, name: str) -> int:
        """In how many files it is defined beside those that were just edited, as far as is known."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Situation:
    """What the user did, and where the cursor is."""

    document: DocumentSnapshot
    offset: int
    edits: Sequence[Edit]
    """The newest last; of open documents, and of none that is hidden."""
    snapshots: Mapping[str, DocumentSnapshot]
    """Of the documents of the edits, by URI."""
    diagnostics: Sequence[Diagnostic] = ()
    is_ended: Callable[[], bool] = lambda: False
    """Nobody waits for the answer any more."""

    @property
    def near_edits(self) -> Sequence[Edit]:
        """Those that something is found by; each costs a reading of its document without it."""
        return self.edits[-_NEAR_EDITS:]

    def sources(self, document: DocumentSnapshot) -> Source | None:
        """The document's names; a text that was read before is not read again, and none once the search
        has ended."""
        return None if self.is_ended() else source_of(document.text, document.language_id)

    def before(self, edit: Edit) -> DocumentSnapshot:
        """The edit's document as it would be without it."""
        return without(self.snapshots[edit.uri], edit)


@lru_cache(maxsize=16)
def source_of(text: str, language_id: str) -> Source | None:
    """As `read_source`; a text that was read before is not read again."""
    return read_source(text, language_id)


def without(document: DocumentSnapshot, edit: Edit) -> DocumentSnapshot:
    lines = split_lines(document.text)
    end = "\r\n" if "\r\n" in document.text else "\n"
    old = [line + end for line in edit.old_lines]
    if edit.end_line >= len(lines) and old:
        old[-1] = edit.old_lines[-1]
    text = "".join([*lines[: edit.first_line], *old, *lines[edit.end_line :]])
    return DocumentSnapshot(
        uri=document.uri, version=-1, text=text, language_id=document.language_id
    )


def line_of(text: str, offset: int) -> int:
    head = text[:offset]
    return head.count("\n") + head.count("\r") - head.count("\r\n")
