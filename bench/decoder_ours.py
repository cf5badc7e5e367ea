"""Our own decoder with its scheduler, as the engine runs it on a CPU, without the engine around it."""

import queue
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from bench.measure import Product, Seconds
from composer_inference.backends.base import GenerateChunk, GenerateRequest, SamplingParams
from composer_inference.backends.torch_decoder import BLOCK_SIZE
from composer_inference.batching.batcher import Batcher, BatchLimits
from composer_inference.batching.loop import DecodeLoop
from composer_inference.batching.pace import Pace
from composer_inference.batching.sequence import Sequence as Decoding
from composer_inference.batching.step import Stepper
from composer_inference.decoder.layers.linear import Linear
from composer_inference.decoder.model import Decoder
from composer_inference.drafts.drafter import Drafter, Drafts
from composer_inference.kv.pool import KVPool
from composer_inference.kv.prefix_cache import PrefixCache
from composer_inference.models.store import ModelStore
from composer_inference.sampling.sampler import TokenSampler
from composer_inference.sampling.text_stream import TextStream
from composer_inference.sampling.vocabulary import Vocabulary
from composer_inference.weights.checkpoint import Checkpoint
from composer_inference.weights.loading import load_decoder

CPU = torch.device("cpu")
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
NUM_BLOCKS = 512


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    token_ids: list[int]
    first: Seconds
    """From the request to the first token."""
    rest: Seconds
    """From the first token to the last."""


class Ours:
    """Make it with `opened` or `of`."""

    def __init__(self, decoder: Decoder, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.decoder = decoder
        shapes, dtype = decoder.cache_shapes, decoder.embedding.dtype
        self.pool = KVPool(
            shapes, num_blocks=NUM_BLOCKS, block_size=BLOCK_SIZE, dtype=dtype, device=CPU
        )
        self.cache_bytes_per_token = (
            KVPool.block_bytes(shapes, block_size=BLOCK_SIZE, dtype=dtype) // BLOCK_SIZE
        )
        self.stepper = Stepper(self.decoder, self.pool, vocabulary)
        cache = PrefixCache(num_blocks=NUM_BLOCKS, block_size=BLOCK_SIZE)
        limits = BatchLimits(max_sequences=8)
        self.pace = Pace(NUM_BLOCKS * BLOCK_SIZE, learns=False)
        """The tokens of a step may be changed between requests; at first a prompt is one step."""
        self._loop = DecodeLoop(self.stepper, Batcher(cache, limits), self.pace)

    @classmethod
    @contextmanager
    def opened(
        cls, checkpoint: Checkpoint, vocabulary: Vocabulary, dtype: torch.dtype
    ) -> "Generator[Ours]":
        with cls.of(load_decoder(checkpoint, dtype=dtype, device=CPU), vocabulary) as ours:
            yield ours

    @classmethod
    @contextmanager
    def of(cls, decoder: Decoder, vocabulary: Vocabulary) -> "Generator[Ours]":
        ours = cls(decoder, vocabulary)
        try:
            yield ours
        finally:
            ours._loop.close()

    def answer(self, prompt_ids: Sequence[int], max_tokens: int) -> Answer:
        """Greedy, so many tokens, without drafts."""
        return self.answers([prompt_ids], max_tokens)[0]

    def edit(
        self, prompt_ids: Sequence[int], max_tokens: int, prediction: Sequence[int] | None
    ) -> Answer:
        """Greedy, to the model's end; drafts only with a prediction."""
        drafter = None if prediction is None else Drafts(prompt_ids, prediction)
        return self._run([prompt_ids], max_tokens, drafter, ignore_eos=False)[0]

    def answers(self, prompts: Sequence[Sequence[int]], max_tokens: int) -> list[Answer]:
        """Computed together, without drafts."""
        return self._run(prompts, max_tokens, None, ignore_eos=True)

    def products(self) -> list[Product]:
        """Of the layers, and at the end the output's, with the weights as they are kept."""
        linears = [module for module in self.decoder.blocks.modules() if isinstance(module, Linear)]
        dims = [(module, module.weight.shape[1]) for module in linears]
        return [*dims, (self.decoder.logits, self.decoder.config.model_dim)]

    def _run(
        self,
        prompts: Sequence[Sequence[int]],
        max_tokens: int,
        drafter: Drafter | None,
        *,
        ignore_eos: bool,
    ) -> list[Answer]:
        chunks: queue.SimpleQueue[tuple[int, Seconds, GenerateChunk | Exception]] = (
            queue.SimpleQueue()
        )
        sampling = SamplingParams(max_tokens=max_tokens, ignore_eos=ignore_eos)
        start = Seconds.now()
        for number, prompt_ids in enumerate(prompts):

            def deliver(chunk: GenerateChunk | Exception, number: int = number) -> None:
                chunks.put((number, Seconds.now(), chunk))

            self._loop.submit(
                Decoding(
                    request=GenerateRequest(prompt=tuple(prompt_ids), sampling=sampling),
                    tokens=list(prompt_ids),
                    sampler=TokenSampler(sampling, prompt_ids, self._vocabulary.size),
                    text=TextStream(self._vocabulary, ()),
                    deliver=deliver,
                    drafter=drafter,
                )
            )
        return _collected(chunks, len(prompts), start)


def _collected(
    chunks: "queue.SimpleQueue[tuple[int, Seconds, GenerateChunk | Exception]]",
    num_prompts: int,
    start: Seconds,
) -> list[Answer]:
    token_ids: list[list[int]] = [[] for _ in range(num_prompts)]
    first: dict[int, Seconds] = {}
    last: dict[int, Seconds] = {}
    num_left = num_prompts
    while num_left:
        number, when, chunk = chunks.get()
        if isinstance(chunk, Exception):
            raise chunk
        if chunk.token_ids:
            first.setdefault(number, when)
            last[number] = when
            token_ids[number] += chunk.token_ids
        num_left -= chunk.finish_reason is not None
    return [
        Answer(token_ids=ids, first=first[number] - start, rest=last[number] - first[number])
        for number, ids in enumerate(token_ids)
    ]


def model_files() -> dict[str, Path]:
    """Of the models measured, by name."""
    store = ModelStore()
    return {name: store.path(name) for name in ("smollm2-135m", "qwen2.5-coder-0.5b")}
