"""Our own decoder behind the `Backend` protocol: safetensors or GGUF, on a GPU or the CPU.

Requests are computed together, in steps of one thread (`batching`); their order is kept there, by their
priority. A request that is closed leaves at the end of the step under way.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import psutil
import torch

from composer_inference.backends.base import (
    BackendError,
    BackendStats,
    Capability,
    GenerateChunk,
    GenerateRequest,
    MissingCapabilityError,
    Prompt,
    PromptTooLongError,
    RejectedRequestError,
    check_capabilities,
)
from composer_inference.batching.batcher import Batcher, BatchLimits
from composer_inference.batching.loop import DecodeLoop
from composer_inference.batching.pace import FixedPace, Pace
from composer_inference.batching.sequence import Sequence as Decoding
from composer_inference.batching.step import Stepper
from composer_inference.decoder.config import ConfigReader, MoEConfig
from composer_inference.decoder.model import Decoder
from composer_inference.drafts.drafter import Drafter, Drafts
from composer_inference.kv.pool import KVPool
from composer_inference.kv.prefix_cache import PrefixCache
from composer_inference.sampling.constraint import Constraint, ConstraintFactory
from composer_inference.sampling.sampler import TokenSampler
from composer_inference.sampling.text_stream import TextStream
from composer_inference.sampling.vocabulary import Vocabulary, read_vocabulary
from composer_inference.weights.loading import load_decoder
from composer_inference.weights.open import open_checkpoint

logger = logging.getLogger(__name__)

BLOCK_SIZE = 16
"""Tokens of a cache block, which is what two prompts share at least."""
NUM_CONTEXTS = 8
"""Contexts that a CPU's memory for keys and values holds, where there is as much."""
_DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


@dataclass(frozen=True, kw_only=True, slots=True)
class TorchDecoderConfig:
    path: Path
    """A folder with safetensors and config.json, or a GGUF file."""
    threads: int
    """Compute threads on the CPU; at most one per physical core."""
    context_tokens: int
    """Context of one request at most; the model's own may be less."""
    device: str = "auto"
    """`cuda`, `cpu`, or `auto`: the GPU where there is one."""
    dtype: str = "auto"
    """`f32`, `bf16`, or `auto`: bf16 on a GPU, f32 on a CPU."""
    experts: str = "auto"
    """Format of a mixture's experts: `mxfp8`, `dense` (the dtype), or `auto`: MXFP8 on a GPU, as stored
    on a CPU."""
    cache_bytes: int = 0
    """Memory for keys and values, one context at least. 0: on a GPU four fifths of what is free there, on
    a CPU `NUM_CONTEXTS` contexts or a quarter of what is free."""
    step_tokens: int = 0
    """Tokens of a step at most, but for drafts; 0: as many as take `pace.STEP_S`."""
    max_sequences: int = 0
    """Requests computed together; 0: 64 on a GPU, 8 on a CPU."""


class TorchDecoderBackend:
    """One model. Make it with `load`; the constructor blocks while the weights load."""

    def __init__(self, config: TorchDecoderConfig) -> None:
        """Raises: CheckpointError for files that cannot be used, or a cache that does not fit."""
        device = _device(config.device)
        is_cpu = device.type == "cpu"
        if is_cpu:
            torch.set_num_threads(config.threads)
        dtype = _DTYPES.get(config.dtype, torch.float32 if is_cpu else torch.bfloat16)
        wants_mxfp8 = config.experts == "mxfp8" or (config.experts == "auto" and not is_cpu)
        checkpoint = open_checkpoint(config.path)
        self._vocabulary: Vocabulary = read_vocabulary(
            config.path, num_embeddings=ConfigReader(checkpoint.config).integer("vocab_size")
        )
        decoder = load_decoder(
            checkpoint, dtype=dtype, device=device, experts="mxfp8" if wants_mxfp8 else None
        )
        self._context_tokens = min(config.context_tokens, decoder.config.max_positions)
        num_blocks = _num_blocks(config, decoder, dtype, self._context_tokens)
        self._cache = PrefixCache(num_blocks=num_blocks, block_size=BLOCK_SIZE)
        pool = KVPool(
            decoder.cache_shapes,
            num_blocks=num_blocks,
            block_size=BLOCK_SIZE,
            dtype=dtype,
            device=device,
        )
        self._limits = BatchLimits(
            max_sequences=config.max_sequences or (8 if is_cpu else 64),
            decodes_along=not is_cpu,
        )
        self._constraints = ConstraintFactory(self._vocabulary)
        self.stepper = Stepper(decoder, pool, self._vocabulary)
        pace = FixedPace(config.step_tokens) if config.step_tokens else Pace(32 if is_cpu else 1024)
        self._loop = DecodeLoop(self.stepper, Batcher(self._cache, self._limits), pace)
        self._weights_bytes = sum(parameter.nbytes for parameter in decoder.parameters())
        self._has_router = any(
            isinstance(layer.feed_forward, MoEConfig) for layer in decoder.config.layers
        )

    @classmethod
    async def load(cls, config: TorchDecoderConfig) -> "TorchDecoderBackend":
        return await asyncio.to_thread(cls, config)

    @property
    def capabilities(self) -> frozenset[Capability]:
        found = {
            Capability.TOKENIZE,
            Capability.DRAFT_TEXT,
            Capability.BATCHING,
            Capability.GRAMMAR,
            Capability.LOGPROBS,
            Capability.COUNT_PENALTIES,
            Capability.RELOAD,
        }
        return frozenset(found | {Capability.ROUTER_CHOICES} if self._has_router else found)

    @property
    def context_tokens(self) -> int:
        return self._context_tokens

    @property
    def chat_template(self) -> str | None:
        return self._vocabulary.chat_template

    @property
    def special_tokens(self) -> dict[str, str]:
        return dict(self._vocabulary.special_tokens)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[GenerateChunk, None]:
        check_capabilities(self, request)
        chunks: asyncio.Queue[GenerateChunk | Exception] = asyncio.Queue()
        event_loop = asyncio.get_running_loop()

        def deliver(chunk: GenerateChunk | Exception) -> None:
            event_loop.call_soon_threadsafe(chunks.put_nowait, chunk)

        # Long prompts take a while to tokenise.
        sequence = await asyncio.to_thread(self._sequence, request, deliver)
        self._loop.submit(sequence)
        try:
            while True:
                chunk = await chunks.get()
                if isinstance(chunk, Exception):
                    raise chunk
                yield chunk
                if chunk.finish_reason is not None:
                    return
        finally:
            self._loop.cancel(sequence)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        raise MissingCapabilityError("this backend embeds nothing")

    async def rerank(self, query: str, documents: Sequence[str]) -> list[float]:
        raise MissingCapabilityError("this backend ranks nothing")

    async def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        return await asyncio.to_thread(self._vocabulary.encode, text, special=special)

    async def reload(self, path: Path) -> int:
        """Puts another checkpoint's weights in place, of the same shapes, once what runs has ended.
        Returns the version that the chunks have from now on.

        Raises: CheckpointError; the old weights are in place then.
        """
        checkpoint = await asyncio.to_thread(open_checkpoint, path)
        return await asyncio.wrap_future(
            self._loop.when_idle(lambda: self.stepper.reload(checkpoint, self._cache))
        )

    def stats(self) -> BackendStats:
        # Read while the loop's thread works: each number is right by itself, as of about now.
        counts, num_running = self.stepper.counts, self._loop.num_running
        num_free, num_cached = self._cache.num_free, self._cache.num_cached
        return BackendStats(
            weights_bytes=self._weights_bytes,
            kv_cache_bytes=self.stepper.pool.num_bytes,
            num_blocks_free=num_free,
            num_blocks_cached=num_cached,
            num_blocks_held=max(0, self._cache.num_blocks - num_free - num_cached),
            num_running=num_running,
            num_waiting=self._loop.num_waiting,
            num_steps=counts.num_steps,
            num_computed_tokens=counts.num_tokens,
            num_drafted=counts.num_drafted,
            num_draft_accepted=counts.num_draft_accepted,
        )

    async def close(self) -> None:
        await asyncio.to_thread(self._loop.close)

    def _sequence(self, request: GenerateRequest, deliver: "_Deliver") -> Decoding:
        """Raises: PromptTooLongError, RejectedRequestError."""
        tokens = self._prompt_ids(request)
        sampling = request.sampling
        if len(tokens) + (sampling.max_tokens > 0) > self._context_tokens:
            raise PromptTooLongError(
                f"the prompt has {len(tokens):,} tokens, and the context holds "
                f"{self._context_tokens:,}, the answer's among them"
            )
        max_tokens = min(sampling.max_tokens, self._context_tokens - len(tokens))
        request = replace(request, sampling=replace(sampling, max_tokens=max_tokens))
        return Decoding(
            request=request,
            tokens=tokens,
            sampler=TokenSampler(request.sampling, tokens, self._vocabulary.size),
            text=TextStream(self._vocabulary, sampling.stop),
            deliver=deliver,
            constraint=self._constraint(request),
            drafter=self._drafter(request, tokens),
        )

    def _prompt_ids(self, request: GenerateRequest) -> list[int]:
        ids: list[int] = []
        for piece in _joined(request.prompt):
            ids += self._vocabulary.encode(piece) if isinstance(piece, str) else [piece]
        bos = self._vocabulary.bos_id
        if self._vocabulary.adds_bos and bos is not None and ids[:1] != [bos]:
            ids.insert(0, bos)
        unknown = [token_id for token_id in ids if not 0 <= token_id < self._vocabulary.size]
        if unknown:
            raise RejectedRequestError(
                f"the prompt holds the token {unknown[0]}; the model's are 0 to "
                f"{self._vocabulary.size - 1}"
            )
        if not ids:
            raise RejectedRequestError(
                "the prompt is empty, and the model has no token to begin with"
            )
        return ids

    def _constraint(self, request: GenerateRequest) -> Constraint | None:
        if request.json_schema is not None:
            return self._constraints.json_schema(request.json_schema)
        return None if request.grammar is None else self._constraints.gbnf(request.grammar)

    def _drafter(self, request: GenerateRequest, tokens: list[int]) -> Drafter:
        text = request.draft_text
        prediction = () if text is None else self._vocabulary.encode(text, special=False)
        return Drafts(tokens, prediction)


_Deliver = Callable[[GenerateChunk | Exception], None]


def _joined(prompt: Prompt) -> Iterator[str | int]:
    """Texts that follow each other are one text to the tokenizer."""
    for is_text, pieces in groupby(prompt, key=lambda piece: isinstance(piece, str)):
        if is_text:
            yield "".join(map(str, pieces))
        else:
            yield from pieces


def _device(name: str) -> torch.device:
    """Raises: BackendError."""
    has_gpu = torch.cuda.is_available()
    if name == "cuda" and not has_gpu:
        raise BackendError("torch finds no CUDA device; --device cpu computes without one")
    return torch.device("cuda" if has_gpu and name != "cpu" else "cpu")


def _num_blocks(
    config: TorchDecoderConfig, decoder: Decoder, dtype: torch.dtype, context_tokens: int
) -> int:
    """Raises: BackendError if the memory asked for does not hold one context."""
    block_bytes = KVPool.block_bytes(decoder.cache_shapes, block_size=BLOCK_SIZE, dtype=dtype)
    least = -(-context_tokens // BLOCK_SIZE)
    if not config.cache_bytes:
        if _device(config.device).type == "cuda":
            return max(least, int(0.8 * torch.cuda.mem_get_info()[0]) // block_bytes)
        fitting = psutil.virtual_memory().available // 4 // block_bytes
        return max(least, min(fitting, NUM_CONTEXTS * least))
    num_blocks = config.cache_bytes // block_bytes
    if num_blocks < least:
        raise BackendError(
            f"a context of {context_tokens:,} tokens takes {least * block_bytes:,} bytes of cache, "
            f"and {config.cache_bytes:,} are given; give more, or a smaller --context-tokens"
        )
    return num_blocks
