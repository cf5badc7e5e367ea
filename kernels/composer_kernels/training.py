"""A layer's experts for training: forward and backward, their products in MXFP8 or bf16.

    y[t] = sum_k weight[t, k] * down(swiglu(gate_up(x[t])))  over the experts chosen by t

Gradients in x, in the weights of `combine` (so in the router) and in the experts' weights and
biases. What they are, with Q_d the quantisation to MXFP8 in blocks of 32 along dimension d, and
y = x w^T one expert's linear map of its rows, `[M, K]` by `[N, K]`:

    forward   y      = Q_K(x) Q_K(w)^T
    dgrad     grad_x = Q_N(grad_y) Q_N(w)
    wgrad     grad_w = Q_M(grad_y)^T Q_M(x)

Each product is a matrix product of two operands quantised along the dimension that it contracts,
always from their unquantised values: Q_N(w) is no transpose of Q_K(w). Rounding itself is
differentiated nowhere: these are the gradients of the smooth part, the linear map. Nothing else is
added to them: no mask where a value saturated, no gradient of a scale. This is torchao's definition
(`torchao/prototype/moe_training/scaled_grouped_mm.py`, `_MXFP8GroupedMM`) and TransformerEngine's
(its documentation's chapter on MXFP8, "Handling transposes": row-wise and column-wise quantisation,
each from full precision). A product that `Recipe` leaves unquantised takes its operands in x's
dtype.

SwiGLU and `combine` are differentiated exactly, at the stored values: gate and up are rounded to
x's dtype before SwiGLU, its output and each expert's output after. (`run_experts` fuses SwiGLU and
does not round gate and up; so the two forward passes differ by that.) Gradients of biases sum the
unquantised gradients.

Weights are plain tensors, bf16 or f32: master weights in f32 are quantised from f32, and for bf16
products rounded once. Their gradients have their dtypes.

Kept for the backward pass, in bytes for MXFP8 and bf16: x and SwiGLU's output quantised along the
tokens (P (D + F)), gate and up and the outputs (2 P (2 F + D)), and the weights quantised for dgrad
(3 E D F); a thirty-second more for scales. The quantiser makes them in the pass that quantises for
the forward. On CUDA no step waits for the device.

Dimensions: T tokens, K chosen experts a token, E experts, F expert hidden dim, G = 2 F, D model
dim, P rows of the permuted buffer.
"""

from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from jaxtyping import Float, Float32, Int32
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from composer_kernels.activation import apply_swiglu, swiglu_backward
from composer_kernels.errors import DtypeError, KernelError, check_dtype
from composer_kernels.expert_weights import ExpertWeights
from composer_kernels.experts import choose_block_m
from composer_kernels.formats import BLOCK, VALUE_DTYPES, MXFP8Tensor
from composer_kernels.grouped_gemm import grouped_gemm
from composer_kernels.grouped_wgrad import grouped_wgrad, sum_by_expert
from composer_kernels.mxfp8 import mxfp8_quantize
from composer_kernels.recipe import MXFP8_RECIPE, Recipe
from composer_kernels.routes import Dispatch
from composer_kernels.routing import (
    check_expert_ids,
    combine,
    combine_backward,
    dispatch,
    permute,
)
from composer_kernels.swiglu import SwiGLU

Operand = Tensor | MXFP8Tensor


def expert_layer_with_grad(
    x_TD: Float[Tensor, "T D"],
    topk_expert_ids_TK: Int32[Tensor, "T K"],
    topk_weights_TK: Float32[Tensor, "T K"],
    weights: ExpertWeights,
    *,
    recipe: Recipe = MXFP8_RECIPE,
    first_local_expert: int = 0,
    num_experts: int | None = None,
) -> Float[Tensor, "T D"]:
    """`expert_layer`, differentiable in x, `topk_weights_TK`, and the experts' weights and biases.

    Experts may be a part of all, as in `expert_layer`. The other arguments are those of
    `run_experts_with_grad`, and so are the errors.
    """
    check_expert_ids(topk_expert_ids_TK)
    num_tokens, top_k = topk_expert_ids_TK.shape
    if num_experts is None:
        num_experts = first_local_expert + weights.num_experts
    block_m = choose_block_m(weights, num_tokens, top_k, quantize_activations=recipe.forward)
    plan = dispatch(
        topk_expert_ids_TK,
        topk_weights_TK,
        num_experts,
        max(block_m, BLOCK),
        first_local_expert=first_local_expert,
        num_local_experts=weights.num_experts,
    )
    return run_experts_with_grad(x_TD, plan, weights, recipe=recipe)


def run_experts_with_grad(
    x_TD: Float[Tensor, "T D"],
    plan: Dispatch,
    weights: ExpertWeights,
    *,
    recipe: Recipe = MXFP8_RECIPE,
) -> Float[Tensor, "T D"]:
    """`expert_layer_with_grad` of a dispatch made before, whose `block_m` is a multiple of 32;
    gradients of the weights of `combine` go to `plan.weights`. Where no gradient is wanted,
    `run_experts` does less.

    x is bf16, or on the CPU f32, and the result and x's gradient have its dtype. Differentiable
    once. Raises a `KernelError` that names the tensor where shapes, dtypes or devices do not fit.
    """
    if x_TD.dtype not in VALUE_DTYPES:
        raise DtypeError("x", x_TD.dtype, VALUE_DTYPES)
    if plan.block_m % BLOCK:
        raise KernelError(
            f"the dispatch's block_m is {plan.block_m}; a multiple of {BLOCK} is asked for"
        )
    for name, weight in (("gate_up", weights.gate_up), ("down", weights.down)):
        if not isinstance(weight, Tensor):
            raise KernelError(f"{name} is quantised; training takes weights in bf16 or f32")
        check_dtype(name, weight, VALUE_DTYPES)
    return cast(Any, _ExpertLayer).apply(
        x_TD,
        plan.weights,
        weights.gate_up,
        weights.down,
        weights.gate_up_bias,
        weights.down_bias,
        plan,
        weights.activation,
        recipe,
    )


class _ExpertLayer(Function):
    """The forward pass keeps what each backward product reads, and only what a gradient needs."""

    @staticmethod
    def forward(
        ctx: Any,
        x_TD: Tensor,
        topk_weights_TK: Tensor,
        gate_up_EGD: Tensor,
        down_EDF: Tensor,
        gate_up_bias_EG: Tensor | None,
        down_bias_ED: Tensor | None,
        plan: Dispatch,
        activation: SwiGLU,
        recipe: Recipe,
    ) -> Tensor:
        needs_x, _, needs_gate_up, needs_down, needs_gate_up_bias, _ = ctx.needs_input_grad[:6]
        needs_hidden = needs_x or needs_gate_up or needs_gate_up_bias
        x_PD = permute(x_TD, plan)
        gate_up_PG, gate_up_kept = _linear(
            x_PD, gate_up_EGD, gate_up_bias_EG, plan, recipe, dgrad=needs_x, wgrad=needs_gate_up
        )
        hidden_PF = apply_swiglu(gate_up_PG, activation)
        y_PD, down_kept = _linear(
            hidden_PF, down_EDF, down_bias_ED, plan, recipe, dgrad=needs_hidden, wgrad=needs_down
        )
        # Of the plan, what a caller can change in place before the backward pass: autograd then tells.
        ctx.save_for_backward(
            topk_weights_TK, gate_up_PG, y_PD, *gate_up_kept.tensors(), *down_kept.tensors()
        )
        ctx.plan, ctx.activation, ctx.recipe = plan, activation, recipe
        # Of the parameters the backward pass asks the dtypes alone.
        parameters = (gate_up_EGD, down_EDF, gate_up_bias_EG, down_bias_ED)
        ctx.dtypes = [None if each is None else each.dtype for each in parameters]
        return combine(y_PD, plan)

    @staticmethod
    @cast(Any, once_differentiable)
    def backward(ctx: Any, *grads: Any) -> Any:
        (grad_TD,) = grads
        topk_weights_TK, gate_up_PG, y_PD, *kept = ctx.saved_tensors
        gate_up_kept, down_kept = _Kept.of(kept[:4]), _Kept.of(kept[4:])
        plan: Dispatch = replace(ctx.plan, weights=topk_weights_TK)
        needs_gate_up_bias, needs_down_bias = ctx.needs_input_grad[4:6]
        gate_up_dtype, down_dtype, gate_up_bias_dtype, down_bias_dtype = ctx.dtypes

        grad_y_PD, grad_topk_weights_TK = combine_backward(grad_TD, y_PD, plan)
        grad_down_bias_ED = _bias_grad(grad_y_PD, plan, down_bias_dtype, needs_down_bias)
        grad_hidden_PF, grad_down_EDF = _linear_backward(
            grad_y_PD, down_kept, plan, ctx.recipe, weight_dtype=down_dtype
        )
        grad_x_TD = grad_gate_up_EGD = grad_gate_up_bias_EG = None
        if grad_hidden_PF is not None:
            grad_gate_up_PG = swiglu_backward(grad_hidden_PF, gate_up_PG, ctx.activation)
            grad_gate_up_bias_EG = _bias_grad(
                grad_gate_up_PG, plan, gate_up_bias_dtype, needs_gate_up_bias
            )
            grad_x_PD, grad_gate_up_EGD = _linear_backward(
                grad_gate_up_PG, gate_up_kept, plan, ctx.recipe, weight_dtype=gate_up_dtype
            )
            grad_x_TD = None if grad_x_PD is None else combine(grad_x_PD, plan, weighted=False)
        return (
            grad_x_TD,
            grad_topk_weights_TK,
            grad_gate_up_EGD,
            grad_down_EDF,
            grad_gate_up_bias_EG,
            grad_down_bias_ED,
            None,
            None,
            None,
        )


@dataclass(frozen=True, slots=True)
class _Kept:
    """A linear map's operands for its backward products; None where no gradient needs them."""

    x: Operand | None
    """`[K, P]`, for wgrad."""
    w: Operand | None
    """`[E, K, N]`, for dgrad."""

    def tensors(self) -> list[Tensor | None]:
        """Four, for `save_for_backward`."""
        parts: list[Tensor | None] = []
        for operand in (self.x, self.w):
            if isinstance(operand, MXFP8Tensor):
                parts += [operand.codes, operand.scales]
            else:
                parts += [operand, None]
        return parts

    @classmethod
    def of(cls, tensors: list[Any]) -> "_Kept":
        """Back from `tensors`."""
        pairs = (tensors[:2], tensors[2:])
        x, w = (MXFP8Tensor(a, b) if b is not None else a for a, b in pairs)
        return cls(x, w)


def _linear(
    x_PK: Tensor,
    w_ENK: Tensor,
    bias_EN: Tensor | None,
    plan: Dispatch,
    recipe: Recipe,
    *,
    dgrad: bool,
    wgrad: bool,
) -> tuple[Tensor, _Kept]:
    """Every row times its expert's weights, in x's dtype, and what the wanted gradients will read."""
    dtype = x_PK.dtype
    x_rows, x_columns = _operands(x_PK, recipe, dtype, recipe.forward, wgrad and recipe.wgrad)
    w_rows, w_columns = _operands(w_ENK, recipe, dtype, recipe.forward, dgrad and recipe.dgrad)
    y_PN = grouped_gemm(x_rows, w_rows, plan, bias_EN=bias_EN, out_dtype=dtype)
    return y_PN, _Kept(x_columns if wgrad else None, w_columns if dgrad else None)


def _linear_backward(
    grad_PN: Tensor, kept: _Kept, plan: Dispatch, recipe: Recipe, *, weight_dtype: torch.dtype
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients in `_linear`'s rows and weights; None for those that nothing was kept for."""
    dtype = grad_PN.dtype
    dgrad, wgrad = kept.w is not None, kept.x is not None
    grad_rows, grad_columns = _operands(
        grad_PN, recipe, dtype, dgrad and recipe.dgrad, wgrad and recipe.wgrad
    )
    grad_x_PK = grad_w_ENK = None
    if kept.w is not None:
        grad_x_PK = grouped_gemm(grad_rows, kept.w, plan, out_dtype=dtype)
    if kept.x is not None:
        grad_w_ENK = grouped_wgrad(grad_columns, kept.x, plan, out_dtype=weight_dtype)
    return grad_x_PK, grad_w_ENK


def _operands(
    x: Tensor, recipe: Recipe, dtype: torch.dtype, quantize_rows: bool, quantize_columns: bool
) -> tuple[Operand, Operand]:
    """x as a product contracts it along its last dimension, and transposed, for one that contracts
    along the one before: from one pass where both are in MXFP8."""
    if quantize_columns:
        rows, columns = mxfp8_quantize(x, rule=recipe.rule, columns=True)
        return (rows if quantize_rows else x.to(dtype)), columns
    plain = x.to(dtype)
    return (mxfp8_quantize(x, rule=recipe.rule) if quantize_rows else plain), plain.mT


def _bias_grad(
    grad_PN: Tensor, plan: Dispatch, dtype: torch.dtype | None, needed: bool
) -> Tensor | None:
    return sum_by_expert(grad_PN, plan, out_dtype=dtype) if needed and dtype else None
