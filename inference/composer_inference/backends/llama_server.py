"""Starts xllamacpp's in-process server on one GGUF file (xllamacpp 2026.10, llama.cpp b11549).

- The server always opens an HTTP listener. It gets a Unix socket in the engine's private runtime
  folder, which is removed at once, and a random key, so that nobody can reach it.
- Its OpenMP threads spin while they wait for each other, which starves them on a busy machine and
  is what makes them fast on an idle one. A short spin keeps both (docs/decisions/0001).
- A draft that does not fit a batch together with the token before it aborts the process.
"""

import importlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from composer_inference.backends.base import BackendError
from composer_inference.endpoint import socket_path

NUM_SLOTS = 3
"""Prompts whose KV cache stays: two files being edited and one long generation."""

SLOT_SIMILARITY = 0.005
"""Share of a prompt that must match a slot's cache for the slot to be reused. Small, so that a
prefill stopped after its first slices finds them again."""

SPIN_COUNT = 5000
"""Turns that a thread waits for the others before it sleeps, unless the user has set
`GOMP_SPINCOUNT` or `OMP_WAIT_POLICY`."""

DRAFT_KEY_TOKENS = 6
"""Tokens that must have stood in a row before, for those that followed them to be drafted. Fewer
draft wrongly after common lines, more decode longer without drafts behind each difference."""

MAX_DRAFT_TOKENS = 31
"""Longer drafts are verified hardly faster and lose more behind each difference."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LlamaCppConfig:
    path: Path
    """The GGUF file."""
    threads: int
    """Compute threads; at most one per physical core."""
    context_tokens: int
    """Context of one request. The cache takes NUM_SLOTS times this, and once more for drafts."""
    prefill_slice_tokens: int
    """Tokens of prompt computed between two chances to stop; see `prefill_slice_tokens`."""
    prompt_cache_mib: int = 512
    """Memory for prompts pushed out of the slots; switching back to a file finds its prompt."""
    can_draft: bool = True
    """Whether requests with draft text are drafted for, by a second server that is started with the
    first of them. It shares the file's pages and adds a cache for one context and buffers."""

    @property
    def num_draft_tokens(self) -> int:
        """Drafted at most for one step, which then takes no longer than a slice of prefill."""
        return min(MAX_DRAFT_TOKENS, self.prefill_slice_tokens - 1)


def start_server(config: LlamaCppConfig, pooling: str | None, *, drafts: bool = False) -> Any:
    """An `xllamacpp.Server`. `drafts`: with one slot, speculating on what was said before.

    Raises: BackendError if llama.cpp refuses the file.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPIN_COUNT))
    # Loads libgomp, which reads them once. A compiled module without type information.
    xllamacpp: Any = importlib.import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = str(config.path)
    params.n_parallel = 1 if pooling or drafts else NUM_SLOTS
    params.n_ctx = config.context_tokens * params.n_parallel
    # An embedding model wants its whole text in one batch.
    params.n_batch = config.context_tokens if pooling else config.prefill_slice_tokens
    params.n_ubatch = params.n_batch
    for threads in (params.cpuparams, params.cpuparams_batch):
        threads.n_threads = config.threads
        threads.poll = 0
    params.slot_prompt_similarity = SLOT_SIMILARITY
    params.cache_ram_mib = 0 if drafts else config.prompt_cache_mib
    params.embedding = pooling is not None
    if drafts:
        _set_drafts(xllamacpp, params.speculative, config.num_draft_tokens)
    # No longer than the engine's own socket, whose path was found to be short enough. llama.cpp
    # knows a Unix socket by the ending.
    socket = socket_path().with_name(f"{secrets.token_hex(3)}.sock")
    params.hostnames = [str(socket)]
    params.api_keys = [secrets.token_urlsafe(32)]
    params.endpoint_metrics = True
    params.warmup = False
    params.verbosity = 1  # Errors alone, into the engine's log: the exception gives no reason.
    try:
        server = xllamacpp.Server(params)
        # Answered by its loop. The destructor never returns if that has not begun by then.
        server.handle_metrics()
        return server
    except RuntimeError as error:
        raise BackendError(
            f"llama.cpp cannot load {config.path}: {error} The engine's log says why"
        ) from error
    finally:
        socket.unlink(missing_ok=True)


def _set_drafts(xllamacpp: Any, speculative: Any, num_draft_tokens: int) -> None:
    kinds = xllamacpp.common_speculative_type
    speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE]
    speculative.ngram_simple.size_n = DRAFT_KEY_TOKENS
    speculative.ngram_simple.size_m = num_draft_tokens
