"""What the model writes where no finder knows the text: an argument's value, the line of a problem."""

import builtins
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from composer_lsp.completion import judge
from composer_lsp.completion.edit_history import Edit, as_diff
from composer_lsp.completion.filters import prompt_path
from composer_lsp.completion.indentation import detect_indent
from composer_lsp.completion.literals import blanked, line_comment
from composer_lsp.completion.parsing import ParsedWith
from composer_lsp.completion.prompt import path_end, with_newlines
from composer_lsp.completion.repository import RepositoryContext, Snippet
from composer_lsp.completion.surroundings import Surroundings
from composer_lsp.completion.templates import FimPrompt
from composer_lsp.next_edit.proposal import Gap, Proposal, source_of

_CHARS_BEFORE = 1600
_CHARS_AFTER = 400
_NEAR_CHARS = 4000
_MAX_ARGUMENT_TOKENS = 24
_MAX_LINE_TOKENS = 96
_MIN_MEAN_LOGPROB = -1.0
"""Below it the model is guessing."""
_NUM_DIFFS = 2
_OPENING, _CLOSING = "([{", ")]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Filled:
    text: str
    tokens: tuple[tuple[str, float], ...] = ()
    """With their log-probabilities; empty where the engine does not tell."""


class Writer(Protocol):
    async def infill(self, prompt: FimPrompt, *, max_tokens: int, stop: Sequence[str]) -> Filled:
        """What stands between two texts."""
        ...


async def written(proposal: Proposal, edits: Sequence[Edit], writer: Writer) -> Proposal | None:
    """The proposal with its gap filled; None where what the model wrote is of no use."""
    gap = proposal.gap
    if gap is None:
        return proposal
    is_line = gap.until == "line"
    answer = await writer.infill(
        prompt_for(proposal, gap, edits),
        max_tokens=_MAX_LINE_TOKENS if is_line else _MAX_ARGUMENT_TOKENS,
        stop=("\n",),
    )
    language_id = proposal.document.language_id
    text = _line(answer.text) if is_line else argument(answer.text, language_id)
    if not text or text == proposal.old_text:
        return None
    if _is_guess(text, answer) or not (is_line or _is_known(text, proposal)):
        return None
    return replace(proposal, text=gap.before + text + gap.after, gap=None)


def prompt_for(proposal: Proposal, gap: Gap, edits: Sequence[Edit]) -> FimPrompt:
    """The text on both sides, with what is wanted as a comment above the line, behind the last edits
    as diffs. `prediction` is the text that stands there now."""
    document = proposal.document
    path = path_end(prompt_path(document.uri))
    before = with_newlines(document.text[: proposal.start])
    after = with_newlines(document.text[proposal.end :])
    mark = line_comment(document.language_id)
    above, newline, line = before[-_CHARS_BEFORE:].rpartition("\n")
    indent = line[: len(line) - len(line.lstrip())]
    hints = (
        [f"{indent}{mark} {hint}\n" for hint in gap.hint.split("\n")] if mark and gap.hint else []
    )
    diffs = "\n".join(as_diff(each, path_of(each)) for each in edits[-_NUM_DIFFS:])
    about = [Snippet(path=path, text=gap.about)] if gap.about else []
    return FimPrompt(
        prefix=above + newline + "".join(hints) + line + gap.before + gap.cue,
        suffix=gap.after + after[:_CHARS_AFTER],
        path=path,
        context=RepositoryContext(snippets=(*about, Snippet(path="recent.diff", text=diffs))),
        line_comment=mark,
        prediction=proposal.old_text,
    )


def path_of(edit: Edit) -> str:
    return path_end(prompt_path(edit.uri))


def argument(text: str, language_id: str) -> str:
    """The expression that a text begins with, up to the comma or the bracket behind it."""
    line = text.partition("\n")[0]
    visible = blanked(line, language_id)
    depth = 0
    for index, char in enumerate(visible):
        if char in _OPENING:
            depth += 1
        elif char in _CLOSING:
            depth -= 1
        if depth < 0 or (depth == 0 and char in ",;"):
            return line[:index].strip()
    return line.strip() if depth == 0 else ""


def _is_guess(text: str, answer: Filled) -> bool:
    """Whether the model doubts what was kept of its answer."""
    features = judge.features_of(text, answer.tokens, is_cut=False, after="")
    return features is not None and features.mean_logprob < _MIN_MEAN_LOGPROB


def _is_known(text: str, proposal: Proposal) -> bool:
    """Whether the file knows the names that an argument is made of: a model likes to make them up."""
    document = proposal.document
    source = source_of(document.text, document.language_id)
    written = source_of(text, document.language_id)
    if source is None or written is None:
        return True
    known = {name.text for name in source.names}
    known |= {imported.name for imported in source.imported}
    if document.language_id == "python":
        known |= set(dir(builtins))
    used = [name for name in written.names if not name.is_attribute and not name.is_keyword]
    return all(name.text in known for name in used if not name.is_binding)


def _line(text: str) -> str:
    return text.partition("\n")[0].strip()


def parses_no_worse(proposal: Proposal) -> bool:
    """Whether the text around it has no more errors with it than it has now."""
    text = proposal.document.text
    language_id = proposal.document.language_id
    before = with_newlines(text[max(0, proposal.start - _NEAR_CHARS) : proposal.start])
    after = with_newlines(text[proposal.end : proposal.end + _NEAR_CHARS])
    around = Surroundings(
        before=before,
        after=after,
        language_id=language_id,
        indent=detect_indent(before, language_id, None),
        line_ending="\n",
    )
    parsed = ParsedWith(around)
    now = parsed.num_errors(with_newlines(proposal.old_text))
    then = parsed.num_errors(with_newlines(proposal.text))
    return now is None or then is None or then <= now
