"""A layer's experts in plain PyTorch, without the permuted buffer: what
`composer_kernels.experts` is measured against.

    y[t] = sum_k weight[t, k] * down(swiglu(gate_up(x[t])))  over the experts chosen by t

Values are rounded where the kernels round: SwiGLU's output and each expert's output once, to x's
dtype or to MXFP8; the sum over k runs in f32, in the order of the slots, and is rounded once.

Dimensions: T tokens, K chosen experts a token, E experts, F expert hidden dim, D model dim.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from composer_kernels.expert_weights import ExpertWeights
from composer_kernels.reference._products import product
from composer_kernels.reference.grouped_gemm import dequantize_expert, swiglu
from composer_kernels.reference.mxfp8 import mxfp8_dequantize, mxfp8_quantize


def expert_layer(
    x_TD: Float[Tensor, "T D"],
    topk_expert_ids_TK: Int[Tensor, "T K"],
    topk_weights_TK: Float[Tensor, "T K"],
    weights: ExpertWeights,
    *,
    quantize_activations: bool = False,
    first_local_expert: int = 0,
) -> Float[Tensor, "T D"]:
    """Twin of `composer_kernels.expert_layer`."""

    def rounded(values: Tensor) -> Tensor:
        if quantize_activations:
            return mxfp8_dequantize(mxfp8_quantize(values))
        return values.to(x_TD.dtype).float()

    x_rounded_TD = rounded(x_TD)
    y_TKD = torch.zeros(*topk_expert_ids_TK.shape, x_TD.shape[1], device=x_TD.device)
    for expert in range(weights.num_experts):
        tokens, slots = torch.where(topk_expert_ids_TK == first_local_expert + expert)
        if len(tokens) == 0:
            continue
        gate_up = product(x_rounded_TD[tokens], dequantize_expert(weights.gate_up, expert))
        if weights.gate_up_bias is not None:
            gate_up = gate_up + weights.gate_up_bias[expert].float()
        hidden = rounded(swiglu(gate_up, weights.activation))
        y = product(hidden, dequantize_expert(weights.down, expert))
        if weights.down_bias is not None:
            y = y + weights.down_bias[expert].float()
        y_TKD[tokens, slots] = y.to(x_TD.dtype).float()
    sum_TD = torch.zeros(x_TD.shape, device=x_TD.device)
    for slot in range(topk_expert_ids_TK.shape[1]):
        sum_TD = sum_TD + topk_weights_TK[:, slot, None] * y_TKD[:, slot]
    return sum_TD.to(x_TD.dtype)
