"""What the kernels of MXFP8 and MXFP4 share on the host: checks, and the launch that decodes."""

from math import prod
from typing import Any

import torch
from torch import Tensor

from composer_kernels.errors import ShapeError, check_device, check_dtype, check_shape
from composer_kernels.formats import VALUE_DTYPES, MXFP4Tensor, MXFP8Tensor, num_blocks


def check_mx(name: str, x: MXFP8Tensor | MXFP4Tensor) -> None:
    """Raises a `KernelError` unless codes and scales belong together and lie on one device."""
    is_mxfp8 = isinstance(x, MXFP8Tensor)
    check_dtype(f"{name}.codes", x.codes, [torch.float8_e4m3fn if is_mxfp8 else torch.uint8])
    check_dtype(f"{name}.scales", x.scales, [torch.uint8])
    if not x.codes.shape:
        raise ShapeError(
            f"{name}.codes", x.codes.shape, "[*lead, K]" if is_mxfp8 else "[*lead, K / 2]"
        )
    check_shape(f"{name}.scales", x.scales, [*x.shape[:-1], num_blocks(x.shape[-1])])
    check_device(**{f"{name}.codes": x.codes, f"{name}.scales": x.scales})


def check_value_dtype(dtype: torch.dtype) -> None:
    """Raises `DtypeError` unless kernels write this dtype."""
    check_dtype("the result", torch.empty(0, dtype=dtype), VALUE_DTYPES)


def launch_dequantize(
    kernel: Any,
    x: MXFP8Tensor | MXFP4Tensor,
    *,
    dtype: torch.dtype,
    block: tuple[int, int],
    **switches: bool,
) -> Tensor:
    """The values, by a kernel whose programs have `block` rows and bytes of codes each."""
    num_rows, num_bytes = prod(x.codes.shape[:-1]), x.codes.shape[-1]
    values = torch.empty(x.shape, dtype=dtype, device=x.codes.device)
    kernel[(-(-num_rows // block[0]), -(-num_bytes // block[1]))](
        x.codes.contiguous().view(torch.uint8),
        x.scales.contiguous(),
        values,
        num_rows,
        num_bytes,
        *block,
        **switches,
    )
    return values
