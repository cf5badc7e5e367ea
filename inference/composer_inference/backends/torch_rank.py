"""One rank's part of our own decoder: all of it, or what one of several processes computes."""

import signal
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import psutil
import torch

from composer_inference.backends.base import BackendError
from composer_inference.backends.torch_config import NUM_CONTEXTS, TorchDecoderConfig
from composer_inference.batching.followers import Begin, Compute, Failed, Loaded, Reload
from composer_inference.decoder.batch import Batch
from composer_inference.decoder.parallel.group import RankGroup
from composer_inference.decoder.parallel.lifeline import end_with_parent
from composer_inference.decoder.parallel.parallel import Parallel
from composer_inference.kv.pool import CacheShape, KVPool
from composer_inference.weights.checkpoint import Checkpoint
from composer_inference.weights.loading import load_decoder, reload_decoder
from composer_inference.weights.open import open_checkpoint

BLOCK_SIZE = 16
"""Tokens of a cache block, which is what two prompts share at least."""
_DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


class TorchRank:
    """The decoder with its memory."""

    def __init__(
        self,
        config: TorchDecoderConfig,
        checkpoint: Checkpoint,
        *,
        rank: int = 0,
        meeting_point: Path | None = None,
    ) -> None:
        """`meeting_point`: of `RankGroup`; None: of one rank.

        Raises: CheckpointError for files that cannot be used, ParallelError for a model that cannot
            be shared out so, BackendError for a device that is not there.
        """
        self._config = config
        options = config.options
        num_ranks = options.parallel.num_ranks
        self.device = _device(config, rank)
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        else:
            torch.set_num_threads(max(1, config.threads // num_ranks))
        is_cpu = self.device.type == "cpu"
        self.dtype = _DTYPES.get(options.dtype) or _best_dtype(self.device)
        # Those that are stored in MXFP8 or MXFP4 stay so.
        may_quantize = not is_cpu and not checkpoint.config.get("quantization_config")
        wants_mxfp8 = options.experts == "mxfp8" or (options.experts == "auto" and may_quantize)
        self._group = None
        if meeting_point is not None:
            self._group = RankGroup(meeting_point, rank=rank, num_ranks=num_ranks)
        self.decoder = load_decoder(
            checkpoint,
            dtype=self.dtype,
            device=self.device,
            experts="mxfp8" if wants_mxfp8 else None,
            parallel=Parallel(config=options.parallel, rank=rank, group=self._group),
        )
        self.context_tokens = min(config.context_tokens, self.decoder.config.max_positions)

    def loaded(self, draft_shapes: Sequence[CacheShape] = ()) -> Loaded:
        """`draft_shapes`: what a draft model keeps of each token too.

        Raises: BackendError for a cache that is too small.
        """
        num_blocks = self._num_blocks([*self.decoder.cache_shapes, *draft_shapes])
        return Loaded(num_blocks=num_blocks, weights_bytes=self.decoder.num_bytes)

    def begin(self, num_blocks: int) -> KVPool:
        """Makes the cache, and connects with the other ranks.

        Raises: RuntimeError if one of them does not come.
        """
        pool = self.pool(self.decoder.cache_shapes, num_blocks)
        if self._group is not None:
            self._group.connect(self.device)
        return pool

    def pool(self, shapes: Sequence[CacheShape], num_blocks: int) -> KVPool:
        return KVPool(
            shapes,
            num_blocks=num_blocks,
            block_size=BLOCK_SIZE,
            dtype=self.dtype,
            device=self.device,
        )

    def _num_blocks(self, shapes: Sequence[CacheShape]) -> int:
        """Raises: BackendError if the memory asked for does not hold one context."""
        context_tokens, cache_bytes = self.context_tokens, self._config.options.cache_bytes
        block_bytes = KVPool.block_bytes(shapes, block_size=BLOCK_SIZE, dtype=self.dtype)
        least = -(-context_tokens // BLOCK_SIZE)
        if not cache_bytes:
            if self.device.type == "cuda":
                free_bytes = torch.cuda.mem_get_info(self.device)[0]
                return max(least, int(0.8 * free_bytes) // block_bytes)
            fitting = psutil.virtual_memory().available // 4 // block_bytes
            return max(least, min(fitting, NUM_CONTEXTS * least))
        num_blocks = cache_bytes // block_bytes
        if num_blocks < least:
            raise BackendError(
                f"a context of {context_tokens:,} tokens takes {least * block_bytes:,} bytes of cache, "
                f"and {cache_bytes:,} are given; give more, or a smaller --context-tokens"
            )
        return num_blocks


def follow(config: TorchDecoderConfig, rank: int, meeting_point: Path, pipe: Connection) -> None:
    """A process that computes what the first rank says, until that closes the pipe."""
    # The terminal's Ctrl+C reaches all; the first rank ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    try:
        checkpoint = open_checkpoint(config.path)
        model = TorchRank(config, checkpoint, rank=rank, meeting_point=meeting_point)
    except (BackendError, RuntimeError, MemoryError, OSError) as error:
        pipe.send(Failed(str(error)))
        return
    pipe.send(model.loaded())
    with suppress(EOFError):
        _compute(model, pipe)


def _compute(model: TorchRank, pipe: Connection) -> None:
    """Raises: EOFError when the pipe is closed."""
    begin: Begin = pipe.recv()
    pool = model.begin(begin.num_blocks)
    while True:
        message: Compute | Reload = pipe.recv()
        if isinstance(message, Compute):
            batch = Batch.of(message.spans, block_size=pool.block_size, device=pool.device)
            with torch.inference_mode():
                model.decoder(batch, pool)
        else:
            pipe.send(_reload(model, message.path))


def _reload(model: TorchRank, path: Path) -> Failed | None:
    try:
        reload_decoder(model.decoder, open_checkpoint(path))
    except (BackendError, OSError) as error:
        return Failed(str(error))
    return None


def _best_dtype(device: torch.device) -> torch.dtype:
    has_bf16 = device.type == "cuda" or torch.cpu._is_avx512_bf16_supported()  # pyright: ignore[reportPrivateUsage]
    return torch.bfloat16 if has_bf16 else torch.float32


def _device(config: TorchDecoderConfig, rank: int) -> torch.device:
    """Raises: BackendError."""
    num_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    num_ranks = config.options.parallel.num_ranks
    if config.options.device == "cpu" or (config.options.device == "auto" and not num_gpus):
        return torch.device("cpu")
    if not num_gpus:
        raise BackendError("torch finds no CUDA device; --device cpu computes without one")
    if num_gpus < num_ranks:
        raise BackendError(
            f"{num_ranks} ranks need a GPU each, and torch finds {num_gpus}; give smaller"
            " --tp and --ep"
        )
    return torch.device("cuda", rank)
