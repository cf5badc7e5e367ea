"""MXFP8 and MXFP4 for mixture-of-experts layers: Triton kernels with PyTorch twins.

CUDA tensors are computed by the kernels; CPU tensors by the twins, which need no Triton.
"""

from composer_kernels.errors import DeviceError, DtypeError, KernelError, ShapeError
from composer_kernels.formats import BLOCK, MXFP4Tensor, MXFP8Tensor, ScaleRule
from composer_kernels.mxfp4 import mxfp4_dequantize
from composer_kernels.mxfp8 import mxfp8_dequantize, mxfp8_quantize
from composer_kernels.scale_layout import tile_scales, untile_scales
from composer_kernels.target_info import Target, target_from_capability, target_of

__all__ = [
    "BLOCK",
    "DeviceError",
    "DtypeError",
    "KernelError",
    "MXFP4Tensor",
    "MXFP8Tensor",
    "ScaleRule",
    "ShapeError",
    "Target",
    "mxfp4_dequantize",
    "mxfp8_dequantize",
    "mxfp8_quantize",
    "target_from_capability",
    "target_of",
    "tile_scales",
    "untile_scales",
]
