"""Open documents, exact for every text: lines end at \\n, \\r\\n and \\r and nowhere else.

`TextBuffer` holds the lines, so a keystroke costs its own line and not the file; the whole text is
joined when somebody asks. `Document` and `DocumentStore` put it under pygls, which keeps no copy of
its own.
"""

import logging
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate, count
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from lsprotocol import types
from pygls.workspace import TextDocument, Workspace

from composer_lsp.completion.edit_history import Watch
from composer_lsp.completion.lines import split_lines
from composer_lsp.completion.request import DocumentSnapshot
from composer_lsp.server.positions import PositionEncoding

logger = logging.getLogger(__name__)

_MAX_VERSION = (1 << 31) - 1
"""LSP's, of an integer."""
_uses = count(1)
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


class TextBuffer:
    """A text that is edited at LSP positions. Positions anywhere are valid: they clamp to the
    nearest place where a character can stand, which is never inside a line's terminator."""

    def __init__(self, text: str, encoding: PositionEncoding) -> None:
        self._encoding = encoding
        self._has_surrogates = False
        self.watch: Watch | None = None
        """Is told the lines that each change has replaced."""
        self._lines: list[str] = []
        self.replace_all(text)

    @property
    def text(self) -> str:
        if self._text is None:
            self._text = "".join(self._lines)
        return self._text

    @property
    def valid_text(self) -> str:
        """The text with each lone surrogate, which no encoding can carry, as U+FFFD; offsets are
        the same."""
        return _SURROGATE.sub("\ufffd", self.text) if self._has_surrogates else self.text

    @property
    def lines(self) -> Sequence[str]:
        """The lines with their terminators, the last one without; a view until the next edit."""
        return self._lines

    def replace_all(self, text: str) -> None:
        old, self._lines = self._lines, split_lines(self._joined(text))
        self._text: str | None = None
        self._starts: list[int] | None = None
        if self.watch is not None:
            self.watch(0, old, self._lines)

    def replace(self, start: types.Position, end: types.Position, text: str) -> None:
        """Replace a range, given in either order."""
        (first, head), (last, tail) = sorted((self._locate(start), self._locate(end)))
        changed = self._lines[first][:head] + text + self._lines[last][tail:]
        # A line feed that now follows a lone carriage return makes one terminator of the two.
        if first > 0 and changed.startswith("\n") and self._lines[first - 1].endswith("\r"):
            first -= 1
            changed = self._lines[first] + changed
        lines = split_lines(self._joined(changed, inserted=text))
        if last + 1 < len(self._lines):
            lines.pop()  # `changed` ended with its terminator; what follows is the next line.
        old = self._lines[first : last + 1]
        self._lines[first : last + 1] = lines
        self._text = None
        self._starts = None
        if self.watch is not None:
            self.watch(first, old, lines)

    def offset_at(self, position: types.Position) -> int:
        """In code points from the start of the text."""
        line, index = self._locate(position)
        return self._line_starts()[line] + index

    def position_at(self, offset: int) -> types.Position:
        """Of an offset from 0 to the length of the text, both included."""
        starts = self._line_starts()
        line = bisect_right(starts, offset) - 1
        index = min(offset - starts[line], len(_content(self._lines[line])))
        character = self._encoding.to_character(self._lines[line], index)
        return types.Position(line, character)

    def _locate(self, position: types.Position) -> tuple[int, int]:
        if position.line >= len(self._lines):
            return len(self._lines) - 1, len(self._lines[-1])
        content = _content(self._lines[position.line])
        return position.line, self._encoding.to_index(content, position.character)

    def _line_starts(self) -> list[int]:
        if self._starts is None:
            self._starts = list(accumulate(map(len, self._lines[:-1]), initial=0))
        return self._starts

    def _joined(self, changed: str, *, inserted: str | None = None) -> str:
        """`changed` with the halves of a surrogate pair that came by two edits made one character,
        as they are for a client that counts in UTF-16."""
        if not self._has_surrogates:
            new = changed if inserted is None else inserted
            self._has_surrogates = not new.isascii() and _SURROGATE.search(new) is not None
        if not self._has_surrogates or self._encoding is not PositionEncoding.UTF16:
            return changed
        return _SURROGATE_PAIR.sub(_join_pair, changed)


class Document(TextDocument):
    """An open document as pygls knows it, over a `TextBuffer`."""

    def __init__(
        self, uri: str, text: str, version: int, language_id: str, encoding: PositionEncoding
    ) -> None:
        # pygls wants a path of it, and nobody else does.
        known = uri if is_uri(uri) else ""
        super().__init__(known, source=None, version=version, language_id=language_id)
        self.uri = uri
        self.buffer = TextBuffer(text, encoding)
        self.used = next(_uses)
        """The higher, the later it was opened or changed."""

    @property
    def source(self) -> str:
        return self.buffer.text

    @property
    def lines(self) -> Sequence[str]:
        return self.buffer.lines

    def apply_change(self, change: types.TextDocumentContentChangeEvent) -> None:
        self.used = next(_uses)
        if isinstance(change, types.TextDocumentContentChangePartial):
            self.buffer.replace(change.range.start, change.range.end, change.text)
        else:
            self.buffer.replace_all(change.text)

    def offset_at_position(self, client_position: types.Position) -> int:
        return self.buffer.offset_at(client_position)

    def client_position_at_offset(self, offset: int) -> types.Position:
        return self.buffer.position_at(offset)

    def snapshot(self) -> DocumentSnapshot:
        return DocumentSnapshot(
            uri=self.uri,
            version=self.version or 0,
            text=self.buffer.valid_text,
            language_id=self.language_id or "",
        )


class DocumentStore(Workspace):
    """The documents, notebooks and folders that the client told us about."""

    def __init__(
        self,
        root_uri: str | None,
        folders: Sequence[types.WorkspaceFolder],
        encoding: PositionEncoding,
    ) -> None:
        self.encoding = encoding
        super().__init__(
            root_uri,
            types.TextDocumentSyncKind.Incremental,
            folders,
            types.PositionEncodingKind(encoding.value),
        )

    def find(self, uri: str) -> Document | None:
        """The open document (a file, an untitled buffer or a notebook's cell), None if there is
        none."""
        document = self.text_documents.get(unquote(uri))
        return document if isinstance(document, Document) else None

    @property
    def recent(self) -> Sequence[Document]:
        """The open documents, the one that was opened or changed last first."""
        documents = [each for each in self.text_documents.values() if isinstance(each, Document)]
        return sorted(documents, key=lambda each: each.used, reverse=True)

    def with_version(self, params: object) -> object:
        """The parameters of a text document's notification, as they came or with a version. Some
        clients send none, or one that goes back: what is asked about a text is told apart by it,
        so from there on it counts up by itself."""
        fields = _mapping(params)
        document = _mapping(fields.get("textDocument"))
        uri = document.get("uri")
        if not isinstance(uri, str):
            return params
        version = self._version(uri, document.get("version"), is_opened="text" in document)
        return {**fields, "textDocument": {**document, "version": version}}

    def _version(self, uri: str, sent: object, *, is_opened: bool = False) -> int:
        known = self.find(uri)
        lowest = 0 if known is None or is_opened else (known.version or 0) + 1
        if isinstance(sent, int) and lowest <= sent <= _MAX_VERSION:
            return sent
        return lowest

    def update_text_document(
        self,
        text_doc: types.VersionedTextDocumentIdentifier,
        change: types.TextDocumentContentChangeEvent,
    ) -> None:
        document = self.find(text_doc.uri)
        if document is None:
            logger.warning("ignoring a change to a document that is not open: %s", text_doc.uri)
            return
        document.apply_change(change)
        document.version = text_doc.version

    def update_notebook_document(self, params: types.DidChangeNotebookDocumentParams) -> None:
        uri = params.notebook_document.uri
        if self.get_notebook_document(notebook_uri=uri) is None:
            logger.warning("ignoring a change to a notebook that is not open: %s", uri)
            return
        for changed in (params.change.cells and params.change.cells.text_content) or ():
            cell = changed.document
            cell.version = self._version(cell.uri, cell.version)
        super().update_notebook_document(params)

    def _create_text_document(
        self,
        doc_uri: str,
        source: str | None = None,
        version: int | None = None,
        language_id: str | None = None,
    ) -> Document:
        return Document(doc_uri, source or "", version or 0, language_id or "", self.encoding)


def is_uri(text: str) -> bool:
    """Whether it can be taken apart, which `file://[x` cannot."""
    try:
        urlsplit(text)
    except ValueError:
        return False
    return True


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _content(line: str) -> str:
    return line.rstrip("\r\n")


def _join_pair(match: re.Match[str]) -> str:
    return match[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le")
