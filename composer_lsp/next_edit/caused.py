"""A problem that an edit has just caused elsewhere: the model rewrites its line."""

import re
from collections.abc import Iterator

from composer_lsp.completion.lines import split_lines
from composer_lsp.next_edit.proposal import Gap, Proposal, Situation

_NEAR_EDITS = 4
_WORD = re.compile(r"[^\W\d]\w*")
_MAX_LINE_CHARS = 400


def caused(situation: Situation) -> Iterator[Proposal]:
    """Problems that name what the newest edits have changed, of lines that they have not touched."""
    document = situation.document
    edits = situation.edits[-_NEAR_EDITS:]
    changed: set[str] = set()
    for edit in edits:
        old = set(_WORD.findall(" ".join(edit.old_lines)))
        changed |= old ^ set(_WORD.findall(" ".join(edit.new_lines)))
        # A signature's name stays, and is what its calls' problems name.
        changed |= set(_WORD.findall(" ".join(edit.new_lines))) & old
    touched = {
        row
        for edit in edits
        if edit.uri == document.uri
        for row in range(edit.first_line, edit.end_line)
    }
    lines = split_lines(document.text)
    for diagnostic in situation.diagnostics:
        row = diagnostic.line
        if not diagnostic.is_error or row in touched or row >= len(lines):
            continue
        content = lines[row].rstrip("\r\n")
        named = set(_WORD.findall(diagnostic.message)) & changed
        if not named or not content.strip() or len(content) > _MAX_LINE_CHARS:
            continue
        indent = len(content) - len(content.lstrip())
        start = sum(map(len, lines[:row])) + indent
        message = " ".join(diagnostic.message.split())[:200]
        yield Proposal(
            kind="diagnostic",
            document=document,
            start=start,
            end=start + len(content) - indent,
            text="",
            title=f"Fix: {message}",
            change=("diagnostic", message, content.strip()),
            gap=Gap(hint=f"Error: {message}\nWas: {content.strip()}", until="line"),
        )
