"""Which pieces of other files stand in the prompt: the worthiest that fit, and changed seldom.

What follows the first changed piece is computed anew, at some seconds' cost on a small machine. So the
pieces keep their places while they stay, and a selection gives way to another only where that is worth
it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from composer_lsp.completion.repository import RepositoryContext, Snippet
from composer_lsp.completion.tokens import CHARS_PER_TOKEN, estimated_tokens

MAX_SNIPPET_TOKENS = 256
"""Of one piece: what says most stands at its top, and others should find room."""
_HEAD_TOKENS = 12
"""Of a piece's path and marks."""
_MIN_GAIN = 0.2
"""More worth that a selection must have, as a share of the best one's, for all to be computed anew."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A piece of another file that may help."""

    path: str
    """As the model shall see it."""
    text: str
    worth: float
    """From 0 to 1."""
    first_line: int = 1
    """Where it stands in its file, 1-based."""
    is_volatile: bool = False
    """Whether it changes with the user's edits: it stands behind those that do not."""

    @property
    def last_line(self) -> int:
        return self.first_line + self.text.rstrip("\n").count("\n")


def select(
    candidates: Sequence[Candidate], *, max_tokens: int, present: RepositoryContext, name: str = ""
) -> RepositoryContext:
    """The context of now: at most `max_tokens` (estimated) of the candidates, or `present` itself where
    a change does not pay. `name`: of the repository."""
    candidates = [replace(each, text=_short(each.text)) for each in candidates]
    chosen = _chosen([each for each in candidates if each.text.strip()], max_tokens)
    worths = {
        _snippet(each): each.worth for each in sorted(candidates, key=lambda each: each.worth)
    }
    placed = _placed(chosen, present)
    if placed == present.snippets:
        return present
    kept = sum(worths.get(each, 0.0) for each in present.snippets)
    best = sum(each.worth for each in chosen)
    share = _share_computed(placed, present)
    if sum(map(_cost, present.snippets)) <= max_tokens and best - kept <= _MIN_GAIN * best * share:
        return present
    return RepositoryContext(repository=name, snippets=placed)


def _chosen(candidates: Sequence[Candidate], max_tokens: int) -> list[Candidate]:
    """The worthiest first; of pieces that overlap or say the same, one."""
    chosen: list[Candidate] = []
    num_left = max_tokens
    for each in sorted(candidates, key=lambda each: -each.worth):
        cost = _cost(_snippet(each))
        if cost > num_left:
            continue
        if not any(_overlap(each, other) for other in chosen):
            chosen.append(each)
            num_left -= cost
    return chosen


def _overlap(one: Candidate, other: Candidate) -> bool:
    is_apart = one.first_line > other.last_line or other.first_line > one.last_line
    return one.path == other.path and (not is_apart or one.text == other.text)


def _placed(chosen: Sequence[Candidate], present: RepositoryContext) -> tuple[Snippet, ...]:
    """Those that stay, in their order, then the new ones, and behind all what the user's edits change."""
    order = {snippet: rank for rank, snippet in enumerate(present.snippets)}
    ranked = sorted(
        chosen, key=lambda each: (each.is_volatile, order.get(_snippet(each), len(order)))
    )
    return tuple(map(_snippet, ranked))


def _share_computed(snippets: Sequence[Snippet], present: RepositoryContext) -> float:
    """Which part of the tokens stands behind the first piece that is another."""
    num_same = 0
    for one, other in zip(snippets, present.snippets, strict=False):
        if one != other:
            break
        num_same += 1
    every = sum(map(_cost, snippets))
    return sum(map(_cost, snippets[num_same:])) / every if every else 1.0


def _snippet(candidate: Candidate) -> Snippet:
    return Snippet(path=candidate.path, text=candidate.text)


def _short(text: str) -> str:
    """The whole lines of the text that fit."""
    num_left = MAX_SNIPPET_TOKENS
    lines: list[str] = []
    for line in text.strip("\n").split("\n"):
        if len(line) > num_left * CHARS_PER_TOKEN:
            break
        num_left -= estimated_tokens(line) + 1
        if num_left < 0:
            break
        lines.append(line)
    return "\n".join(lines).rstrip()


def _cost(snippet: Snippet) -> int:
    return estimated_tokens(snippet.text) + _HEAD_TOKENS
