"""Weights in the blocked layout of oneDNN, which is what torch computes products with on a CPU: laid out
once, a product reads them up to twice as fast.

Dimensions: M rows of x, I inputs, O outputs.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

_NUM_ROWS = 16
"""Rows of x that the layout is chosen for; it serves any number."""
_LEAST_ROWS = 4
"""One or two rows take up to a quarter longer than four: their kernel does not keep up with memory."""


def can_pack(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether this processor computes so with this dtype."""
    if device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    is_bf16 = dtype == torch.bfloat16
    return dtype == torch.float32 or (
        is_bf16 and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())  # pyright: ignore[reportUnknownMemberType, reportPrivateUsage, reportUnknownArgumentType]
    )


def pack(weight_OI: Float[Tensor, "O I"]) -> Tensor:
    """An opaque copy, for `packed_linear` alone."""
    return torch.ops.mkldnn._reorder_linear_weight(weight_OI.detach(), _NUM_ROWS)  # pyright: ignore[reportUnknownMemberType, reportPrivateUsage, reportUnknownVariableType]


def packed_linear(
    x_MI: Float[Tensor, "M I"], packed: Tensor, bias_O: Float[Tensor, " O"] | None
) -> Float[Tensor, "M O"]:
    """x weight^T + bias, without a gradient."""
    num_rows = len(x_MI)
    if num_rows == 1:
        return _product(x_MI.expand(_LEAST_ROWS, -1), packed, bias_O)[:1]
    if 1 < num_rows < _LEAST_ROWS:
        padded = functional.pad(x_MI, (0, 0, 0, _LEAST_ROWS - num_rows))
        return _product(padded, packed, bias_O)[:num_rows]
    return _product(x_MI, packed, bias_O)


def _product(x_MI: Tensor, packed: Tensor, bias_O: Tensor | None) -> Tensor:
    return torch.ops.mkldnn._linear_pointwise(x_MI, packed, bias_O, "none", [], "")  # pyright: ignore[reportUnknownMemberType, reportPrivateUsage, reportUnknownVariableType]
