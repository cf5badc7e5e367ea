"""What goes into a completion and what comes out, free of any editor's types."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Trigger = Literal["automatic", "invoked"]


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentSnapshot:
    """One version of an open document."""

    uri: str
    version: int
    """Goes up with every change while the document is open."""
    text: str
    """With the document's own line endings."""
    language_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CompletionRequest:
    document: DocumentSnapshot
    offset: int
    """The cursor, in code points from the start of the text."""
    trigger: Trigger = "automatic"
    num_indent_spaces: int | None = None
    """Spaces that one level of indentation takes, or a tab is wide; None guesses from the text."""
    max_suggestions: int = 1
    """Different suggestions to look for; those beyond the first cost an answer of the engine each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Suggestion:
    """Replace `document.text[start:end]` by `text`; `start <= offset <= end`, usually all equal.
    The range never leaves the cursor's line."""

    text: str
    start: int
    end: int
    timings: Mapping[str, float] = field(default_factory=dict[str, float])
    """Milliseconds of each stage: debounce, prompt, queue, prefill, first_token, decode, trim,
    total. A suggestion from memory has `total` alone."""
    score: float | None = None
    """How likely it is what is wanted, from 0 to 1; None where the engine gives nothing to tell by."""
    tokens: Mapping[str, int] = field(default_factory=dict[str, int])
    """What the engine says it did: `num_cached_tokens` and `num_prefill_tokens` of the prompt, and
    `num_decoded_tokens`. Empty where it says nothing, as when its answer was cut short."""

    @property
    def is_from_memory(self) -> bool:
        return set(self.timings) == {"total"}
