"""What our own decoder is told of a model and of the machine. Knows no torch, which takes seconds to import."""

from dataclasses import dataclass, field
from pathlib import Path

from composer_inference.decoder.parallel.shard import ParallelConfig, ParallelError

NUM_CONTEXTS = 8
"""Contexts that a CPU's memory for keys and values holds, where there is as much."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DecoderOptions:
    """Those of every model alike."""

    device: str = "auto"
    """`cuda`, `cpu`, or `auto`: the GPU where there is one."""
    dtype: str = "auto"
    """`f32`, `bf16`, or `auto`: bf16 on a GPU, and on a CPU with instructions for it (AVX-512 BF16)."""
    experts: str = "auto"
    """Format of a mixture's experts: `mxfp8`, `dense` (the dtype), or `auto`: as stored where that is
    MXFP8 or MXFP4, else MXFP8 on a GPU and the dtype on a CPU."""
    parallel: ParallelConfig = field(default_factory=ParallelConfig)
    cache_bytes: int = 0
    """Each rank's memory for keys and values, a draft model's among them; one context at least. 0: on a
    GPU four fifths of what is free there, on a CPU `NUM_CONTEXTS` contexts or a quarter of what is free."""
    step_tokens: int = 0
    """Tokens of a step at most, but for drafts; 0: as many as take `pace.STEP_S`."""
    max_sequences: int = 0
    """Requests computed together; 0: 64 on a GPU, 8 on a CPU."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TorchDecoderConfig:
    """One model's. Raises: ParallelError for a draft model of several ranks."""

    path: Path
    """A folder with safetensors and config.json, or a GGUF file."""
    threads: int
    """Compute threads on the CPU, of all ranks; at most one per physical core."""
    context_tokens: int
    """Context of one request at most; the model's own may be less."""
    options: DecoderOptions = field(default_factory=DecoderOptions)
    draft_path: Path | None = None
    """A smaller model with the same vocabulary, which drafts where nothing else does. None: none."""

    def __post_init__(self) -> None:
        if self.draft_path is not None and self.options.parallel.num_ranks > 1:
            raise ParallelError(
                "a draft model goes with one process; leave out --tp and --ep, or --draft-model"
            )
