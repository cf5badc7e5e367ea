"""Measure the grouped GEMM's tiles on a GPU and save the fastest, for `choose_tiles` to read.

    autotune(path, kind=Kind.BF16_MXFP8, num_tokens=16, top_k=8, num_experts=128, n=1536, k=2048)

then set the environment variable `COMPOSER_KERNEL_TILES` to `path`.
"""

import logging
from collections.abc import Callable, Iterable
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from composer_kernels import reference
from composer_kernels.errors import KernelError
from composer_kernels.formats import MXFP4Tensor, MXFP8Tensor
from composer_kernels.grouped_gemm import grouped_gemm
from composer_kernels.mxfp8 import mxfp8_quantize
from composer_kernels.swiglu import SwiGLU
from composer_kernels.target_info import target_of
from composer_kernels.tiles import (
    Kind,
    Regime,
    SavedTiles,
    TileKey,
    Tiles,
    load_tiles,
    mean_rows_per_expert,
    regime_of,
    save_tiles,
)

logger = logging.getLogger(__name__)

_BLOCK_M = {Regime.DECODE: [16], Regime.MIXED: [16, 32, 64], Regime.PREFILL: [64, 128]}
_BLOCK_N = {Regime.DECODE: [64, 128], Regime.MIXED: [64, 128], Regime.PREFILL: [128, 256]}
_BLOCK_K = {Regime.DECODE: [128, 256], Regime.MIXED: [64, 128], Regime.PREFILL: [64, 128]}
_PROGRAMS_PER_SM = {Regime.DECODE: [2, 4], Regime.MIXED: [1, 2], Regime.PREFILL: [1]}
_GROUP_M = {Regime.DECODE: 1, Regime.MIXED: 4, Regime.PREFILL: 8}


def autotune(
    path: Path,
    *,
    kind: Kind,
    num_tokens: int,
    top_k: int,
    num_experts: int,
    n: int,
    k: int,
    activation: SwiGLU | None = None,
    candidates: Iterable[Tiles] | None = None,
    device: str = "cuda",
    time_ms: Callable[[Callable[[], object]], float] | None = None,
) -> Tiles:
    """Time candidates on random operands and save the fastest for this target, kind, regime and shape.

    Tokens choose their experts at random, each equally likely. Choices that `path` holds for
    others stay. A candidate that the target cannot run (too much shared memory, say) is passed
    over.

    `candidates`: by default `default_candidates` of the regime. `time_ms`: how long a call takes,
    by default `triton.testing.do_bench`'s median. Raises `KernelError` where no candidate runs,
    or `path` is something else than a file of tiles.
    """
    saved = load_tiles(path) if path.exists() else SavedTiles()
    time_ms = time_ms or _median_ms
    regime = regime_of(mean_rows_per_expert(num_tokens, top_k, num_experts))
    generator = torch.Generator(device).manual_seed(0)
    x, w = _random_operands(kind, num_tokens, num_experts, n, k, generator)
    scores = torch.rand(num_tokens, num_experts, generator=generator, device=device)
    weights_TK, ids_TK = scores.topk(top_k)

    times: dict[Tiles, float] = {}
    for tiles in default_candidates(regime) if candidates is None else candidates:
        plan = reference.dispatch(ids_TK.int(), weights_TK, num_experts, tiles.block_m)

        def run(plan: Any = plan, tiles: Tiles = tiles) -> object:
            return grouped_gemm(x, w, plan, activation=activation, gather=True, tiles=tiles)

        try:
            times[tiles] = time_ms(run)
        except _cannot_run() as error:
            logger.info("%s is passed over: %s", tiles, error)
            continue
        logger.info("%s: %.4f ms", tiles, times[tiles])
    if not times:
        raise KernelError(f"no candidate runs for {kind} with N = {n} and K = {k} on {device}")

    best = min(times, key=times.__getitem__)
    capability = target_of(weights_TK).capability
    key = TileKey(capability=capability, kind=kind, regime=regime, shape=(n, k))
    save_tiles(path, SavedTiles(gemm={key: best}).over(saved))
    return best


def default_candidates(regime: Regime) -> list[Tiles]:
    """What is worth a try for a regime."""
    sizes = product(
        _BLOCK_M[regime],
        _BLOCK_N[regime],
        _BLOCK_K[regime],
        (False, True),
        (4, 8),
        (3, 4),
        _PROGRAMS_PER_SM[regime],
    )
    return [
        Tiles(
            block_m=block_m,
            block_n=block_n,
            block_k=block_k,
            group_m=_GROUP_M[regime],
            swap_operands=swap_operands,
            num_warps=num_warps,
            num_stages=num_stages,
            programs_per_sm=programs_per_sm,
        )
        for block_m, block_n, block_k, swap_operands, num_warps, num_stages, programs_per_sm in sizes
    ]


def _random_operands(
    kind: Kind, num_tokens: int, num_experts: int, n: int, k: int, generator: torch.Generator
) -> tuple[Tensor | MXFP8Tensor, Tensor | MXFP8Tensor | MXFP4Tensor]:
    def normal(*shape: int) -> Tensor:
        options: dict[str, Any] = {"device": generator.device, "dtype": torch.bfloat16}
        return torch.randn(shape, generator=generator, **options)

    x, w = normal(num_tokens, k), normal(num_experts, n, k)
    match kind:
        case Kind.MXFP8_MXFP8:
            return mxfp8_quantize(x), mxfp8_quantize(w)
        case Kind.BF16_MXFP8:
            return x, mxfp8_quantize(w)
        case Kind.BF16_MXFP4:
            return x, reference.mxfp4_quantize(w)
        case Kind.BF16_BF16:
            return x, w


# Triton is imported where it is used, and has no types.


def _median_ms(run: Callable[[], object]) -> float:
    testing: Any = import_module("triton.testing")
    return testing.do_bench(run, return_mode="median")


def _cannot_run() -> tuple[type[Exception], ...]:
    """What Triton raises for tiles that a target cannot run."""
    compiler: Any = import_module("triton.compiler.errors")
    runtime: Any = import_module("triton.runtime.errors")
    return compiler.CompilationError, runtime.OutOfResources, runtime.PTXASError
