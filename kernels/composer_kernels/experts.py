"""The forward pass of a layer's experts: two grouped GEMMs with SwiGLU between them, and the
weighted sum.

    y[t] = sum_k weight[t, k] * down(swiglu(gate_up(x[t])))  over the experts chosen by t

Four launches and no copy of the tokens: the first GEMM picks its rows from x by itself, and its
epilogue applies SwiGLU and, with `quantize_activations`, quantises what the second GEMM reads.

Dimensions: T tokens, K chosen experts a token, E experts, F expert hidden dim, D model dim, P
rows of the permuted buffer. For inference: no gradient is kept on CUDA.
"""

from dataclasses import replace

import torch
from jaxtyping import Float, Float32, Int32
from torch import Tensor

from composer_kernels.errors import DtypeError, KernelError
from composer_kernels.expert_weights import ExpertWeights
from composer_kernels.formats import MXFP4Tensor, MXFP8Tensor, ScaleRule
from composer_kernels.grouped_gemm import grouped_gemm, grouped_gemm_quantized, kind_of
from composer_kernels.mxfp8 import mxfp8_quantize
from composer_kernels.routes import Dispatch
from composer_kernels.routing import check_expert_ids, combine, dispatch
from composer_kernels.target_info import target_of
from composer_kernels.tiles import Kind, choose_tiles, mean_rows_per_expert


def expert_layer(
    x_TD: Float[Tensor, "T D"],
    topk_expert_ids_TK: Int32[Tensor, "T K"],
    topk_weights_TK: Float32[Tensor, "T K"],
    weights: ExpertWeights,
    *,
    quantize_activations: bool = False,
    first_local_expert: int = 0,
    num_experts: int | None = None,
) -> Float[Tensor, "T D"]:
    """Run each token through its chosen experts and sum their outputs, times the token's weights.

    `weights` holds the experts from `first_local_expert` on, of `num_experts` in all (default:
    these are all); chosen experts that are not among them add nothing. The other arguments are
    those of `run_experts`, and so are the errors.
    """
    check_expert_ids(topk_expert_ids_TK)
    num_tokens, top_k = topk_expert_ids_TK.shape
    if num_experts is None:
        num_experts = first_local_expert + weights.num_experts
    plan = dispatch(
        topk_expert_ids_TK,
        topk_weights_TK,
        num_experts,
        choose_block_m(weights, num_tokens, top_k, quantize_activations=quantize_activations),
        first_local_expert=first_local_expert,
        num_local_experts=weights.num_experts,
    )
    return run_experts(x_TD, plan, weights, quantize_activations=quantize_activations)


def run_experts(
    x_TD: Float[Tensor, "T D"],
    plan: Dispatch,
    weights: ExpertWeights,
    *,
    quantize_activations: bool = False,
) -> Float[Tensor, "T D"]:
    """`expert_layer` of a dispatch made before, with `block_m` from `choose_block_m`.

    x is bf16, or on the CPU f32, and the result has its dtype. `quantize_activations`: x, and
    SwiGLU's output without being rounded to bf16 before, are quantised to MXFP8 and so are the
    weights; without it activations stay in bf16 and weights may have any format.

    Raises a `KernelError` that names the tensor where shapes, dtypes or devices do not fit.
    """
    if x_TD.dtype not in (torch.bfloat16, torch.float32):
        raise DtypeError("x", x_TD.dtype, [torch.bfloat16, torch.float32])
    if quantize_activations:
        hidden_PF = grouped_gemm_quantized(
            mxfp8_quantize(x_TD),
            weights.gate_up,
            plan,
            bias_EN=weights.gate_up_bias,
            activation=weights.activation,
            gather=True,
        )
    else:
        hidden_PF = grouped_gemm(
            x_TD,
            weights.gate_up,
            plan,
            bias_EN=weights.gate_up_bias,
            activation=weights.activation,
            gather=True,
            out_dtype=x_TD.dtype,
        )
    y_PD = grouped_gemm(
        hidden_PF, weights.down, plan, bias_EN=weights.down_bias, out_dtype=x_TD.dtype
    )
    return combine(y_PD, plan)


def choose_block_m(
    weights: ExpertWeights, num_tokens: int, top_k: int, *, quantize_activations: bool = False
) -> int:
    """Rows of a dispatch's blocks, as the tiles saved for both GEMMs want them; 16 on the CPU."""
    gate_up, down = weights.gate_up, weights.down
    target = target_of(gate_up if isinstance(gate_up, Tensor) else gate_up.codes)
    if target.capability == 0:
        return 16
    rows_per_expert = mean_rows_per_expert(num_tokens, top_k, weights.num_experts)
    return max(
        choose_tiles(target, _kind(w, quantize_activations), rows_per_expert, *w.shape[1:]).block_m
        for w in (gate_up, down)
    )


def quantize_experts(weights: ExpertWeights, *, rule: ScaleRule = ScaleRule.CEIL) -> ExpertWeights:
    """The same experts with bf16 or f32 weights quantised to MXFP8, biases as they are.

    Raises `KernelError` where the weights are quantised already.
    """
    gate_up, down = weights.gate_up, weights.down
    if not (isinstance(gate_up, Tensor) and isinstance(down, Tensor)):
        raise KernelError("gate_up or down is quantised; weights in bf16 or f32 are asked for")
    return replace(
        weights,
        gate_up=mxfp8_quantize(gate_up, rule=rule),
        down=mxfp8_quantize(down, rule=rule),
    )


def _kind(w: Tensor | MXFP8Tensor | MXFP4Tensor, quantize_activations: bool) -> Kind:
    return Kind.MXFP8_MXFP8 if quantize_activations else kind_of(torch.empty(0), w)
