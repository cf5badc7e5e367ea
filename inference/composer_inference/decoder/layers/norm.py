"""RMS norm (arXiv 1910.07467)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional


def rms_norm(
    x: Float[Tensor, "*rows D"], weight: Float[Tensor, " D"], eps: float
) -> Float[Tensor, "*rows D"]:
    """Over the last dim, in f32, rounded once to x's dtype."""
    if x.is_cuda:
        return functional.rms_norm(x, weight.shape, weight, eps)
    # On the CPU torch's own is a chain of small operations; the dot product makes it two shorter.
    values = x.float()
    mean_square = _squares(values).unsqueeze(-1) / values.shape[-1]
    return (values * torch.rsqrt(mean_square + eps) * weight).to(x.dtype)


def _squares(x: Tensor) -> Tensor:
    return torch.linalg.vecdot(x, x)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


class RMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float, *, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(dim, dtype=dtype))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        return rms_norm(x, self.weight, self.eps)
