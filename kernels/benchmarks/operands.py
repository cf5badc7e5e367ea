"""Random operands on a device, and memory that shows what was never written.

Dimensions: E experts, N rows and K columns of their weights.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from composer_kernels import Dispatch, Kind, MXFP4Tensor, MXFP8Tensor, dispatch, reference
from composer_kernels.formats import num_blocks

Operand = Tensor | MXFP8Tensor | MXFP4Tensor
Activations = Tensor | MXFP8Tensor


@contextmanager
def poisoned_memory() -> Generator[None]:
    """Whatever torch allocates inside holds NaN, or the largest integer, until it is written."""
    utils: Any = torch.utils
    before = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    fills = utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    utils.deterministic.fill_uninitialized_memory = True
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warn_only)
        utils.deterministic.fill_uninitialized_memory = fills


class Draw:
    """Numbers drawn from one seed, on a device."""

    def __init__(self, seed: int, device: str) -> None:
        self.device = device
        self._generator = torch.Generator(device).manual_seed(seed)

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self._generator, device=self.device)

    def uniform(self, *shape: int) -> Tensor:
        return torch.rand(shape, generator=self._generator, device=self.device)

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """From `low` to `high`, both included."""
        return torch.randint(low, high + 1, shape, generator=self._generator, device=self.device)

    def wide(self, *shape: int) -> Tensor:
        """f32 of magnitudes from some 2^-60 to 2^60, with zeros among them."""
        values = torch.ldexp(self.normal(*shape), self.integers(-60, 60, *shape))
        return values * (self.uniform(*shape) > 0.1)

    def bf16(self, *shape: int) -> Tensor:
        """Of variance 1 / (last dimension), so that products with unit rows have unit variance."""
        options: dict[str, Any] = {"device": self.device, "dtype": torch.bfloat16}
        return torch.randn(shape, generator=self._generator, **options).mul_(shape[-1] ** -0.5)

    def choices(self, num_tokens: int, num_experts: int, top_k: int) -> tuple[Tensor, Tensor]:
        """Ids (int32) and weights of different experts a token, each expert equally likely."""
        weights, ids = self.uniform(num_tokens, num_experts).topk(top_k)
        return ids.int(), weights

    def plan(self, num_tokens: int, num_experts: int, top_k: int, block_m: int) -> Dispatch:
        ids, weights = self.choices(num_tokens, num_experts, top_k)
        return dispatch(ids, weights, num_experts, block_m)

    def uneven_plan(self, num_tokens: int, num_experts: int, block_m: int) -> Dispatch:
        """One choice a token: half of all choose expert 1, nobody the last expert."""
        ids = self.integers(0, num_experts - 2, num_tokens, 1)
        ids = torch.where(self.uniform(num_tokens, 1) < 0.5, torch.ones_like(ids), ids).int()
        return dispatch(ids, self.uniform(num_tokens, 1), num_experts, block_m)

    def real(
        self, kind: Kind, num_rows: int, E: int, N: int, K: int
    ) -> tuple[Activations, Operand]:
        """x `[num_rows, K]` of unit variance, w `[E, N, K]` such that products have it too."""
        x_format, w_format = kind.split("_")
        x = in_format(self.normal(num_rows, K), x_format)
        assert not isinstance(x, MXFP4Tensor)
        return x, in_format(self.bf16(E, N, K), w_format)

    def exact(
        self, kind: Kind, num_rows: int, E: int, N: int, K: int
    ) -> tuple[Activations, Operand]:
        """Operands whose products have exact sums in f32, in any order.

        Elements are multiples of 1/2 up to 6 and scales 1/4 to 4, so products are multiples of
        1/64 up to 576: sums of K = 256 of them stay below 2^24 / 64.
        """
        x_format, w_format = kind.split("_")
        x = self._exact(x_format, num_rows, K)
        assert not isinstance(x, MXFP4Tensor)
        return x, self._exact(w_format, E, N, K)

    def _exact(self, fmt: str, *shape: int) -> Operand:
        if fmt == "bf16":
            return (self.integers(-12, 12, *shape) / 2).bfloat16()
        scales = self.integers(125, 129, *shape[:-1], num_blocks(shape[-1])).to(torch.uint8)
        if fmt == "mxfp8":
            codes = (self.integers(-12, 12, *shape) / 2).to(torch.float8_e4m3fn)
            return MXFP8Tensor(codes, scales)
        codes = self.integers(0, 255, *shape[:-1], shape[-1] // 2).to(torch.uint8)
        return MXFP4Tensor(codes, scales)


def in_format(values: Tensor, fmt: str) -> Operand:
    """`bf16`, `mxfp8` or `mxfp4`, quantised by the twins."""
    if fmt == "mxfp8":
        return reference.mxfp8_quantize(values)
    if fmt == "mxfp4":
        return reference.mxfp4_quantize(values)
    return values.bfloat16()


def dequantize(operand: Operand) -> Tensor:
    """f32 values."""
    if isinstance(operand, MXFP8Tensor):
        return reference.mxfp8_dequantize(operand)
    if isinstance(operand, MXFP4Tensor):
        return reference.mxfp4_dequantize(operand)
    return operand.float()
