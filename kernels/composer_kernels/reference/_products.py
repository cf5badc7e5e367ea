"""The matrix product of all twins: of f32 and in f32, whatever surrounds the call."""

import torch
from torch import Tensor


def product(a: Tensor, b: Tensor) -> Tensor:
    """a b^T of f32. Autocast, which would round both to bf16 first, is off inside."""
    with torch.autocast(a.device.type, enabled=False):
        return a @ b.mT
