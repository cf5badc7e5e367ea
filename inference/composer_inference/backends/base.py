"""The seam between the engine and what computes: llama.cpp today, our own torch decoder beside it."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from composer_inference.priority import Priority

FinishReason = Literal["stop", "length"]

Prompt = tuple[str | int, ...]
"""Pieces of text (tokenised with special tokens recognised) and token ids, concatenated."""


class Capability(Enum):
    """What a backend can do; a missing one is declared, never faked."""

    TOKENIZE = "tokenize"
    DRAFT_TEXT = "draft_text"
    STEPWISE_PREEMPTION = "stepwise_preemption"
    GRAMMAR = "grammar"
    LOGPROBS = "logprobs"
    BATCHING = "batching"
    """It takes requests at any time, computes them together, and keeps their priorities itself."""
    COUNT_PENALTIES = "count_penalties"
    """Frequency and presence penalties, over the answer's tokens alone."""
    ROUTER_CHOICES = "router_choices"
    """It tells which experts each token went to."""
    RELOAD = "reload"
    """It takes other weights in place of its own (`Reloadable`)."""
    EMBED = "embed"
    RERANK = "rerank"


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplingParams:
    max_tokens: int = 64
    """Tokens to decode at most. 0 only prefills, which warms the prompt cache."""
    temperature: float = 0.0
    """0 decodes greedily."""
    top_p: float = 1.0
    top_k: int = 0
    """0 keeps every token."""
    min_p: float = 0.0
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    """Taken from a token's logit for each time the answer has it (Capability.COUNT_PENALTIES)."""
    presence_penalty: float = 0.0
    """Taken from a token's logit if the answer has it (Capability.COUNT_PENALTIES)."""
    seed: int | None = None
    """None draws a fresh one."""
    stop: tuple[str, ...] = ()
    """The text ends before the first of these."""
    num_logprobs: int = 0
    """Alternatives reported for each token; 0 reports no log-probabilities."""
    ignore_eos: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerateRequest:
    prompt: Prompt
    sampling: SamplingParams
    json_schema: dict[str, Any] | None = None
    """Constrains the whole text to JSON of this schema (needs Capability.GRAMMAR)."""
    grammar: str | None = None
    """A GBNF grammar for the whole text (needs Capability.GRAMMAR)."""
    draft_text: str | None = None
    """Text that the output mostly repeats; verified, never trusted (Capability.DRAFT_TEXT)."""
    return_router_choices: bool = False
    """Whether the last chunk tells the experts of each token (Capability.ROUTER_CHOICES)."""
    priority: Priority = Priority.AGENT
    """Whose step comes first, of requests that are computed together (Capability.BATCHING)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenLogprob:
    token: str
    token_id: int
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Timings:
    """Where a request's time went, summed over its pre-empted parts."""

    queue_ms: float = 0.0
    num_cached_tokens: int = 0
    num_prefill_tokens: int = 0
    prefill_ms: float = 0.0
    num_decoded_tokens: int = 0
    decode_ms: float = 0.0
    num_preemptions: int = 0
    num_drafted: int = 0
    """Tokens that were drafted and verified, whoever drafted them."""
    num_draft_accepted: int = 0
    """Of them, those that the model decoded too."""

    def __add__(self, other: "Timings") -> "Timings":
        return Timings(
            queue_ms=self.queue_ms + other.queue_ms,
            num_cached_tokens=self.num_cached_tokens + other.num_cached_tokens,
            num_prefill_tokens=self.num_prefill_tokens + other.num_prefill_tokens,
            prefill_ms=self.prefill_ms + other.prefill_ms,
            num_decoded_tokens=self.num_decoded_tokens + other.num_decoded_tokens,
            decode_ms=self.decode_ms + other.decode_ms,
            num_preemptions=self.num_preemptions + other.num_preemptions,
            num_drafted=self.num_drafted + other.num_drafted,
            num_draft_accepted=self.num_draft_accepted + other.num_draft_accepted,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerateChunk:
    """One step's output. A chunk with neither text nor finish_reason reports prefill progress;
    a stream ends with exactly one chunk that has a finish_reason."""

    text: str = ""
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    finish_reason: FinishReason | None = None
    timings: Timings = field(default_factory=Timings)
    """Of this call so far; complete on the last chunk."""
    resumable: bool = False
    """Whether the request may be stopped after this chunk and continued later, with nothing lost,
    from its prompt followed by all `token_ids` so far (Capability.STEPWISE_PREEMPTION)."""
    weights_version: int | None = None
    """Of the weights that computed it, from 0 on, counted up by each reload; None where the backend
    counts none."""
    router_choices: Sequence[Sequence[Sequence[int]]] | None = None
    """On the last chunk, if asked for: experts by token, layer with a router, and rank. Of all tokens
    of prompt and answer but the last one, which decides nothing; none of them is taken from the cache."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BackendStats:
    """What a loaded model takes, and what it has done since it was loaded."""

    weights_bytes: int
    kv_cache_bytes: int
    """Of all blocks, used or not."""
    num_blocks_free: int
    num_blocks_cached: int
    """That nobody holds, and that later prompts may share."""
    num_blocks_held: int
    num_running: int
    """Requests that are computed together."""
    num_waiting: int
    num_steps: int
    num_computed_tokens: int
    """Of prompts, answers and drafts."""
    num_drafted: int
    num_draft_accepted: int


class BackendError(Exception):
    """The backend refused or failed a request; the message is the backend's own."""


class BackendLostError(BackendError):
    """The model cannot be computed any longer; whoever asks next has it loaded anew."""


class RejectedRequestError(BackendError):
    """The request itself is at fault, such as a grammar that cannot be parsed."""


class PromptTooLongError(RejectedRequestError):
    """The prompt does not fit the context; the message gives both numbers."""


class MissingCapabilityError(RejectedRequestError):
    """The request needs something that this backend or model does not offer."""


class Backend(Protocol):
    """One loaded model. Calls come from one event loop; the work runs elsewhere."""

    @property
    def capabilities(self) -> frozenset[Capability]: ...

    @property
    def context_tokens(self) -> int:
        """Tokens that one request may hold, prompt and output together."""
        ...

    @property
    def chat_template(self) -> str | None:
        """The model's Jinja2 chat template, None for a model without one."""
        ...

    @property
    def special_tokens(self) -> dict[str, str]:
        """`bos_token` and `eos_token` as text, for the chat template."""
        ...

    def generate(self, request: GenerateRequest) -> AsyncGenerator[GenerateChunk, None]:
        """Decode. Closing the iterator (`aclose`) stops the work within one decoded token or one
        slice of prefill and keeps the prompt cache.

        Raises: PromptTooLongError, MissingCapabilityError, BackendError.
        """
        ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector a text. The engine gives one text a call, so that keystrokes get in between.

        Raises: MissingCapabilityError, BackendError.
        """
        ...

    async def rerank(self, query: str, documents: Sequence[str]) -> list[float]:
        """One relevance score a document, higher is nearer; of one document a call, as `embed`.

        Raises: MissingCapabilityError, BackendError.
        """
        ...

    async def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        """Token ids; `special` recognises special tokens written in the text.

        Raises: MissingCapabilityError.
        """
        ...

    async def close(self) -> None:
        """Free the model. No call may follow."""
        ...


@runtime_checkable
class Measured(Protocol):
    """A backend that tells what it takes."""

    def stats(self) -> BackendStats:
        """As of now; called from the event loop, and computes nothing."""
        ...


@runtime_checkable
class Reloadable(Protocol):
    """A backend with Capability.RELOAD."""

    async def reload(self, path: Path) -> int:
        """Other weights of the same shapes, from a file or folder, once what runs has ended. Returns
        the version that chunks have from now on.

        Raises: BackendError.
        """
        ...


def check_capabilities(backend: Backend, request: GenerateRequest) -> None:
    """Refuses what the backend would have to ignore.

    Raises: MissingCapabilityError.
    """
    sampling = request.sampling
    penalised = bool(sampling.frequency_penalty or sampling.presence_penalty)
    needs = (
        (penalised, Capability.COUNT_PENALTIES, "frequency_penalty and presence_penalty"),
        (request.return_router_choices, Capability.ROUTER_CHOICES, "return_router_choices"),
    )
    for wanted, capability, name in needs:
        if wanted and capability not in backend.capabilities:
            raise MissingCapabilityError(
                f"this model has no {capability.value}, which {name} need; leave them out"
            )
