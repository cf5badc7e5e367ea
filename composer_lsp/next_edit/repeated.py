"""The same change once more: lines like those that were changed, changed in the same way.

A line that is the very one that was changed needs no second example. From two lines that were changed
alike, what they have in common must be there; where they differ, any word of the same kind may stand.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from composer_lsp.completion.edit_history import Edit
from composer_lsp.completion.lines import split_lines
from composer_lsp.next_edit.proposal import Proposal, Situation
from composer_lsp.next_edit.tokens import Operation, operations, tokens_of

_MAX_LINES = 6
_MIN_CHARS = 12
"""Of a line that is changed again after one example: shorter ones are everywhere."""
_MAX_DISTANCE = 400
"""Lines that are looked at on each side."""
_NEAR_EDITS = 8
_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class _Example:
    """A changed line without its indentation, as tokens."""

    old: tuple[str, ...]
    change: tuple[Operation, ...]

    @classmethod
    def of(cls, old: str, new: str) -> "_Example | None":
        old_tokens, new_tokens = tokens_of(old.strip()), tokens_of(new.strip())
        if not old_tokens or not new_tokens or old_tokens == new_tokens:
            return None
        return cls(tuple(old_tokens), operations(old_tokens, new_tokens))


def repeated(situation: Situation) -> Iterator[Proposal]:
    """In the situation's document, by its newest edits."""
    document = situation.document
    own = [edit for edit in situation.edits if edit.uri == document.uri]
    edits = [*reversed(own[-_NEAR_EDITS:])]
    if not edits:
        return
    lines = split_lines(document.text)
    yield from _same_blocks(situation, edits[0], lines)
    yield from _alike(situation, edits, lines)


def _same_blocks(situation: Situation, edit: Edit, lines: Sequence[str]) -> Iterator[Proposal]:
    """Where the lines that were changed stand again, but for their indentation."""
    num_lines = len(edit.old_lines)
    if not 1 <= num_lines <= _MAX_LINES or not edit.new_lines or not _is_telling(edit.old_lines):
        return
    if _introduces(situation, edit):
        return
    old_indent, old = _without_indent(edit.old_lines)
    new_indent, new = _without_indent(edit.new_lines)
    if old_indent != new_indent or [line.strip() for line in old] == [each.strip() for each in new]:
        return
    starts = _line_starts(lines)
    for row in _rows(edit, len(lines) - num_lines + 1):
        contents = [line.rstrip("\r\n") for line in lines[row : row + num_lines]]
        if not contents[0].strip() or (contents[0].strip() != old[0].strip()):
            continue
        indent, block = _without_indent(contents)
        if block != old or edit.first_line <= row < edit.end_line:
            continue
        end_of_line = "\r\n" if lines[row].endswith("\r\n") else "\n"
        text = end_of_line.join(indent + line if line.strip() else line for line in new)
        start = starts[row]
        end = starts[row + num_lines - 1] + len(contents[-1])
        yield _proposal(situation, start, end, text, "\n".join(edit.new_lines).strip())


def _introduces(situation: Situation, edit: Edit) -> bool:
    """Whether the lines give something its name: another of that name is another thing."""
    source = situation.sources(situation.document)
    rows = range(edit.first_line, edit.end_line)
    return source is not None and any(
        name.is_definition or name.is_import for name in source.names if name.row in rows
    )


def _alike(situation: Situation, edits: Sequence[Edit], lines: Sequence[str]) -> Iterator[Proposal]:
    """Where a line is like two that were changed alike."""
    examples = [example for edit in edits for example in _examples(edit)]
    if len(examples) < 2:
        return
    newest = examples[0]
    same = [each for each in examples[1:] if _is_alike(newest, each)]
    if not same:
        return
    template = _template([newest, *same])
    starts = _line_starts(lines)
    changed = {row for edit in edits for row in range(edit.first_line, edit.end_line)}
    for row in _rows(edits[0], len(lines)):
        content = lines[row].rstrip("\r\n")
        tokens = tokens_of(content.strip())
        if row in changed or not _fits(tokens, template):
            continue
        new = _applied(tokens, newest.change)
        start = starts[row] + len(content) - len(content.lstrip())
        end = starts[row] + len(content.rstrip())
        if new != "".join(tokens):
            yield _proposal(situation, start, end, new, new)


def _examples(edit: Edit) -> Iterator[_Example]:
    if len(edit.old_lines) != len(edit.new_lines):
        return
    for old, new in zip(edit.old_lines, edit.new_lines, strict=True):
        if (example := _Example.of(old, new)) is not None:
            yield example


def _is_alike(one: _Example, other: _Example) -> bool:
    return (
        one.change == other.change
        and len(one.old) == len(other.old)
        and all(map(_is_same_kind, one.old, other.old))
        and one.old != other.old
        and sum(
            left == right and _WORD.fullmatch(left) is not None
            for left, right in zip(one.old, other.old, strict=True)
        )
        > 0
    )


def _template(examples: Sequence[_Example]) -> list[tuple[str, bool]]:
    """Each token, and whether it has to be this very one."""
    return [
        (tokens[0], len(set(tokens)) == 1)
        for tokens in zip(*(example.old for example in examples), strict=True)
    ]


def _fits(tokens: Sequence[str], template: Sequence[tuple[str, bool]]) -> bool:
    return len(tokens) == len(template) and all(
        token == wanted if is_exact else _is_same_kind(token, wanted)
        for token, (wanted, is_exact) in zip(tokens, template, strict=True)
    )


def _is_same_kind(one: str, other: str) -> bool:
    return one == other or (_kind(one) == _kind(other) != "")


def _kind(token: str) -> str:
    if _WORD.fullmatch(token):
        return "word"
    return "number" if token[:1].isdigit() else "space" if token.isspace() else ""


def _applied(tokens: Sequence[str], change: Sequence[Operation]) -> str:
    new = list(tokens)
    for operation in reversed(change):
        new[operation.start : operation.end] = operation.new
    return "".join(new)


def _is_telling(lines: Sequence[str]) -> bool:
    text = "".join(line.strip() for line in lines)
    return len(text) >= _MIN_CHARS and len(_WORD.findall(text)) >= 2


def _without_indent(lines: Sequence[str]) -> tuple[str, list[str]]:
    filled = [line for line in lines if line.strip()]
    indents = [line[: len(line) - len(line.lstrip())] for line in filled]
    common = min(indents, key=len, default="")
    if not all(indent.startswith(common) for indent in indents):
        common = ""
    return common, [line[len(common) :] if line.strip() else line for line in lines]


def _rows(edit: Edit, num_rows: int) -> list[int]:
    """Those near an edit, from below it on and then above it."""
    below = range(edit.end_line, min(num_rows, edit.end_line + _MAX_DISTANCE))
    above = range(max(0, edit.first_line - _MAX_DISTANCE), max(0, min(edit.first_line, num_rows)))
    return [*below, *above]


def _line_starts(lines: Sequence[str]) -> list[int]:
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    return starts


def _proposal(situation: Situation, start: int, end: int, text: str, change: str) -> Proposal:
    return Proposal(
        kind="repeat",
        document=situation.document,
        start=start,
        end=end,
        text=text,
        title="The same change again",
        change=("repeat", change),
    )
