"""Training a layer's experts in plain PyTorch: what `composer_kernels.training` and the kernels below
it are measured against. `composer_kernels.training` says what the gradients are.

Dimensions: P rows of the permuted buffer, T tokens, E experts, N outputs and K inputs of a linear
map, G = 2 F for gate and up, F expert hidden dim, D model dim, M rows of one expert.
"""

from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd import Function

from composer_kernels.expert_weights import ExpertWeights
from composer_kernels.formats import MXFP8Tensor
from composer_kernels.recipe import Recipe
from composer_kernels.reference._products import product
from composer_kernels.reference.grouped_gemm import swiglu
from composer_kernels.reference.mxfp8 import mxfp8_dequantize, mxfp8_quantize
from composer_kernels.routes import Dispatch
from composer_kernels.swiglu import SwiGLU


def grouped_wgrad(
    grad_NP: Float[Tensor, "N P"] | MXFP8Tensor,
    x_KP: Float[Tensor, "K P"] | MXFP8Tensor,
    dispatch: Dispatch,
    *,
    out_dtype: torch.dtype = torch.float32,
) -> Float[Tensor, "E N K"]:
    """Twin of `composer_kernels.grouped_wgrad`."""
    grad_NP, x_KP = _values(grad_NP), _values(x_KP)
    slices = _rows_of_experts(dispatch)
    grads = [product(grad_NP[:, rows], x_KP[:, rows]) for rows in slices]
    return torch.stack(grads).to(out_dtype)


def sum_by_expert(
    rows_PN: Float[Tensor, "P N"], dispatch: Dispatch, *, out_dtype: torch.dtype = torch.float32
) -> Float[Tensor, "E N"]:
    """Twin of `composer_kernels.sum_by_expert`."""
    sums = [rows_PN[rows].float().sum(0) for rows in _rows_of_experts(dispatch)]
    return torch.stack(sums).to(out_dtype)


def apply_swiglu(gate_up_PG: Float[Tensor, "P G"], activation: SwiGLU) -> Float[Tensor, "P G_half"]:
    """Twin of `composer_kernels.activation.apply_swiglu`."""
    return swiglu(gate_up_PG.float(), activation).to(gate_up_PG.dtype)


def swiglu_backward(
    grad_PF: Float[Tensor, "P F"], gate_up_PG: Float[Tensor, "P G"], activation: SwiGLU
) -> Float[Tensor, "P G"]:
    """Twin of `composer_kernels.activation.swiglu_backward`, which has the formula."""
    gate, up = gate_up_PG[:, 0::2].float(), gate_up_PG[:, 1::2].float()
    gate_passes = up_passes = torch.ones_like(gate)
    if activation.limit is not None:
        # Not `<=`: NaN passes, and stays NaN.
        gate_passes = 1.0 - (gate > activation.limit).float()
        up_passes = 1.0 - (up.abs() > activation.limit).float()
        gate = gate.clamp(max=activation.limit)
        up = up.clamp(-activation.limit, activation.limit)
    sigmoid = torch.sigmoid(activation.alpha * gate)
    slope = sigmoid * (1.0 + activation.alpha * gate * (1.0 - sigmoid))
    grad_gate = grad_PF.float() * (up + activation.up_offset) * slope * gate_passes
    grad_up = grad_PF.float() * (gate * sigmoid) * up_passes
    return torch.stack((grad_gate, grad_up), -1).flatten(-2).to(gate_up_PG.dtype)


def expert_layer_with_grad(
    x_TD: Float[Tensor, "T D"],
    topk_expert_ids_TK: Int[Tensor, "T K"],
    topk_weights_TK: Float[Tensor, "T K"],
    weights: ExpertWeights,
    *,
    recipe: Recipe,
    first_local_expert: int = 0,
) -> Float[Tensor, "T D"]:
    """Twin of `composer_kernels.expert_layer_with_grad`, expert by expert without a permuted buffer;
    all gradients but those of the linear maps are autograd's."""
    dtype = x_TD.dtype
    assert isinstance(weights.gate_up, Tensor)
    assert isinstance(weights.down, Tensor)
    x_f32_TD = x_TD.float()  # Autograd sums the rows' gradients here, in f32.
    y_TKD = torch.zeros(*topk_expert_ids_TK.shape, x_TD.shape[1], device=x_TD.device)
    for expert in range(weights.num_experts):
        tokens, slots = torch.where(topk_expert_ids_TK == first_local_expert + expert)
        if len(tokens) == 0:
            continue
        x = x_f32_TD[tokens].to(dtype)
        gate_up = _linear(x, weights.gate_up, weights.gate_up_bias, expert, recipe)
        hidden = swiglu(gate_up.float(), weights.activation).to(dtype)
        y = _linear(hidden, weights.down, weights.down_bias, expert, recipe)
        y_TKD = y_TKD.index_put((tokens, slots), y.float())
    sum_TD = torch.zeros(x_TD.shape, device=x_TD.device)
    for slot in range(topk_expert_ids_TK.shape[1]):
        sum_TD = sum_TD + topk_weights_TK[:, slot, None] * y_TKD[:, slot]
    return sum_TD.to(dtype)


def _linear(
    x_MK: Tensor, w_ENK: Tensor, bias_EN: Tensor | None, expert: int, recipe: Recipe
) -> Tensor:
    bias_N = None if bias_EN is None else bias_EN[expert]
    return cast(Any, _Linear).apply(x_MK, w_ENK[expert], bias_N, recipe)


class _Linear(Function):
    """y = x w^T + bias, where each of the three products quantises its own operands."""

    @staticmethod
    def forward(ctx: Any, x_MK: Tensor, w_NK: Tensor, bias_N: Tensor | None, recipe: Recipe) -> Any:
        ctx.save_for_backward(x_MK, w_NK, bias_N)
        ctx.recipe = recipe
        y_MN = _product(x_MK, w_NK, x_MK.dtype, recipe.rule if recipe.forward else None)
        return (y_MN if bias_N is None else y_MN + bias_N.float()).to(x_MK.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (grad_MN,) = grads
        x_MK, w_NK, bias_N = ctx.saved_tensors
        recipe: Recipe = ctx.recipe
        dtype = x_MK.dtype
        dgrad_rule = recipe.rule if recipe.dgrad else None
        wgrad_rule = recipe.rule if recipe.wgrad else None
        grad_x = _product(grad_MN, w_NK.mT, dtype, dgrad_rule).to(dtype)
        grad_w = _product(grad_MN.mT, x_MK.mT, dtype, wgrad_rule).to(w_NK.dtype)
        grad_bias = None if bias_N is None else grad_MN.float().sum(0).to(bias_N.dtype)
        return grad_x, grad_w, grad_bias, None


def _product(a: Tensor, b: Tensor, dtype: torch.dtype, rule: Any) -> Tensor:
    """a b^T in f32, of operands in MXFP8 along what is contracted, or (no rule) in `dtype`."""
    if rule is None:
        return product(a.to(dtype).float(), b.to(dtype).float())
    a_values, b_values = (mxfp8_dequantize(mxfp8_quantize(each, rule=rule)) for each in (a, b))
    return product(a_values, b_values)


def _rows_of_experts(dispatch: Dispatch) -> list[slice]:
    firsts = map(int, dispatch.block_offsets[:-1])
    counts = map(int, dispatch.num_tokens_per_expert)
    return [slice(first, first + count) for first, count in zip(firsts, counts, strict=True)]


def _values(operand: Tensor | MXFP8Tensor) -> Tensor:
    return mxfp8_dequantize(operand) if isinstance(operand, MXFP8Tensor) else operand.float()
