"""Operands and dispatches for the grouped GEMM's tests, and the error that its sums may have."""

from dataclasses import dataclass

import torch
from torch import Tensor

from composer_kernels import MXFP4Tensor, MXFP8Tensor, reference
from composer_kernels.formats import num_blocks
from composer_kernels.routes import Dispatch
from composer_kernels.tiles import Kind, Tiles

KINDS = list(Kind)
SMALL = Tiles(
    block_m=16,
    block_n=64,
    block_k=64,
    group_m=2,
    swap_operands=False,
    num_warps=4,
    num_stages=1,
    programs_per_sm=1,
)

Operand = Tensor | MXFP8Tensor | MXFP4Tensor


def spread(num_tokens_per_expert: list[int], *, block_m: int = 16, seed: int = 0) -> Dispatch:
    """A dispatch of one choice a token that gives each expert this many tokens, in a random order."""
    ids = torch.arange(len(num_tokens_per_expert)).repeat_interleave(
        torch.tensor(num_tokens_per_expert)
    )
    order = torch.randperm(len(ids), generator=torch.Generator().manual_seed(seed))
    weights = torch.ones(len(ids), 1)
    return reference.dispatch(ids[order, None].int(), weights, len(num_tokens_per_expert), block_m)


@dataclass
class Draw:
    """Operands drawn from one seed."""

    generator: torch.Generator

    @classmethod
    def seeded(cls, seed: int) -> "Draw":
        return cls(torch.Generator().manual_seed(seed))

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        return torch.randint(low, high + 1, shape, generator=self.generator)

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, generator=self.generator)

    def exact(self, kind: Kind, num_rows: int, E: int, N: int, K: int) -> tuple[Operand, Operand]:
        """x `[num_rows, K]` and w `[E, N, K]` whose products have exact sums in f32.

        Elements are multiples of 1/2 up to 6 and scales 1/4 to 4, so products are multiples of
        1/64 up to 576: sums of 100 are below 2^24 / 64.
        """
        w_format = kind.split("_")[1]
        x = (
            self._exact_mxfp8(num_rows, K)
            if kind is Kind.MXFP8_MXFP8
            else self._exact_bf16(num_rows, K)
        )
        if w_format == "mxfp8":
            return x, self._exact_mxfp8(E, N, K)
        if w_format == "mxfp4":
            codes = self.integers(0, 255, E, N, K // 2).to(torch.uint8)
            return x, MXFP4Tensor(codes, self._scales(E, N, K))
        return x, self._exact_bf16(E, N, K)

    def real(self, kind: Kind, num_rows: int, E: int, N: int, K: int) -> tuple[Operand, Operand]:
        """x of unit variance and w such that outputs have it too."""
        x, w = self.normal(num_rows, K), self.normal(E, N, K) / K**0.5
        quantize = {
            "mxfp8": reference.mxfp8_quantize,
            "mxfp4": reference.mxfp4_quantize,
            "bf16": lambda values: values.bfloat16(),
        }
        x_format, w_format = kind.split("_")
        return quantize[x_format](x), quantize[w_format](w)

    def _exact_bf16(self, *shape: int) -> Tensor:
        return (self.integers(-12, 12, *shape) / 2).bfloat16()

    def _exact_mxfp8(self, *shape: int) -> MXFP8Tensor:
        codes = (self.integers(-12, 12, *shape) / 2).to(torch.float8_e4m3fn)
        return MXFP8Tensor(codes, self._scales(*shape))

    def _scales(self, *shape: int) -> Tensor:
        return self.integers(125, 129, *shape[:-1], num_blocks(shape[-1])).to(torch.uint8)


def dequantize(operand: Operand) -> Tensor:
    """f32 values."""
    if isinstance(operand, MXFP8Tensor):
        return reference.mxfp8_dequantize(operand)
    if isinstance(operand, MXFP4Tensor):
        return reference.mxfp4_dequantize(operand)
    return operand.float()


def sum_error(x: Operand, w: Operand, dispatch: Dispatch, bias: Tensor | None = None) -> Tensor:
    """`[P, N]`: how far two f32 evaluations of `x w^T + bias` may lie apart, whatever their order.

    Each has an error of at most gamma_n sum |x| |w|, with n = K + 1 roundings on the longest path
    and gamma_n = n u / (1 - n u), u = 2^-24 (Higham, "Accuracy and Stability", section 3.1).
    """
    absolute = reference.grouped_gemm(
        dequantize(x).abs(),
        dequantize(w).abs(),
        dispatch,
        bias_EN=None if bias is None else bias.abs(),
        out_dtype=torch.float32,
    )
    nu = (dequantize(x).shape[-1] + 1) * 2.0**-24
    return 2 * nu / (1 - nu) * absolute


def bf16_error(y: Tensor) -> Tensor:
    """How far roundings to bf16 put two close numbers further apart: half a last place each."""
    return 2.0**-8 * y.float().abs()


def assert_within(actual: Tensor, expected: Tensor, bound: Tensor) -> None:
    """Elementwise, and nowhere NaN."""
    error = (actual.float() - expected.float()).abs()
    assert bool((error <= bound).all()), f"{(error - bound).max()} above the bound"
