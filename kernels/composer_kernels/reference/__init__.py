"""The kernels' twins: the same functions in plain PyTorch, vectorised, on any device.

They are what a CPU runs, and what the kernels are tested and benchmarked against.
"""

from composer_kernels.reference.experts import expert_layer
from composer_kernels.reference.grouped_gemm import (
    grouped_gemm,
    grouped_gemm_quantized,
    swiglu,
)
from composer_kernels.reference.mxfp4 import mxfp4_dequantize, mxfp4_quantize
from composer_kernels.reference.mxfp8 import mxfp8_dequantize, mxfp8_quantize
from composer_kernels.reference.paged_attention import paged_attention
from composer_kernels.reference.routing import (
    combine,
    combine_backward,
    dispatch,
    permute,
    route,
    topk_weights,
)
from composer_kernels.reference.training import (
    apply_swiglu,
    expert_layer_with_grad,
    grouped_wgrad,
    sum_by_expert,
    swiglu_backward,
)

__all__ = [
    "apply_swiglu",
    "combine",
    "combine_backward",
    "dispatch",
    "expert_layer",
    "expert_layer_with_grad",
    "grouped_gemm",
    "grouped_gemm_quantized",
    "grouped_wgrad",
    "mxfp4_dequantize",
    "mxfp4_quantize",
    "mxfp8_dequantize",
    "mxfp8_quantize",
    "paged_attention",
    "permute",
    "route",
    "sum_by_expert",
    "swiglu",
    "swiglu_backward",
    "topk_weights",
]
