"""Routing in plain PyTorch: what the kernels of `composer_kernels.routing` are measured against.

Dimensions: T tokens, E experts (local ones in `Dispatch`), K chosen experts a token, N = T * K slots,
D model dim, P rows of the permuted buffer, G groups. Everything differentiable here has autograd's gradient.
"""

from typing import overload

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from composer_kernels.formats import MXFP8Tensor
from composer_kernels.routes import (
    Dispatch,
    GroupScore,
    RouterConfig,
    Scoring,
    num_rows_bound,
)

_LOWEST = torch.finfo(torch.float32).min
_NORMALIZE_EPS = 1e-20


def route(
    logits_TE: Float[Tensor, "T E"],
    config: RouterConfig,
    *,
    bias_E: Float[Tensor, " E"] | None = None,
) -> tuple[Float[Tensor, "T K"], Int[Tensor, "T K"]]:
    """Each token's weights and experts, best first: twin of `composer_kernels.route`."""
    ids_TK = _choose_experts(logits_TE.detach().float(), config, bias_E)
    return topk_weights(logits_TE, ids_TK, config), ids_TK


def topk_weights(
    logits_TE: Float[Tensor, "T E"], topk_expert_ids_TK: Int[Tensor, "T K"], config: RouterConfig
) -> Float[Tensor, "T K"]:
    """The f32 weights of experts already chosen, differentiable in the logits.

    Training takes the ids from the kernel and the weights from here: the choice has no gradient.
    """
    logits_TE = logits_TE.float()
    ids_TK = topk_expert_ids_TK.long()
    match config.scoring:
        case Scoring.SOFTMAX:
            weights_TK = logits_TE.softmax(-1).gather(1, ids_TK)
        case Scoring.SOFTMAX_OF_CHOSEN:
            weights_TK = logits_TE.gather(1, ids_TK).softmax(-1)
        case Scoring.SIGMOID:
            weights_TK = logits_TE.gather(1, ids_TK).sigmoid()
    if config.normalize:
        weights_TK = weights_TK / (weights_TK.sum(-1, keepdim=True) + _NORMALIZE_EPS)
    weights_TK = weights_TK * config.routed_scaling_factor
    return weights_TK.masked_fill(logits_TE.isnan().any(-1, keepdim=True), torch.nan)


def _choose_experts(
    logits_TE: Float[Tensor, "T E"], config: RouterConfig, bias_E: Float[Tensor, " E"] | None
) -> Int[Tensor, "T K"]:
    choice_TE = logits_TE.masked_fill(logits_TE.isnan(), -torch.inf)
    if bias_E is not None or not config.ranks_logits:
        choice_TE = (
            choice_TE.sigmoid() if config.scoring is Scoring.SIGMOID else choice_TE.softmax(-1)
        )
    if bias_E is not None:
        choice_TE = choice_TE + bias_E.float()
    # Finite, so that the -inf of experts outside the kept groups is below every expert inside.
    choice_TE = choice_TE.nan_to_num(nan=_LOWEST, neginf=_LOWEST, posinf=torch.inf)
    if config.num_groups > 1:
        choice_TE = choice_TE.masked_fill(~_in_kept_groups(choice_TE, config), -torch.inf)
    return _top_ids(choice_TE, config.top_k).int()


def _in_kept_groups(choice_TE: Float[Tensor, "T E"], config: RouterConfig) -> Tensor:
    group_size = choice_TE.shape[1] // config.num_groups
    choice_TGS = choice_TE.view(-1, config.num_groups, group_size)
    if config.group_score is GroupScore.MAX:
        group_score_TG = choice_TGS.amax(-1)
    else:
        group_score_TG = choice_TGS.topk(2, dim=-1).values.sum(-1)
    kept_TG = torch.zeros_like(group_score_TG, dtype=torch.bool)
    kept_TG.scatter_(1, _top_ids(group_score_TG, config.topk_groups), True)
    return kept_TG.repeat_interleave(group_size, dim=-1)


def _top_ids(values: Float[Tensor, "T N"], count: int) -> Int[Tensor, "T K"]:
    """Indices of the largest values, best first; equal values in the order of their index."""
    return values.sort(dim=-1, descending=True, stable=True).indices[:, :count]


def dispatch(
    topk_expert_ids_TK: Int[Tensor, "T K"],
    topk_weights_TK: Float[Tensor, "T K"],
    num_experts: int,
    block_m: int,
    *,
    first_local_expert: int = 0,
    num_local_experts: int | None = None,
) -> Dispatch:
    """Sort the slots by expert into blocks: twin of `composer_kernels.dispatch`."""
    if num_local_experts is None:
        num_local_experts = num_experts - first_local_expert
    device = topk_expert_ids_TK.device
    num_slots = topk_expert_ids_TK.numel()
    ids_N = topk_expert_ids_TK.flatten().long() - first_local_expert
    is_local_N = (ids_N >= 0) & (ids_N < num_local_experts)
    ids_N = torch.where(is_local_N, ids_N, num_local_experts)

    counts = torch.bincount(ids_N, minlength=num_local_experts + 1)
    num_blocks_E = (counts[:-1] + block_m - 1) // block_m
    first_rows = torch.zeros_like(counts)
    first_rows[1:] = (num_blocks_E * block_m).cumsum(0)

    slots_by_expert_N = ids_N.argsort(stable=True)
    ids_by_expert_N = ids_N[slots_by_expert_N]
    rank_N = torch.arange(num_slots, device=device) - (counts.cumsum(0) - counts)[ids_by_expert_N]
    row_N = torch.empty_like(ids_N)
    row_N[slots_by_expert_N] = first_rows[ids_by_expert_N] + rank_N

    num_rows = num_rows_bound(num_slots, num_local_experts, block_m)
    token_of_row_P = torch.full((num_rows,), -1, dtype=torch.int32, device=device)
    local_slots = is_local_N.nonzero().squeeze(-1)
    token_of_row_P[row_N[local_slots]] = (local_slots // topk_expert_ids_TK.shape[1]).int()
    expert_of_block = torch.full((num_rows // block_m,), -1, dtype=torch.int32, device=device)
    used_blocks = torch.arange(num_local_experts, device=device).repeat_interleave(num_blocks_E)
    expert_of_block[: len(used_blocks)] = used_blocks.int()
    return Dispatch(
        block_m=block_m,
        token_of_row=token_of_row_P,
        row_of_slot=torch.where(is_local_N, row_N, -1).int().view_as(topk_expert_ids_TK),
        expert_of_block=expert_of_block,
        block_offsets=first_rows.int(),
        num_tokens_per_expert=counts[:-1].int(),
        weights=topk_weights_TK,
    )


@overload
def permute(x_TD: Shaped[Tensor, "T D"], dispatch: Dispatch) -> Shaped[Tensor, "P D"]: ...
@overload
def permute(x_TD: MXFP8Tensor, dispatch: Dispatch) -> MXFP8Tensor: ...
def permute(
    x_TD: Shaped[Tensor, "T D"] | MXFP8Tensor, dispatch: Dispatch
) -> Shaped[Tensor, "P D"] | MXFP8Tensor:
    """Copy each token to its rows, zeros to padding: twin of `composer_kernels.permute`."""
    if isinstance(x_TD, MXFP8Tensor):
        codes_PD = _copy_rows(x_TD.codes.view(torch.uint8), dispatch)
        return MXFP8Tensor(
            codes=codes_PD.view(torch.float8_e4m3fn), scales=_copy_rows(x_TD.scales, dispatch)
        )
    return _copy_rows(x_TD, dispatch)


def _copy_rows(x_TD: Shaped[Tensor, "T D"], dispatch: Dispatch) -> Shaped[Tensor, "P D"]:
    is_padding_P1 = dispatch.token_of_row[:, None] < 0
    if x_TD.shape[0] == 0:
        return x_TD.new_zeros(dispatch.num_rows, x_TD.shape[1])
    return x_TD[dispatch.token_of_row.clamp(min=0).long()].masked_fill_(is_padding_P1, 0)


def combine(
    y_PD: Float[Tensor, "P D"],
    dispatch: Dispatch,
    *,
    weighted: bool = True,
    out_dtype: torch.dtype | None = None,
) -> Float[Tensor, "T D"]:
    """Sum each token's rows in the order of its slots, in f32: twin of `composer_kernels.combine`."""
    num_tokens, top_k = dispatch.row_of_slot.shape
    sum_TD = torch.zeros(num_tokens, y_PD.shape[1], dtype=torch.float32, device=y_PD.device)
    if dispatch.num_rows == 0:
        return sum_TD.to(out_dtype or y_PD.dtype)
    for slot in range(top_k):
        row_T = dispatch.row_of_slot[:, slot]
        term_TD = y_PD[row_T.clamp(min=0).long()].float()
        if weighted:
            term_TD = term_TD * dispatch.weights[:, slot, None]
        sum_TD = sum_TD + term_TD.masked_fill(row_T[:, None] < 0, 0)
    return sum_TD.to(out_dtype or y_PD.dtype)


def combine_backward(
    grad_out_TD: Float[Tensor, "T D"], y_PD: Float[Tensor, "P D"], dispatch: Dispatch
) -> tuple[Float[Tensor, "P D"], Float[Tensor, "T K"]]:
    """The gradients of weighted `combine`: twin of `composer_kernels.combine_backward`."""
    is_local_TK = dispatch.row_of_slot >= 0
    weight_P = torch.zeros(dispatch.num_rows, dtype=torch.float32, device=y_PD.device)
    weight_P[dispatch.row_of_slot[is_local_TK].long()] = dispatch.weights[is_local_TK]
    grad_of_row_PD = _copy_rows(grad_out_TD, dispatch).float()
    grad_y_PD = (grad_of_row_PD * weight_P[:, None]).to(y_PD.dtype)

    dot_P = (grad_of_row_PD * y_PD.float()).sum(-1)
    grad_weights_TK = torch.zeros_like(dispatch.weights)
    grad_weights_TK[is_local_TK] = dot_P[dispatch.row_of_slot[is_local_TK].long()]
    return grad_y_PD, grad_weights_TK
