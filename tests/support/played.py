"""A backend whose answers a test plays, with the capabilities that the scripted one lacks."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Sequence

from composer_inference.api.service import UnknownModelError
from composer_inference.backends.base import (
    Backend,
    BackendError,
    Capability,
    GenerateChunk,
    GenerateRequest,
    MissingCapabilityError,
    Timings,
    TokenLogprob,
)
from composer_inference.loader import Purpose

Answer = Callable[[GenerateRequest], str]

HANG = "\0"
"""A character of an answer at which nothing comes any more."""


class PlayedBackend:
    """Streams what `answer` says to a request, a character a token."""

    context_tokens = 1000

    def __init__(
        self,
        answer: Answer | str = "",
        *,
        capabilities: Sequence[Capability] = (Capability.GRAMMAR, Capability.LOGPROBS),
        chat_template: str | None = None,
    ) -> None:
        self.answer = answer if callable(answer) else lambda _: answer
        self.capabilities = frozenset(capabilities)
        self.chat_template = chat_template
        self.special_tokens = {"bos_token": "<s>", "eos_token": "</s>"}
        self.requests: list[GenerateRequest] = []
        self.hanging = threading.Event()
        self.closed = threading.Event()
        """Set when a generation ended, in whatever way."""
        self.closings = threading.Semaphore(0)
        """Counts them."""

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[GenerateChunk, None]:
        self.requests.append(request)
        num_prompt = sum(len(piece) if isinstance(piece, str) else 1 for piece in request.prompt)
        text = self.answer(request)
        try:
            for num_decoded, character in enumerate(text[: request.sampling.max_tokens], start=1):
                if character == HANG:
                    self.hanging.set()
                    await asyncio.Event().wait()
                yield GenerateChunk(
                    text=character,
                    token_ids=(ord(character),),
                    logprobs=(_logprob(character),),
                    timings=Timings(num_prefill_tokens=num_prompt, num_decoded_tokens=num_decoded),
                )
            num_decoded = min(len(text), request.sampling.max_tokens)
            yield GenerateChunk(
                finish_reason="stop" if num_decoded == len(text) else "length",
                timings=Timings(num_prefill_tokens=num_prompt, num_decoded_tokens=num_decoded),
            )
        finally:
            self.closed.set()
            self.closings.release()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self._need(Capability.EMBED)
        return [[float(len(text)), 0.5] for text in texts]

    async def rerank(self, query: str, documents: Sequence[str]) -> list[float]:
        self._need(Capability.RERANK)
        return [float(document.count(query)) for document in documents]

    async def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        self._need(Capability.TOKENIZE)
        return [ord(character) for character in text]

    async def close(self) -> None:
        return

    def _need(self, capability: Capability) -> None:
        if capability not in self.capabilities:
            raise MissingCapabilityError(f"this model has no {capability.value}")


class PlayedLoader:
    """One backend under the name `played`, and a model that does not load under `broken`."""

    threads = 1

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def available(self) -> dict[str, int]:
        return {"played": 7, "broken": 0}

    def resolve(self, model: str) -> str:
        name = "played" if model == "auto" else model
        if name not in self.available():
            raise UnknownModelError(name, tuple(self.available()))
        return name

    def purpose(self, name: str) -> Purpose:
        return "generate"

    async def load(self, name: str) -> Backend:
        if name == "broken":
            raise BackendError("broken.gguf is cut short")
        return self._backend


def _logprob(character: str) -> TokenLogprob:
    return TokenLogprob(
        token=character,
        token_id=ord(character),
        logprob=-0.5,
        top=((character, -0.5), ("?", -2.0), ("!", -3.0)),
    )
