"""Our own decoder behind the `Backend` protocol: safetensors or GGUF, on a GPU or the CPU.

Requests are computed together, in steps of one thread (`batching`); their order is kept there, by their
priority. A request that is closed leaves at the end of the step under way.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from composer_inference.backends.base import (
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
from composer_inference.backends.torch_config import TorchDecoderConfig
from composer_inference.backends.torch_rank import BLOCK_SIZE, TorchRank, follow
from composer_inference.batching.batcher import Batcher, BatchLimits
from composer_inference.batching.draft_model import DraftModel, ModelDrafter, load_draft_decoder
from composer_inference.batching.followers import Followers
from composer_inference.batching.loop import DecodeLoop
from composer_inference.batching.pace import Pace
from composer_inference.batching.sequence import Sequence as Decoding
from composer_inference.batching.step import Stepper
from composer_inference.decoder.config import ConfigReader, MoEConfig
from composer_inference.decoder.graphs import CudaCapture, DecodeGraphs
from composer_inference.decoder.model import Decoder
from composer_inference.drafts.drafter import Drafter, Drafts
from composer_inference.kv.pool import KVPool
from composer_inference.kv.prefix_cache import PrefixCache
from composer_inference.sampling.constraint import Constraint, ConstraintFactory
from composer_inference.sampling.sampler import TokenSampler
from composer_inference.sampling.text_stream import TextStream
from composer_inference.sampling.vocabulary import Vocabulary, read_vocabulary
from composer_inference.weights.checkpoint import Checkpoint
from composer_inference.weights.open import open_checkpoint

logger = logging.getLogger(__name__)


class TorchDecoderBackend:
    """One model. Make it with `load`; the constructor blocks while the weights load."""

    def __init__(self, config: TorchDecoderConfig) -> None:
        """Raises: as `TorchRank` and `load_draft_decoder`, and FollowersError where another rank cannot load its part."""
        num_ranks = config.options.parallel.num_ranks
        self._followers = Followers(follow, config, num_ranks=num_ranks) if num_ranks > 1 else None
        with ExitStack() as on_error:
            if self._followers is not None:
                on_error.callback(self._followers.kill)
            self._load(config)
            on_error.pop_all()

    def _load(self, config: TorchDecoderConfig) -> None:
        followers, options = self._followers, config.options
        checkpoint = open_checkpoint(config.path)
        self._vocabulary: Vocabulary = read_vocabulary(
            config.path, num_embeddings=ConfigReader(checkpoint.config).integer("vocab_size")
        )
        meeting_point = None if followers is None else followers.meeting_point
        model = TorchRank(config, checkpoint, meeting_point=meeting_point)
        decoder, is_cpu = model.decoder, model.device.type == "cpu"
        draft_decoder = self._load_draft_decoder(config, checkpoint, model)
        draft_shapes = () if draft_decoder is None else draft_decoder.cache_shapes
        loaded = [model.loaded(draft_shapes)]
        if followers is not None:
            loaded += followers.loaded()
        num_blocks = min(each.num_blocks for each in loaded)
        if followers is not None:
            followers.begin(num_blocks)
        pool = model.begin(num_blocks)
        self._context_tokens = model.context_tokens
        self._cache = PrefixCache(num_blocks=num_blocks, block_size=BLOCK_SIZE)
        self._limits = BatchLimits(
            max_sequences=options.max_sequences or (8 if is_cpu else 64),
            decodes_along=not is_cpu,
        )
        self._constraints = ConstraintFactory(self._vocabulary)
        graphs = None if followers is not None else _graphs(decoder, pool)
        self.stepper = Stepper(decoder, pool, self._vocabulary, followers, graphs)
        self._draft_model = None
        if draft_decoder is not None:
            draft_pool = model.pool(draft_shapes, num_blocks)
            self._draft_model = DraftModel(
                draft_decoder,
                draft_pool,
                self._vocabulary,
                graphs=_graphs(draft_decoder, draft_pool),
            )
        first = options.step_tokens or (32 if is_cpu else 1024)
        pace = Pace(first, learns=not options.step_tokens)
        batcher = Batcher(self._cache, self._limits, self._draft_model)
        self._loop = DecodeLoop(self.stepper, batcher, pace)
        self._weights_bytes = sum(each.weights_bytes for each in loaded)
        self._cache_bytes = pool.num_bytes * options.parallel.num_ranks
        if self._draft_model is not None:
            self._weights_bytes += self._draft_model.weights_bytes
            self._cache_bytes += self._draft_model.pool.num_bytes
        self._has_router = any(
            isinstance(layer.feed_forward, MoEConfig) for layer in decoder.config.layers
        )

    def _load_draft_decoder(
        self, config: TorchDecoderConfig, checkpoint: Checkpoint, model: TorchRank
    ) -> Decoder | None:
        """Raises: as `load_draft_decoder`."""
        if config.draft_path is None:
            return None
        return load_draft_decoder(
            config.draft_path,
            self._vocabulary,
            checkpoint,
            dtype=model.dtype,
            device=model.device,
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
            with suppress(RuntimeError):  # The loop was closed under us; nobody listens any more.
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

        Raises: CheckpointError, and the old weights are in place then; BackendLostError where some
            weights, or those of some ranks, are others than the rest.
        """
        checkpoint = await asyncio.to_thread(open_checkpoint, path)

        def put_in_place() -> int:
            followers = self._followers
            with nullcontext() if followers is None else followers.reloading(path):
                return self.stepper.reload(checkpoint, self._cache)

        return await asyncio.wrap_future(self._loop.when_idle(put_in_place))

    def stats(self) -> BackendStats:
        # Read while the loop's thread works: each number is right by itself, as of about now.
        counts, num_running = self.stepper.counts, self._loop.num_running
        num_free, num_cached = self._cache.num_free, self._cache.num_cached
        return BackendStats(
            weights_bytes=self._weights_bytes,
            kv_cache_bytes=self._cache_bytes,
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
        if self._followers is not None:
            await asyncio.to_thread(self._followers.close)

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
        otherwise = None
        if self._draft_model is not None:
            otherwise = ModelDrafter(self._draft_model, tokens)
        return Drafts(tokens, prediction, otherwise)


def _graphs(decoder: Decoder, pool: KVPool) -> DecodeGraphs | None:
    return DecodeGraphs(decoder, pool, CudaCapture()) if pool.device.type == "cuda" else None


_Deliver = Callable[[GenerateChunk | Exception], None]


def _joined(prompt: Prompt) -> Iterator[str | int]:
    """Texts that follow each other are one text to the tokenizer."""
    for is_text, pieces in groupby(prompt, key=lambda piece: isinstance(piece, str)):
        if is_text:
            yield "".join(map(str, pieces))
        else:
            yield from pieces
