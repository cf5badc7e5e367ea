"""A decoder small enough to be decoded plainly beside the batches, and a vocabulary of bytes."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from composer_inference.backends.base import GenerateChunk, GenerateRequest, SamplingParams
from composer_inference.batching.batcher import Batcher, BatchLimits, StepDrafts
from composer_inference.batching.loop import DecodeLoop
from composer_inference.batching.pace import Pace
from composer_inference.batching.sequence import Sequence
from composer_inference.batching.step import Stepper
from composer_inference.decoder.batch import Batch, Span
from composer_inference.decoder.config import (
    AttentionConfig,
    DecoderConfig,
    LayerConfig,
    MLPConfig,
)
from composer_inference.decoder.model import Decoder
from composer_inference.decoder.rope import RopeConfig
from composer_inference.drafts.drafter import Drafter
from composer_inference.kv.pool import KVPool
from composer_inference.kv.prefix_cache import PrefixCache
from composer_inference.priority import Priority
from composer_inference.sampling.sampler import TokenSampler
from composer_inference.sampling.text_stream import TextStream

EOS = 64
VOCABULARY_SIZE = 65
BLOCK_SIZE = 4
CPU = torch.device("cpu")


class ByteVocabulary:
    """Ids 0 to 63 are the bytes from the blank on; one more ends a text."""

    size = VOCABULARY_SIZE
    eos_ids = frozenset({EOS})
    bos_id = None
    adds_bos = False
    chat_template = None
    special_tokens: Mapping[str, str] = {}

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        return [byte - 32 for byte in text.encode()]

    def token_bytes(self, token_id: int) -> bytes:
        return b"" if token_id == EOS else bytes([token_id + 32])

    def token_text(self, token_id: int) -> str:
        return "<eos>" if token_id == EOS else chr(token_id + 32)


def tiny_decoder(seed: int = 0) -> Decoder:
    attention = AttentionConfig(num_heads=2, num_kv_heads=1, head_dim=8)
    layer = LayerConfig(attention=attention, feed_forward=MLPConfig(hidden_dim=32))
    config = DecoderConfig(
        family="llama",
        vocab_size=VOCABULARY_SIZE,
        model_dim=16,
        max_positions=512,
        norm_eps=1e-6,
        tie_embeddings=False,
        rope=RopeConfig(theta=10000.0, dim=8),
        layers=(layer, layer),
    )
    generator = torch.Generator().manual_seed(seed)
    decoder = Decoder(config, dtype=torch.float64)
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
            parameter.requires_grad_(False)
    return decoder


def pool_of(decoder: Decoder, num_blocks: int) -> KVPool:
    return KVPool(
        decoder.cache_shapes,
        num_blocks=num_blocks,
        block_size=BLOCK_SIZE,
        dtype=decoder.embedding.dtype,
        device=CPU,
    )


def greedy(decoder: Decoder, prompt: list[int], num_tokens: int) -> list[int]:
    """Decoded plainly: a token at a time, the whole text anew for each, to the end or the limit."""
    tokens = list(prompt)
    with torch.inference_mode():
        for _ in range(num_tokens):
            num_blocks = -(-len(tokens) // BLOCK_SIZE)
            span = Span(token_ids=tokens, num_cached=0, blocks=range(num_blocks))
            batch = Batch.of([span], block_size=BLOCK_SIZE, device=CPU)
            tokens.append(int(decoder(batch, pool_of(decoder, num_blocks))[0].argmax()))
            if tokens[-1] == EOS:
                break
    return tokens[len(prompt) :]


@dataclass
class Received:
    """What a sequence was given."""

    chunks: list[GenerateChunk] = field(default_factory=list)
    error: Exception | None = None

    def __call__(self, chunk: GenerateChunk | Exception) -> None:
        if isinstance(chunk, Exception):
            self.error = chunk
        else:
            self.chunks.append(chunk)

    @property
    def token_ids(self) -> list[int]:
        return [token_id for chunk in self.chunks for token_id in chunk.token_ids]

    @property
    def text(self) -> str:
        return "".join(chunk.text for chunk in self.chunks)

    @property
    def is_finished(self) -> bool:
        return bool(self.chunks) and self.chunks[-1].finish_reason is not None


def sequence_of(
    prompt: list[int],
    received: Received,
    *,
    priority: Priority = Priority.AGENT,
    drafter: Drafter | None = None,
    stop: tuple[str, ...] = (),
    **sampling: float,
) -> Sequence:
    params = SamplingParams(**{"max_tokens": 8, **sampling}, stop=stop)  # pyright: ignore[reportArgumentType]
    vocabulary = ByteVocabulary()
    return Sequence(
        request=GenerateRequest(prompt=tuple(prompt), sampling=params, priority=priority),
        tokens=list(prompt),
        sampler=TokenSampler(params, prompt, vocabulary.size),
        text=TextStream(vocabulary, stop),
        deliver=received,
        drafter=drafter,
    )


@dataclass
class Machine:
    """The batches without their thread: a step at a time, from the test."""

    decoder: Decoder
    cache: PrefixCache
    stepper: Stepper
    batcher: Batcher
    max_tokens: int

    @classmethod
    def of(
        cls,
        decoder: Decoder,
        *,
        num_blocks: int = 64,
        max_tokens: int = 16,
        drafts: StepDrafts | None = None,
        **limits: int | bool,
    ) -> "Machine":
        cache = PrefixCache(num_blocks=num_blocks, block_size=BLOCK_SIZE)
        stepper = Stepper(decoder, pool_of(decoder, num_blocks), ByteVocabulary())
        values = {"max_sequences": 4, **limits}
        batcher = Batcher(cache, BatchLimits(**values), drafts)  # pyright: ignore[reportArgumentType]
        return cls(decoder, cache, stepper, batcher, max_tokens)

    def step(self) -> int:
        """Tokens that were computed."""
        works = self.batcher.plan(self.max_tokens)
        chunks = self.stepper.run(works) if works else []
        for work, chunk in zip(works, chunks, strict=True):
            work.sequence.deliver(chunk)
            if isinstance(chunk, Exception) or chunk.finish_reason is not None:
                self.batcher.remove(work.sequence)
        return sum(work.num_tokens + len(work.draft) for work in works)

    def run(self) -> int:
        """Steps until nothing is left."""
        num_steps = 0
        while self.batcher.sequences:
            assert self.step(), "nothing is computed, and something waits"
            num_steps += 1
        return num_steps


def loop_of(machine: Machine) -> DecodeLoop:
    return DecodeLoop(machine.stepper, machine.batcher, Pace(machine.max_tokens, learns=False))
