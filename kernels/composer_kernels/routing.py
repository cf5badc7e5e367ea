"""Mixture-of-experts routing: choose experts, sort the tokens' copies by expert, and sum them again.

    weights_TK, ids_TK = route(logits_TE, config)
    plan = dispatch(ids_TK, weights_TK, num_experts, block_m)
    y_TD = combine(experts(permute(x_TD, plan)), plan)

CUDA tensors are computed by the kernels of `routing_details`, CPU tensors by the twins of
`reference.routing`. No function waits for the device: every shape follows from the arguments' shapes.
The results are deterministic, on a device and between runs. Sources: Mixtral (arXiv 2401.04088,
section 2.1), DeepSeek-V2 (arXiv 2405.04434, section 2.2.2), DeepSeek-V3 (arXiv 2412.19437, section 2.1.2);
padded blocks as in MegaBlocks (arXiv 2211.15841, section 5.2).

Dimensions: T tokens, E experts (the local ones in a `Dispatch`), K chosen experts a token, P rows of
the permuted buffer, D model dim. The `_launch_*` functions run the kernels on any device that Triton
takes, its interpreter included; tests call them.
"""

from typing import Any, overload

import torch
from jaxtyping import Float, Float32, Int32, Shaped
from torch import Tensor

from composer_kernels import reference
from composer_kernels.errors import (
    DtypeError,
    KernelError,
    ShapeError,
    check_device,
    check_dtype,
    check_shape,
)
from composer_kernels.formats import VALUE_DTYPES, MXFP8Tensor
from composer_kernels.routes import Dispatch, GroupScore, RouterConfig, Scoring, num_rows_bound
from composer_kernels.target_info import target_of

_SCORING_CODES = {Scoring.SOFTMAX: 0, Scoring.SOFTMAX_OF_CHOSEN: 1, Scoring.SIGMOID: 2}

_CHUNK = 256
"""Slots of a program that counts or places. Up to this many, one program does the whole dispatch."""
_STEP = 32
"""Slots or blocks of a program at a time: its tile is `_STEP` x E."""
_SCAN_CHUNKS, _SCAN_EXPERTS = 64, 16
"""Tile of the scan over chunks."""
_ROUTE_TILE = 1024
"""Logits of a routing program, once every multiprocessor has a token of its own."""
_MANY_TOKENS = 256


def route(
    logits_TE: Float[Tensor, "T E"],
    config: RouterConfig,
    *,
    bias_E: Float[Tensor, " E"] | None = None,
) -> tuple[Float32[Tensor, "T K"], Int32[Tensor, "T K"]]:
    """Choose each token's experts: their weights (f32) and ids (int32), best first.

    All arithmetic is in f32. Among equal scores the lower expert id wins. `bias_E` is added to the
    scores for the choice alone, never to the weights (`e_score_correction_bias` of DeepSeek-V3 and
    GLM-4 MoE). Without it experts are ranked by logit where that is the order of their scores
    (`RouterConfig.ranks_logits`).

    A NaN logit ranks below every number, as does a NaN of logit + bias; a token that has a NaN logit
    gets NaN for all its weights. Its ids are K different experts nonetheless. Infinities follow from
    the formulas: softmax over a row with +inf, or of -inf alone, gives NaN.

    Not differentiable on CUDA: the choice has no gradient, and `reference.topk_weights` gives that of
    the weights. Raises `KernelError` where shapes, dtypes or devices do not fit.
    """
    _check_router_inputs(logits_TE, config, bias_E)
    if target_of(logits_TE).capability:
        return _launch_route(logits_TE, config, bias_E)
    return reference.route(logits_TE, config, bias_E=bias_E)


def dispatch(
    topk_expert_ids_TK: Int32[Tensor, "T K"],
    topk_weights_TK: Float32[Tensor, "T K"],
    num_experts: int,
    block_m: int,
    *,
    first_local_expert: int = 0,
    num_local_experts: int | None = None,
) -> Dispatch:
    """Sort the tokens' slots by expert, into blocks of `block_m` rows of one expert each.

    With expert parallelism only `num_local_experts` experts from `first_local_expert` on are taken
    (default: all from there); other slots have no row, and `combine` adds nothing for them. An id outside
    0 to `num_experts` - 1 cannot be seen without waiting for the device: it is local nowhere, so
    its slot is dropped likewise. The result keeps `topk_weights_TK` itself, not a copy.

    Raises `KernelError` where shapes, dtypes, devices or the range of experts do not fit.
    """
    _check_dispatch_inputs(topk_expert_ids_TK, topk_weights_TK, block_m)
    if num_local_experts is None:
        num_local_experts = num_experts - first_local_expert
    if first_local_expert < 0 or not 1 <= num_local_experts <= num_experts - first_local_expert:
        raise KernelError(
            f"{num_local_experts} local experts from {first_local_expert} on are not among "
            f"{num_experts} experts"
        )
    local = {"first_local_expert": first_local_expert, "num_local_experts": num_local_experts}
    if target_of(topk_expert_ids_TK).capability:
        return _launch_dispatch(topk_expert_ids_TK, topk_weights_TK, block_m, **local)
    return reference.dispatch(topk_expert_ids_TK, topk_weights_TK, num_experts, block_m, **local)


@overload
def permute(x_TD: Shaped[Tensor, "T D"], dispatch: Dispatch) -> Shaped[Tensor, "P D"]: ...
@overload
def permute(x_TD: MXFP8Tensor, dispatch: Dispatch) -> MXFP8Tensor: ...
def permute(
    x_TD: Shaped[Tensor, "T D"] | MXFP8Tensor, dispatch: Dispatch
) -> Shaped[Tensor, "P D"] | MXFP8Tensor:
    """Copy each token to its rows; padding and unused rows are zeros (in MXFP8: zero codes and scales).

    Its gradient is `combine(grad_PD, dispatch, weighted=False)`.
    Raises `KernelError` where the tokens' number or device is not the dispatch's.
    """
    if isinstance(x_TD, MXFP8Tensor):
        codes_PD = permute(x_TD.codes.view(torch.uint8), dispatch)
        scales_PB = permute(x_TD.scales, dispatch)
        return MXFP8Tensor(codes=codes_PD.view(torch.float8_e4m3fn), scales=scales_PB)
    _check_rows("x", x_TD, dispatch.row_of_slot.shape[0], dispatch)
    return (
        _launch_permute(x_TD, dispatch)
        if target_of(x_TD).capability
        else reference.permute(x_TD, dispatch)
    )


def combine(
    y_PD: Float[Tensor, "P D"],
    dispatch: Dispatch,
    *,
    weighted: bool = True,
    out_dtype: torch.dtype | None = None,
) -> Float[Tensor, "T D"]:
    """Sum each token's rows, times their weights if `weighted`, in the order of its slots.

    Products and sums are f32, rounded once to `out_dtype` (bf16 or f32; default: that of `y_PD`). Slots
    without a row add nothing: the output of a token all of whose experts lie elsewhere is zero.
    Raises `KernelError` where shape, dtype or device do not fit.
    """
    _check_rows("y", y_PD, dispatch.num_rows, dispatch)
    check_dtype("y", y_PD, VALUE_DTYPES)
    out_dtype = out_dtype or y_PD.dtype
    if out_dtype not in VALUE_DTYPES:
        raise DtypeError("the combined output", out_dtype, VALUE_DTYPES)
    run = _launch_combine if target_of(y_PD).capability else reference.combine
    return run(y_PD, dispatch, weighted=weighted, out_dtype=out_dtype)


def combine_backward(
    grad_out_TD: Float[Tensor, "T D"], y_PD: Float[Tensor, "P D"], dispatch: Dispatch
) -> tuple[Float[Tensor, "P D"], Float32[Tensor, "T K"]]:
    """The gradients of weighted `combine` in `y_PD` (its dtype; zeros in padding) and in the weights (f32).

    A row's gradient is its token's times the slot's weight; a weight's is the dot product of its
    token's gradient and its row, zero for slots without one. Unweighted, the gradient in `y_PD` is
    `permute(grad_out_TD, dispatch)`. Raises `KernelError` where shapes, dtypes or devices do not fit.
    """
    _check_rows("grad_out", grad_out_TD, dispatch.row_of_slot.shape[0], dispatch)
    _check_rows("y", y_PD, dispatch.num_rows, dispatch)
    check_dtype("grad_out", grad_out_TD, VALUE_DTYPES)
    check_dtype("y", y_PD, VALUE_DTYPES)
    if grad_out_TD.shape[1] != y_PD.shape[1]:
        raise ShapeError("grad_out", grad_out_TD.shape, f"[T, {y_PD.shape[1]}]")
    run = _launch_combine_backward if target_of(y_PD).capability else reference.combine_backward
    return run(grad_out_TD, y_PD, dispatch)


def _check_router_inputs(logits: Tensor, config: RouterConfig, bias: Tensor | None) -> None:
    if logits.ndim != 2:
        raise ShapeError("logits", logits.shape, "[T, E]")
    if not logits.is_floating_point():
        raise DtypeError("logits", logits.dtype, (*VALUE_DTYPES, torch.float16))
    config.check_num_experts(logits.shape[1])
    if bias is not None:
        check_shape("bias", bias, (logits.shape[1],))
        check_device(logits=logits, bias=bias)


def check_expert_ids(ids: Tensor) -> None:
    """Raises `ShapeError` unless ids are `[T, K]`."""
    if ids.ndim != 2 or ids.shape[1] == 0:
        raise ShapeError("topk_expert_ids", ids.shape, "[T, K] with K of 1 or more")


def _check_dispatch_inputs(ids: Tensor, weights: Tensor, block_m: int) -> None:
    check_expert_ids(ids)
    check_dtype("topk_expert_ids", ids, (torch.int32,))
    check_shape("topk_weights", weights, ids.shape)
    check_dtype("topk_weights", weights, (torch.float32,))
    check_device(topk_expert_ids=ids, topk_weights=weights)
    if block_m < 1 or block_m & (block_m - 1):
        raise KernelError(f"block_m is {block_m}; a power of two is asked for")


def _check_rows(name: str, rows: Tensor, num_rows: int, dispatch: Dispatch) -> None:
    if rows.ndim != 2 or rows.shape[0] != num_rows:
        raise ShapeError(name, rows.shape, f"[{num_rows}, D]")
    check_device(**{name: rows, "dispatch": dispatch.token_of_row})


def _kernels() -> Any:
    # Imported on use: where there are twins alone, there may be no Triton.
    from composer_kernels.routing_details import _routing

    return _routing


def _pow2_from(count: int) -> int:
    """The least power of two that is `count` or more."""
    return 1 << max(count - 1, 0).bit_length()


def _launch_route(
    logits_TE: Tensor, config: RouterConfig, bias_E: Tensor | None
) -> tuple[Tensor, Tensor]:
    num_tokens, num_experts = logits_TE.shape
    weights_TK = logits_TE.new_empty((num_tokens, config.top_k), dtype=torch.float32)
    ids_TK = torch.empty_like(weights_TK, dtype=torch.int32)
    if num_tokens == 0:
        return weights_TK, ids_TK
    logits_TE = logits_TE.contiguous()
    group_size = num_experts // config.num_groups
    g_pad, s_pad = _pow2_from(config.num_groups), _pow2_from(group_size)
    block_t = 1 if num_tokens <= _MANY_TOKENS else max(_ROUTE_TILE // (g_pad * s_pad), 1)
    with torch.cuda.device_of(logits_TE):
        _kernels().route_kernel[(-(-num_tokens // block_t),)](
            logits_TE,
            logits_TE if bias_E is None else bias_E.contiguous(),
            weights_TK,
            ids_TK,
            num_tokens,
            config.routed_scaling_factor,
            GROUP_SIZE=group_size,
            NUM_GROUPS=config.num_groups,
            TOPK_GROUPS=config.topk_groups,
            TOP2_SUM=config.group_score is GroupScore.TOP2_SUM,
            TOP_K=config.top_k,
            SCORING=_SCORING_CODES[config.scoring],
            RANKS_LOGITS=bias_E is None and config.ranks_logits,
            HAS_BIAS=bias_E is not None,
            NORMALIZE=config.normalize,
            BLOCK_T=block_t,
            G_PAD=g_pad,
            S_PAD=s_pad,
            K_PAD=_pow2_from(config.top_k),
            num_warps=1 if block_t == 1 else 4,
        )
    return weights_TK, ids_TK


def _launch_dispatch(
    topk_expert_ids_TK: Tensor,
    topk_weights_TK: Tensor,
    block_m: int,
    *,
    first_local_expert: int,
    num_local_experts: int,
) -> Dispatch:
    """Three kernels without a host's wait between (counts, scan over chunks, placement); one for few slots."""
    ids_TK = topk_expert_ids_TK.contiguous()
    num_slots = ids_TK.numel()
    num_blocks = num_rows_bound(num_slots, num_local_experts, block_m) // block_m
    num_chunks = max(-(-num_slots // _CHUNK), 1)
    plan = Dispatch(
        block_m=block_m,
        token_of_row=ids_TK.new_empty(num_blocks * block_m),
        row_of_slot=torch.empty_like(ids_TK),
        expert_of_block=ids_TK.new_empty(num_blocks),
        block_offsets=ids_TK.new_empty(num_local_experts + 1),
        num_tokens_per_expert=ids_TK.new_empty(num_local_experts),
        weights=topk_weights_TK.contiguous(),
    )
    counts_CE = ids_TK.new_empty((num_chunks if num_chunks > 1 else 0, num_local_experts))
    experts = {"NUM_LOCAL": num_local_experts, "E_PAD": _pow2_from(num_local_experts)}
    kernels = _kernels()
    with torch.cuda.device_of(ids_TK):
        if num_chunks > 1:
            kernels.count_kernel[(num_chunks,)](
                ids_TK,
                counts_CE,
                num_slots,
                first_local_expert,
                **experts,
                CHUNK=_CHUNK,
                STEP=_STEP,
            )
            kernels.scan_kernel[(-(-num_local_experts // _SCAN_EXPERTS),)](
                counts_CE,
                plan.num_tokens_per_expert,
                num_chunks,
                NUM_LOCAL=num_local_experts,
                BLOCK_C=_SCAN_CHUNKS,
                BLOCK_E=_SCAN_EXPERTS,
            )
        kernels.place_kernel[(num_chunks,)](
            ids_TK,
            counts_CE,
            plan.num_tokens_per_expert,
            plan.block_offsets,
            plan.expert_of_block,
            plan.token_of_row,
            plan.row_of_slot,
            num_slots,
            num_blocks,
            first_local_expert,
            TOP_K=ids_TK.shape[1],
            **experts,
            BLOCK_M=block_m,
            CHUNK=_CHUNK,
            STEP=_STEP,
            ONE_CHUNK=num_chunks == 1,
        )
    return plan


def _block_d(num_columns: int) -> int:
    return min(_pow2_from(num_columns), 1024)


def _launch_permute(x_TD: Tensor, dispatch: Dispatch) -> Tensor:
    x_TD = x_TD.contiguous()
    num_columns = x_TD.shape[1]
    out_PD = x_TD.new_empty((dispatch.num_rows, num_columns))
    block_d = _block_d(num_columns)
    if out_PD.numel():
        with torch.cuda.device_of(x_TD):
            _kernels().permute_kernel[(dispatch.num_rows, -(-num_columns // block_d))](
                x_TD, dispatch.token_of_row, out_PD, num_columns, BLOCK_D=block_d
            )
    return out_PD


def _launch_combine(
    y_PD: Tensor, dispatch: Dispatch, *, weighted: bool, out_dtype: torch.dtype
) -> Tensor:
    y_PD = y_PD.contiguous()
    num_tokens, top_k = dispatch.row_of_slot.shape
    num_columns = y_PD.shape[1]
    out_TD = y_PD.new_empty((num_tokens, num_columns), dtype=out_dtype)
    block_d = _block_d(num_columns)
    if out_TD.numel():
        with torch.cuda.device_of(y_PD):
            _kernels().combine_kernel[(num_tokens, -(-num_columns // block_d))](
                y_PD,
                dispatch.row_of_slot,
                dispatch.weights,
                out_TD,
                num_columns,
                TOP_K=top_k,
                WEIGHTED=weighted,
                BLOCK_D=block_d,
                INTERPRETED=target_of(y_PD).interpreted,
            )
    return out_TD


def _launch_combine_backward(
    grad_out_TD: Tensor, y_PD: Tensor, dispatch: Dispatch
) -> tuple[Tensor, Tensor]:
    grad_out_TD, y_PD = grad_out_TD.contiguous(), y_PD.contiguous()
    num_columns = y_PD.shape[1]
    top_k = dispatch.row_of_slot.shape[1]
    grad_y_PD = torch.empty_like(y_PD)
    grad_weights_TK = torch.zeros_like(dispatch.weights)
    if dispatch.num_rows:
        with torch.cuda.device_of(y_PD):
            _kernels().combine_backward_kernel[(dispatch.num_rows,)](
                grad_out_TD,
                y_PD,
                dispatch.token_of_row,
                dispatch.row_of_slot,
                dispatch.weights,
                grad_y_PD,
                grad_weights_TK,
                num_columns,
                TOP_K=top_k,
                K_PAD=_pow2_from(top_k),
                BLOCK_D=_block_d(num_columns),
                INTERPRETED=target_of(y_PD).interpreted,
            )
    return grad_y_PD, grad_weights_TK
