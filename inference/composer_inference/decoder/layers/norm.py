"""RMS norm (arXiv 1910.07467)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional


class RMSNorm(nn.Module):
    """Over the last dim, in f32, rounded to x's dtype."""

    def __init__(self, dim: int, eps: float, *, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(dim, dtype=dtype))
        self.eps = eps
        self._shape = (dim,)

    def forward(self, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        return functional.rms_norm(x, self._shape, self.weight, self.eps)
