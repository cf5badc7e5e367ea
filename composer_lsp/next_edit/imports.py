"""An import that an edit has left over, or has taken from what still needs it."""

from collections.abc import Iterator
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from composer_lsp.completion.edit_history import Edit
from composer_lsp.completion.lines import split_lines
from composer_lsp.next_edit.proposal import Proposal, Situation, line_of
from composer_lsp.next_edit.source import Imported, Source

_NEAR_EDITS = 6


def imports(situation: Situation) -> Iterator[Proposal]:
    """In the situation's document, by its newest edits."""
    document = situation.document
    own = [edit for edit in situation.edits if edit.uri == document.uri]
    source = situation.sources(document)
    if source is None or PurePosixPath(urlsplit(document.uri).path).stem == "__init__":
        return
    for edit in reversed(own[-_NEAR_EDITS:]):
        before = situation.sources(situation.before(edit))
        if before is not None:
            yield from _left_over(situation, source, before)
            yield from _missing(situation, edit, source, before)


def _used(source: Source) -> set[str]:
    """Names that are used, and not only imported."""
    return {
        name.text
        for name in source.names
        if not name.is_import and not name.is_attribute and not name.is_keyword
    }


def _left_over(situation: Situation, source: Source, before: Source) -> Iterator[Proposal]:
    """Names that the edit has used for the last time."""
    gone = _used(before) - _used(source)
    for imported in source.imported:
        statement = imported.statement
        rest = source.text[: statement.start] + source.text[statement.end :]
        is_named_as_text = f'"{imported.name}"' in rest or f"'{imported.name}'" in rest
        if imported.name in gone and not is_named_as_text:
            start, end = _without(imported, source)
            yield Proposal(
                kind="import",
                document=situation.document,
                start=start,
                end=end,
                text="",
                title=f"Remove the import of {imported.name}",
                change=("import", "remove", imported.name),
            )


def _without(imported: Imported, source: Source) -> tuple[int, int]:
    """What goes with the name: the whole statement's lines, or the name with one of its commas."""
    text, span = source.text, imported.span
    if imported.num_names == 1:
        start = text.rfind("\n", 0, imported.statement.start) + 1
        end = text.find("\n", imported.statement.end)
        end = len(text) if end < 0 else end + 1
        is_alone = not text[start : imported.statement.start].strip()
        is_alone = is_alone and not text[imported.statement.end : end].strip().strip(";")
        return (start, end) if is_alone else (imported.statement.start, imported.statement.end)
    rest = text[span.end : imported.statement.end]
    if rest.lstrip().startswith(",") and rest.lstrip()[1:].strip(" \t\r\n)};"):
        behind = rest.index(",") + 1
        return span.start, span.end + behind + _num_blank(rest[behind:])
    head = text[: span.start].rstrip()
    return (len(head) - 1 if head.endswith(",") else span.start), span.end


def _num_blank(text: str) -> int:
    return len(text) - len(text.lstrip(" \t\r\n"))


def _missing(
    situation: Situation, edit: Edit, source: Source, before: Source
) -> Iterator[Proposal]:
    """Names that the edit no longer imports, and that are used all the same."""
    row = line_of(situation.document.text, situation.offset)
    if edit.first_line <= row <= edit.end_line:
        return  # still being written
    introduced = {name.text for name in source.names if name.is_introduced}
    needed = _used(source) - introduced - {imported.name for imported in source.imported}
    for imported in before.imported:
        if imported.name not in needed:
            continue
        statement = before.text[imported.statement.start : imported.statement.end]
        if "\n" in statement or imported.num_names != 1:
            continue
        lines = split_lines(situation.document.text)
        start = sum(map(len, lines[: edit.first_line]))
        indent_start = before.text.rfind("\n", 0, imported.statement.start) + 1
        indent = before.text[indent_start : imported.statement.start]
        end = "\r\n" if "\r\n" in situation.document.text else "\n"
        if indent.strip():
            continue
        yield Proposal(
            kind="import",
            document=situation.document,
            start=start,
            end=start,
            text=f"{indent}{statement}{end}",
            title=f"Import {imported.name} again",
            change=("import", "restore", imported.name),
        )
