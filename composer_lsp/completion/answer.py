"""What an engine said to one request and what became of it: kept to tell why, and to be told again."""

import dataclasses
import json
import os
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cattrs
from cattrs.errors import CattrsError

from composer_lsp.completion.request import CompletionRequest, Trigger
from composer_lsp.completion.surroundings import NEAR_CHARS, Surroundings
from composer_lsp.completion.templates import FimPrompt
from composer_lsp.completion.trim import FinishReason

_NUM_KEPT = 8


class AnswerFileError(ValueError):
    """The text holds no answer; the message says what is wrong."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A cursor, with as much of the text around it as trimming looks at."""

    uri: str
    language_id: str
    line: int
    """From 1."""
    column: int
    """From 1, in characters."""
    trigger: Trigger
    before: str
    after: str
    num_indent_spaces: int | None

    @classmethod
    def of(cls, request: CompletionRequest) -> "Place":
        text, offset = request.document.text, request.offset
        ending = "\n" if "\n" in text else "\r"
        return cls(
            uri=request.document.uri,
            language_id=request.document.language_id,
            line=text.count(ending, 0, offset) + 1,
            column=offset - text.rfind(ending, 0, offset),
            trigger=request.trigger,
            before=text[max(0, offset - NEAR_CHARS) : offset],
            after=text[offset : offset + NEAR_CHARS],
            num_indent_spaces=request.num_indent_spaces,
        )

    @property
    def surroundings(self) -> Surroundings:
        return Surroundings.of(
            self.before + self.after,
            len(self.before),
            language_id=self.language_id,
            num_indent_spaces=self.num_indent_spaces,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    place: Place
    prompt: FimPrompt
    raw: str
    """As the engine said it, up to where it was stopped."""
    finish_reason: FinishReason | None
    """None: it was stopped, because what followed would have been cut."""
    tokens: tuple[tuple[str, float], ...]
    """Of `raw`, with their log-probabilities; empty where the engine does not tell them."""
    text: str | None
    """What trimming left; None: nothing worth showing."""
    score: float | None
    min_score: float
    """Below it nothing was shown; 0 for an explicit request."""
    timings: Mapping[str, float]
    """Milliseconds of each stage, as `Suggestion.timings`."""
    num_tokens: Mapping[str, int]
    """What the engine says it did, as `Suggestion.tokens`."""

    @property
    def is_shown(self) -> bool:
        is_doubtful = self.score is not None and self.score < self.min_score
        return self.text is not None and not is_doubtful

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def save_answer(answer: Answer, path: Path) -> None:
    """As `read_answer` reads it. It holds source text, so the file is the user's alone. Raises: OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(answer.as_json(), file)


def read_answer(text: str) -> Answer:
    """The answer of a JSON text, as `Answer.as_json` gave it.

    Raises: AnswerFileError.
    """
    try:
        return cattrs.structure(json.loads(text), Answer)
    except json.JSONDecodeError as error:
        raise AnswerFileError(f"it is no JSON: {error}") from None
    except (CattrsError, KeyError, TypeError, ValueError) as error:
        reasons = (
            "; ".join(cattrs.transform_error(error)) if isinstance(error, CattrsError) else error
        )
        raise AnswerFileError(f"it is no saved answer: {reasons}") from None


class Answers:
    """The latest answers of a window, those included of which nothing was shown."""

    def __init__(self) -> None:
        self._kept: deque[Answer] = deque(maxlen=_NUM_KEPT)

    def keep(self, answer: Answer) -> None:
        self._kept.appendleft(answer)

    def latest(self, shown: str | None = None) -> Answer | None:
        """The latest, of those that `shown` is all or the end of, where it is of one."""
        return next(self._ending(shown), next(iter(self._kept), None))

    def _ending(self, shown: str | None) -> Iterator[Answer]:
        for answer in self._kept:
            if shown and answer.is_shown and (answer.text or "").endswith(shown):
                yield answer
