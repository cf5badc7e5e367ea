"""A linear map without initial values: weights are loaded."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from composer_inference.decoder.layers.packed import pack, packed_linear


class Linear(nn.Module):
    """y = x weight^T + bias. Weight [O, I]: several maps of one input, stacked."""

    def __init__(self, in_dim: int, *out_dims: int, bias: bool = False, dtype: torch.dtype) -> None:
        """`out_dims`: of each map."""
        super().__init__()
        self.out_dims = out_dims
        out_dim = sum(out_dims)
        self.weight = nn.Parameter(torch.empty(out_dim, in_dim, dtype=dtype))
        self.bias = nn.Parameter(torch.empty(out_dim, dtype=dtype)) if bias else None
        self._packed: Tensor | None = None

    def forward(self, x: Float[Tensor, "*rows I"]) -> Float[Tensor, "*rows O"]:
        if self._packed is not None:
            return packed_linear(x, self._packed, self.bias)
        return functional.linear(x, self.weight, self.bias)

    @property
    def is_packed(self) -> bool:
        return self._packed is not None

    def pack(self) -> None:
        """Keep the weight in the layout of `packed` alone; `weight` goes to the meta device."""
        self._packed = pack(self.weight)
        empty = torch.empty_like(self.weight, device="meta")
        self.weight = nn.Parameter(empty, requires_grad=False)

    def unpack(self) -> None:
        """Make room for another weight, without values, in place of the packed one."""
        if self._packed is not None:
            self._packed = None
            empty = torch.empty_like(self.weight, device="cpu")
            self.weight = nn.Parameter(empty, requires_grad=False)
