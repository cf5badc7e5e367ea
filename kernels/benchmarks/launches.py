"""Every way in which the package launches a kernel, on operands that are allocated and never read.

`launches(target)` gives them for a target, the grouped GEMM in every saved tile. Whoever runs them
has told Triton beforehand what shall happen instead of a launch; see `ahead_of_time`.

Dimensions: T tokens, D model dim, F expert hidden dim, E experts, P rows of the permuted buffer.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from benchmarks.shapes import GPT_OSS_20B, QWEN3_CODER, LayerShape
from composer_kernels import (
    GPT_OSS,
    SILU,
    BlockTable,
    Dispatch,
    GroupScore,
    Kind,
    MXFP4Tensor,
    MXFP8Tensor,
    RouterConfig,
    ScaleRule,
    Scoring,
    SwiGLU,
    Target,
    Tiles,
    choose_tiles,
    choose_wgrad_tiles,
    mean_rows_per_expert,
)
from composer_kernels.formats import num_blocks
from composer_kernels.routes import num_rows_bound
from composer_kernels.tiles import Regime

# The launchers are the package's own seam: they take the target that they launch for.
_activation: Any = import_module("composer_kernels.activation")
_grouped_gemm: Any = import_module("composer_kernels.grouped_gemm")
_grouped_wgrad: Any = import_module("composer_kernels.grouped_wgrad")
_mxfp4: Any = import_module("composer_kernels.mxfp4")
_paged_attention: Any = import_module("composer_kernels.paged_attention")
_mxfp8: Any = import_module("composer_kernels.mxfp8")
_routing: Any = import_module("composer_kernels.routing")

_TOKENS = {Regime.DECODE: 16, Regime.MIXED: 512, Regime.PREFILL: 4096}
_DEEPSEEK_V3 = RouterConfig(
    top_k=8,
    scoring=Scoring.SIGMOID,
    normalize=True,
    routed_scaling_factor=2.5,
    num_groups=8,
    topk_groups=4,
    group_score=GroupScore.TOP2_SUM,
)
_ROUTERS = {
    "Qwen3-Coder": (128, RouterConfig(top_k=8, scoring=Scoring.SOFTMAX, normalize=True)),
    "gpt-oss": (32, RouterConfig(top_k=4, scoring=Scoring.SOFTMAX_OF_CHOSEN)),
    "GLM-4.5-Air": (128, RouterConfig(top_k=8, scoring=Scoring.SIGMOID, normalize=True)),
    "DeepSeek-V3": (256, _DEEPSEEK_V3),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """One use of a public function."""

    name: str
    """What it computes, and on what."""
    run: Callable[[], object]
    kind: Kind | None = None
    """Of a grouped GEMM, as are the next two; None for other kernels."""
    regime: Regime | None = None
    tiles: Tiles | None = None


def launches(target: Target) -> Iterator[Launch]:
    yield from grouped_gemm_launches(target)
    yield from quantiser_launches(target)
    yield from routing_launches()
    yield from training_launches(target)
    yield from attention_launches(target)


def grouped_gemm_launches(target: Target) -> Iterator[Launch]:
    for kind in Kind:
        for regime in Regime:
            yield from _layer_launches(target, kind, regime)


def _layer_launches(target: Target, kind: Kind, regime: Regime) -> Iterator[Launch]:
    qwen, gpt_oss = QWEN3_CODER, GPT_OSS_20B
    named: dict[str, Callable[[Tiles], object]] = {
        "gate, up, SwiGLU": partial(
            _gate_up, target, kind, regime, qwen, activation=SILU, quantize=False
        ),
        "gate, up, clamped SwiGLU, bias, K = 2880": partial(
            _gate_up, target, kind, regime, gpt_oss, activation=GPT_OSS, quantize=False
        ),
        "down": partial(_down, target, kind, regime, qwen),
    }
    if kind is Kind.MXFP8_MXFP8:
        named["gate, up, SwiGLU, quantised"] = partial(
            _gate_up, target, kind, regime, qwen, activation=SILU, quantize=True
        )
    if kind is Kind.BF16_BF16:
        named["weights transposed"] = partial(_down, target, kind, regime, qwen, transposed=True)
    rows = mean_rows_per_expert(_TOKENS[regime], qwen.top_k, qwen.E)
    tiles = choose_tiles(target, kind, rows, 0, 0)
    for name, run in named.items():
        yield Launch(name=name, run=partial(run, tiles), kind=kind, regime=regime, tiles=tiles)


def _gate_up(
    target: Target,
    kind: Kind,
    regime: Regime,
    shape: LayerShape,
    tiles: Tiles,
    *,
    activation: SwiGLU,
    quantize: bool,
) -> None:
    plan = _plan(_TOKENS[regime], shape, tiles.block_m)
    out_shape = (plan.num_rows, shape.F)
    x_format, w_format = kind.split("_")
    _grouped_gemm._launch(
        _operand(x_format, _TOKENS[regime], shape.D),
        _operand(w_format, shape.E, 2 * shape.F, shape.D),
        plan,
        bias_EN=_bf16(shape.E, 2 * shape.F) if activation is GPT_OSS else None,
        activation=activation,
        gather=True,
        out=_operand("mxfp8", *out_shape) if quantize else _bf16(*out_shape),
        tiles=tiles,
        target=target,
        num_programs=1,
    )


def _down(
    target: Target,
    kind: Kind,
    regime: Regime,
    shape: LayerShape,
    tiles: Tiles,
    *,
    transposed: bool = False,
) -> None:
    """`transposed`: the bf16 weights are a view of `[E, F, D]`, as a backward pass has them."""
    plan = _plan(_TOKENS[regime], shape, tiles.block_m)
    x_format, w_format = kind.split("_")
    w = _bf16(shape.E, shape.F, shape.D).mT if transposed else None
    _grouped_gemm._launch(
        _operand(x_format, plan.num_rows, shape.F),
        _operand(w_format, shape.E, shape.D, shape.F) if w is None else w,
        plan,
        out=_bf16(plan.num_rows, shape.D),
        tiles=tiles,
        target=target,
        num_programs=1,
    )


def quantiser_launches(target: Target) -> Iterator[Launch]:
    quantize = partial(_mxfp8._launch_quantize, rule=ScaleRule.CEIL, target=target)
    for name, x in {
        "bf16, 1 row": _bf16(1, 2048),
        "bf16": _bf16(4096, 2048),
        "f32": torch.empty(4096, 2048),
    }.items():
        yield Launch(name=f"mxfp8_quantize, {name}", run=partial(quantize, x, columns=False))
    both = partial(quantize, _bf16(4096, 2048), columns=True)
    yield Launch(name="mxfp8_quantize, bf16, rows and columns", run=both)
    for dtype in (torch.bfloat16, torch.float32):
        for fmt, module in (("mxfp8", _mxfp8), ("mxfp4", _mxfp4)):
            x = _operand(fmt, 4096, 2048)
            run = partial(module._launch_dequantize, x, dtype=dtype, target=target)
            yield Launch(name=f"{fmt}_dequantize, {str(dtype).removeprefix('torch.')}", run=run)


def routing_launches() -> Iterator[Launch]:
    for name, (num_experts, config) in _ROUTERS.items():
        with_bias = config.scoring is Scoring.SIGMOID
        bias = torch.empty(num_experts) if with_bias else None
        for num_tokens in (1, 4096):
            logits = _bf16(num_tokens, num_experts)
            run = partial(_routing._launch_route, logits, config, bias)
            yield Launch(name=f"route, {name}, {num_tokens} tokens", run=run)
    shape = QWEN3_CODER
    for num_tokens, block_m in ((1, 16), (4096, 128)):
        slots = (num_tokens, shape.top_k)
        run = partial(
            _routing._launch_dispatch,
            _int32(*slots),
            torch.empty(slots),
            block_m,
            first_local_expert=0,
            num_local_experts=shape.E,
        )
        yield Launch(name=f"dispatch, {num_tokens} tokens", run=run)
    plan = _plan(4096, shape, 128)
    x, y = _bf16(4096, shape.D), _bf16(plan.num_rows, shape.D)
    combine = partial(_routing._launch_combine, y, plan, weighted=True, out_dtype=torch.bfloat16)
    yield Launch(name="permute", run=partial(_routing._launch_permute, x, plan))
    yield Launch(name="combine", run=combine)
    backward = partial(_routing._launch_combine_backward, x, y, plan)
    yield Launch(name="combine_backward", run=backward)


def training_launches(target: Target) -> Iterator[Launch]:
    """What only the backward pass launches."""
    shape = QWEN3_CODER
    plan = _plan(4096, shape, 128)
    for fmt in ("mxfp8", "bf16"):
        run = partial(
            _grouped_wgrad._launch_wgrad,
            _operand(fmt, shape.D, plan.num_rows) if fmt == "mxfp8" else _transposed(plan, shape.D),
            _operand(fmt, shape.F, plan.num_rows) if fmt == "mxfp8" else _transposed(plan, shape.F),
            plan,
            out_dtype=torch.float32,
            tiles=choose_wgrad_tiles(target, Kind(f"{fmt}_{fmt}")),
            target=target,
            num_programs=1,
        )
        yield Launch(name=f"grouped_wgrad, {fmt}", run=run)
    rows = _bf16(plan.num_rows, shape.D)
    sums = partial(_grouped_wgrad._launch_sum, rows, plan, out_dtype=torch.float32, target=target)
    yield Launch(name="sum_by_expert", run=sums)
    gate_up, grad = _bf16(plan.num_rows, 2 * shape.F), _bf16(plan.num_rows, shape.F)
    forward = partial(_activation._launch_swiglu, gate_up, SILU, target=target)
    yield Launch(name="apply_swiglu", run=forward)
    backward = partial(_activation._launch_swiglu_backward, grad, gate_up, SILU, target=target)
    yield Launch(name="swiglu_backward", run=backward)


def attention_launches(target: Target) -> Iterator[Launch]:
    """Of the heads of models that the decoder has; blocks of 16 tokens."""
    gpt_oss = {"window": 128, "sinks_N": _bf16(64)}
    latent = {"value_dim": 512}
    for name, num_heads, num_kv_heads, key_dim, options in (
        ("Qwen3-Coder", 32, 4, 128, {}),
        ("gpt-oss", 64, 8, 64, gpt_oss),
        ("DeepSeek-V3", 128, 1, 576, latent),
    ):
        for what, max_queries, num_parts in (
            ("decode", 1, 16),
            ("decode", 1, 1),
            ("verify", 64, 4),
        ):
            run = partial(
                _attention,
                target,
                _bf16(8 * max_queries, num_heads, key_dim),
                _bf16(64, num_kv_heads, key_dim),
                max_queries=max_queries,
                num_parts=num_parts,
                **options,
            )
            parts = "one part" if num_parts == 1 else f"{num_parts} parts"
            yield Launch(name=f"paged_attention, {name}, {what}, {parts}", run=run)
    plain = _bf16(8, 32, 128).float(), _bf16(64, 4, 128).float()
    run = partial(_attention, target, *plain, max_queries=1, num_parts=16)
    yield Launch(name="paged_attention, f32, decode, 16 parts", run=run)


def _attention(
    target: Target,
    q: Tensor,
    keys: Tensor,
    *,
    max_queries: int,
    num_parts: int,
    window: int | None = None,
    sinks_N: Tensor | None = None,
    value_dim: int | None = None,
) -> None:
    num_sequences = q.shape[0] // max_queries
    table = BlockTable(
        blocks_X=_int64(64),
        block_starts_B=_int64(num_sequences),
        num_tokens_B=_int64(num_sequences),
        query_starts_C=_int64(num_sequences + 1),
        max_queries=max_queries,
        block_size=16,
    )
    _paged_attention._launch(
        q,
        keys,
        torch.empty_like(keys) if value_dim is None else keys[..., :value_dim],
        table,
        scale=0.1,
        window=window,
        sinks_N=sinks_N,
        values_are_keys=value_dim is not None,
        num_parts=num_parts,
        target=target,
    )


def sample(target: Target) -> Iterator[Launch]:
    """A few that meet each matrix instruction of the target, the quantiser, and attention."""
    for launch in grouped_gemm_launches(target):
        is_long = launch.regime is Regime.PREFILL and launch.name == "down"
        if is_long and launch.kind in (Kind.MXFP8_MXFP8, Kind.BF16_BF16):
            yield launch
    yield next(iter(quantiser_launches(target)))
    yield next(iter(attention_launches(target)))


def _plan(num_tokens: int, shape: LayerShape, block_m: int) -> Dispatch:
    num_rows = num_rows_bound(num_tokens * shape.top_k, shape.E, block_m)
    return Dispatch(
        block_m=block_m,
        token_of_row=_int32(num_rows),
        row_of_slot=_int32(num_tokens, shape.top_k),
        expert_of_block=_int32(num_rows // block_m),
        block_offsets=_int32(shape.E + 1),
        num_tokens_per_expert=_int32(shape.E),
        weights=torch.empty(num_tokens, shape.top_k),
    )


def _transposed(plan: Dispatch, num_columns: int) -> Tensor:
    """bf16 `[num_columns, P]` as a view of rows."""
    return _bf16(plan.num_rows, num_columns).mT


def _operand(fmt: str, *shape: int) -> Tensor | MXFP8Tensor | MXFP4Tensor:
    if fmt == "bf16":
        return _bf16(*shape)
    if fmt == "mxfp8":
        return MXFP8Tensor.empty(shape, torch.device("cpu"))
    codes = torch.empty((*shape[:-1], shape[-1] // 2), dtype=torch.uint8)
    scales = torch.empty((*shape[:-1], num_blocks(shape[-1])), dtype=torch.uint8)
    return MXFP4Tensor(codes, scales)


def _bf16(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.bfloat16)


def _int32(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.int32)


def _int64(*shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.int64)
