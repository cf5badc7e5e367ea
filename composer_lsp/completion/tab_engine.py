"""The seam between the completer and what answers prompts."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from composer_lsp.completion.templates import FimPrompt
from composer_lsp.completion.trim import FinishReason


@dataclass(frozen=True, kw_only=True, slots=True)
class TabChunk:
    """A piece of an engine's answer; the last one says why the answer ended."""

    text: str = ""
    finish_reason: FinishReason | None = None
    tokens: tuple[tuple[str, float], ...] = ()
    """The text's tokens with the model's own log-probabilities, where the engine gives them."""
    timings: Mapping[str, float] = field(default_factory=dict[str, float])
    """What the engine reports of its own stages, on the last chunk and, as far as it is known by
    then, on others: `queue_ms`, `prefill_ms`, `decode_ms`, `num_cached_tokens`,
    `num_prefill_tokens` and `num_decoded_tokens`."""


class TabEngineError(Exception):
    """The engine did not answer."""


class TabEngine(Protocol):
    """What answers a prompt: the engine on this machine, or a server behind a URL."""

    def complete(
        self,
        prompt: FimPrompt,
        *,
        max_tokens: int,
        stop: Sequence[str],
        invoked: bool,
        seed: int | None = None,
    ) -> AsyncGenerator[TabChunk, None]:
        """Stream an answer; closing the iterator (`aclose`) cancels the work. `invoked`: the user
        waits for it, so an engine that failed lately is tried at once. `seed`: another answer than
        the likeliest, which None asks for.

        Raises: TabEngineError.
        """
        ...
