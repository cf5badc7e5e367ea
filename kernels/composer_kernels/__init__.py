"""MXFP8 and MXFP4 for mixture-of-experts layers: Triton kernels with PyTorch twins.

CUDA tensors are computed by the kernels; CPU tensors by the twins, which need no Triton.
"""

from composer_kernels.errors import DeviceError, DtypeError, KernelError, ShapeError
from composer_kernels.expert_weights import (
    ExpertWeights,
    from_gpt_oss,
    from_gpt_oss_mxfp4,
    interleave_gate_up,
    interleave_halves,
)
from composer_kernels.experts import choose_block_m, expert_layer, quantize_experts, run_experts
from composer_kernels.formats import BLOCK, MXFP4Tensor, MXFP8Tensor, ScaleRule
from composer_kernels.grouped_gemm import grouped_gemm, grouped_gemm_quantized
from composer_kernels.grouped_wgrad import grouped_wgrad, sum_by_expert
from composer_kernels.mxfp4 import mxfp4_dequantize
from composer_kernels.mxfp8 import mxfp8_dequantize, mxfp8_quantize
from composer_kernels.paged_attention import BlockTable, paged_attention
from composer_kernels.recipe import BF16_RECIPE, MXFP8_RECIPE, Recipe
from composer_kernels.routes import Dispatch, GroupScore, RouterConfig, Scoring
from composer_kernels.routing import combine, combine_backward, dispatch, permute, route
from composer_kernels.scale_layout import tile_scales, untile_scales
from composer_kernels.swiglu import GPT_OSS, SILU, SwiGLU
from composer_kernels.target_info import Target, target_from_capability, target_of
from composer_kernels.tiles import (
    Kind,
    Tiles,
    WgradTiles,
    choose_tiles,
    choose_wgrad_tiles,
    mean_rows_per_expert,
)
from composer_kernels.training import expert_layer_with_grad, run_experts_with_grad

__all__ = [
    "BF16_RECIPE",
    "BLOCK",
    "GPT_OSS",
    "MXFP8_RECIPE",
    "SILU",
    "BlockTable",
    "DeviceError",
    "Dispatch",
    "DtypeError",
    "ExpertWeights",
    "GroupScore",
    "KernelError",
    "Kind",
    "MXFP4Tensor",
    "MXFP8Tensor",
    "Recipe",
    "RouterConfig",
    "ScaleRule",
    "Scoring",
    "ShapeError",
    "SwiGLU",
    "Target",
    "Tiles",
    "WgradTiles",
    "choose_block_m",
    "choose_tiles",
    "choose_wgrad_tiles",
    "combine",
    "combine_backward",
    "dispatch",
    "expert_layer",
    "expert_layer_with_grad",
    "from_gpt_oss",
    "from_gpt_oss_mxfp4",
    "grouped_gemm",
    "grouped_gemm_quantized",
    "grouped_wgrad",
    "interleave_gate_up",
    "interleave_halves",
    "mean_rows_per_expert",
    "mxfp4_dequantize",
    "mxfp8_dequantize",
    "mxfp8_quantize",
    "paged_attention",
    "permute",
    "quantize_experts",
    "route",
    "run_experts",
    "run_experts_with_grad",
    "sum_by_expert",
    "target_from_capability",
    "target_of",
    "tile_scales",
    "untile_scales",
]
