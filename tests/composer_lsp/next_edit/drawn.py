"""Edits drawn in a test's text: `«old→new»` is what the user changed, `ˇ` the cursor, and the answer is
drawn as `⟦old→new⟧`."""

import re
import textwrap
from collections.abc import Mapping, Sequence

from composer_lsp.completion.edit_history import EditHistory
from composer_lsp.completion.request import DocumentSnapshot
from composer_lsp.completion.templates import FimPrompt
from composer_lsp.next_edit.content import Filled
from composer_lsp.next_edit.finder import next_edit
from composer_lsp.next_edit.proposal import Diagnostic, Proposal, Situation
from composer_lsp.server.documents import TextBuffer
from composer_lsp.server.positions import PositionEncoding

_EDIT = re.compile(r"«(.*?)→(.*?)»", re.DOTALL)


class Model:
    """Writes what it is told to, and keeps what it was asked."""

    def __init__(self, text: str = "", logprob: float | None = None) -> None:
        tokens = () if logprob is None else ((text, logprob),)
        self.answer = Filled(text=text, tokens=tokens)
        self.prompts: list[FimPrompt] = []

    async def infill(self, prompt: FimPrompt, *, max_tokens: int, stop: Sequence[str]) -> Filled:
        self.prompts.append(prompt)
        return self.answer


class Workspace:
    """Open documents, edited as drawn, and files that are not open."""

    def __init__(self, language_id: str = "python") -> None:
        self.language_id = language_id
        self.history = EditHistory()
        self.buffers: dict[str, TextBuffer] = {}
        self.files: dict[str, str] = {}
        self.offset = 0
        self.num_definitions = 0
        self.version = 1

    def open(self, picture: str, uri: str = "file:///w/a.py", end: str = "\n") -> None:
        """Opens the text before the edits, then makes them from the last to the first, as several
        cursors do, or one after the other where they are far from another."""
        picture = dedented(picture)
        old = _EDIT.sub(lambda match: match[1], picture.replace("ˇ", "")).replace("\n", end)
        buffer = self.buffers[uri] = TextBuffer(old, PositionEncoding.UTF32)
        buffer.watch = self.history.opened(uri, self.language_id, lambda: buffer.lines)
        plain = picture.replace("ˇ", "").replace("\n", end)
        shift = 0
        for match in _EDIT.finditer(plain):
            start = match.start() + shift
            buffer.replace(
                buffer.position_at(start), buffer.position_at(start + len(match[1])), match[2]
            )
            shift += len(match[2]) - len(match[0])
        cursor = picture.find("ˇ")
        head = _EDIT.sub(lambda match: match[2], picture[: max(cursor, 0)]).replace("\n", end)
        self.offset = len(head)

    def snapshot(self, uri: str) -> DocumentSnapshot:
        return DocumentSnapshot(
            uri=uri, version=self.version, text=self.buffers[uri].text, language_id=self.language_id
        )

    def situation(
        self, uri: str = "file:///w/a.py", diagnostics: Sequence[Diagnostic] = ()
    ) -> Situation:
        edits = [edit for edit in self.history.recent(64) if edit.is_open]
        return Situation(
            document=self.snapshot(uri),
            offset=self.offset,
            edits=edits,
            snapshots={each: self.snapshot(each) for each in self.buffers},
            diagnostics=diagnostics,
        )

    async def find(
        self,
        model: Model | None = None,
        *,
        uri: str = "file:///w/a.py",
        diagnostics: Sequence[Diagnostic] = (),
        dismissed: Sequence[tuple[str, ...]] = (),
    ) -> Proposal | None:
        return await next_edit(self.situation(uri, diagnostics), self, model or Model(), dismissed)

    def accept(self, proposal: Proposal) -> None:
        buffer = self.buffers[proposal.document.uri]
        buffer.replace(
            buffer.position_at(proposal.start), buffer.position_at(proposal.end), proposal.text
        )

    # OtherFiles

    async def mentioning(self, name: str) -> Sequence[DocumentSnapshot]:
        found = [self.snapshot(uri) for uri, buffer in self.buffers.items() if name in buffer.text]
        return found + [
            DocumentSnapshot(uri=uri, version=-1, text=text, language_id=self.language_id)
            for uri, text in self.files.items()
            if name in text
        ]

    async def definitions(self, name: str) -> int:
        return self.num_definitions


def dedented(picture: str) -> str:
    return textwrap.dedent(picture[1:]) if picture.startswith("\n") else picture


def drawn(proposal: Proposal | None) -> str:
    """The lines of the proposal, with it drawn."""
    if proposal is None:
        return ""
    text = proposal.document.text
    start = text.rfind("\n", 0, proposal.start) + 1
    end = text.find("\n", proposal.end)
    end = len(text) if end < 0 else end
    head, tail = text[start : proposal.start], text[proposal.end : end]
    return f"{head}⟦{proposal.old_text}→{proposal.text}⟧{tail}".strip()


async def all_drawn(workspace: Workspace, model: Model | None = None, limit: int = 20) -> list[str]:
    """What is proposed until nothing is, each accepted in turn."""
    found: list[str] = []
    while len(found) < limit and (proposal := await workspace.find(model)) is not None:
        found.append(drawn(proposal))
        if proposal.document.uri not in workspace.buffers:
            break
        workspace.accept(proposal)
    return found


Pictures = Mapping[str, str]
