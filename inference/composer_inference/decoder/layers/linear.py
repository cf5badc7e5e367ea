"""A linear map without initial values: weights are loaded."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional


class Linear(nn.Module):
    """y = x weight^T + bias. Weight [O, I]: several maps of one input, stacked."""

    def __init__(self, in_dim: int, *out_dims: int, bias: bool = False, dtype: torch.dtype) -> None:
        """`out_dims`: of each map."""
        super().__init__()
        self.out_dims = out_dims
        out_dim = sum(out_dims)
        self.weight = nn.Parameter(torch.empty(out_dim, in_dim, dtype=dtype))
        self.bias = nn.Parameter(torch.empty(out_dim, dtype=dtype)) if bias else None

    def forward(self, x: Float[Tensor, "*rows I"]) -> Float[Tensor, "*rows O"]:
        return functional.linear(x, self.weight, self.bias)
