"""The twin against the formats' definitions: everything here is exact."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from composer_kernels import MXFP8Tensor, ScaleRule
from composer_kernels.reference import mxfp8_dequantize, mxfp8_quantize
from tests.composer_kernels.inputs import (
    around_every_midpoint,
    assert_same_bits,
    assert_same_codes,
    every_bf16,
    wide_random,
)
from tests.composer_kernels.oracle import E4M3, quantize_block, scale_value, to_f32

RULES = list(ScaleRule)


def expected(x: Tensor, rule: ScaleRule) -> MXFP8Tensor:
    """x `[rows, K]` by the oracle."""
    codes: list[list[int]] = []
    scales: list[list[int]] = []
    for row in x.float().tolist():
        blocks = [
            quantize_block(row[start : start + 32], E4M3, rule=rule, nan_code=0x7F)
            for start in range(0, len(row), 32)
        ]
        codes.append([code for block, _ in blocks for code in block])
        scales.append([scale for _, scale in blocks])
    return MXFP8Tensor(
        torch.tensor(codes, dtype=torch.uint8).view(torch.float8_e4m3fn),
        torch.tensor(scales, dtype=torch.uint8),
    )


def test_every_code_with_every_scale_has_its_value():
    codes = torch.arange(256).to(torch.uint8).expand(256, 256)
    scales = torch.arange(256).to(torch.uint8)[:, None].expand(256, 8)
    values = mxfp8_dequantize(MXFP8Tensor(codes.contiguous().view(torch.float8_e4m3fn), scales))
    elements = [E4M3.value(code) for code in range(256)]
    wanted = [[to_f32(v * scale_value(scale)) for v in elements] for scale in range(256)]
    assert_same_bits(values, torch.tensor(wanted))


@pytest.mark.parametrize("rule", RULES)
def test_every_bf16_alone_in_its_block(rule: ScaleRule):
    x = every_bf16()[:, None]
    assert_same_codes(mxfp8_quantize(x, rule=rule), expected(x, rule))


@pytest.mark.parametrize("rule", RULES)
def test_every_bf16_in_full_blocks(rule: ScaleRule):
    """Neighbours share a block, then values of all magnitudes do."""
    order = torch.randperm(65536, generator=torch.Generator().manual_seed(1))
    finite = every_bf16()[order]
    finite = finite[finite.isfinite()].reshape(-1, 32)
    for x in (every_bf16().reshape(-1, 32), finite):
        assert_same_codes(mxfp8_quantize(x, rule=rule), expected(x, rule))


@pytest.mark.parametrize("rule", RULES)
def test_around_every_midpoint(rule: ScaleRule):
    x = around_every_midpoint()
    result = mxfp8_quantize(x, rule=rule)
    assert_same_codes(result, expected(x, rule))
    if rule is ScaleRule.FLOOR:
        assert set(result.codes.view(torch.uint8).flatten().tolist()) >= {
            *range(0x7F),
            *range(0x80, 0xFF),
        }


@pytest.mark.parametrize("rule", RULES)
def test_representable_values_come_back(rule: ScaleRule):
    """Every finite code under every scale that a finite f32 can have."""
    codes = torch.tensor([code for code in range(256) if code & 0x7F != 0x7F], dtype=torch.uint8)
    codes = functional.pad(codes, (0, -len(codes) % 31)).reshape(-1, 31)
    # 256 in each block: its magnitude is the one that gives this scale.
    codes = torch.cat([torch.full((len(codes), 1), 0x78, dtype=torch.uint8), codes], -1)
    x = MXFP8Tensor(
        codes.flatten().expand(247, -1).contiguous().view(torch.float8_e4m3fn),
        torch.arange(247).to(torch.uint8)[:, None].expand(-1, len(codes)).contiguous(),
    )
    assert_same_codes(mxfp8_quantize(mxfp8_dequantize(x), rule=rule), x)


F32_ABOVE_464 = 464.0 + 2.0**-15


@pytest.mark.parametrize(
    ("amax", "floor", "ceil"),
    [
        pytest.param(256.0, (0x78, 127), (0x78, 127), id="power of two"),
        pytest.param(448.0, (0x7E, 127), (0x7E, 127), id="largest element"),
        pytest.param(464.0, (0x7E, 127), (0x7E, 127), id="tie that rounds to the largest"),
        pytest.param(F32_ABOVE_464, (0x7E, 127), (0x77, 128), id="just above the tie"),
        pytest.param(480.0, (0x7E, 127), (0x77, 128), id="would be the next element"),
        pytest.param(496.0, (0x7E, 127), (0x78, 128), id="rounds up to 512"),
        pytest.param(511.0, (0x7E, 127), (0x78, 128), id="almost the next power of two"),
        pytest.param(-480.0, (0xFE, 127), (0xF7, 128), id="negative"),
        pytest.param(2.0**-119, (0x78, 0), (0x78, 0), id="smallest that needs no clamp"),
        pytest.param(1.9 * 2.0**-119, (0x7E, 0), (0x77, 1), id="saturates at the smallest scale"),
        pytest.param(1.9 * 2.0**-120, (0x77, 0), (0x77, 0), id="clamped scale"),
        pytest.param(2.0**-126, (0x40, 0), (0x40, 0), id="smallest normal f32"),
        pytest.param(2.0**-136, (0x01, 0), (0x01, 0), id="subnormal f32, subnormal code"),
        pytest.param(2.0**-137, (0x00, 0), (0x00, 0), id="tie that rounds to zero"),
        pytest.param(1.5 * 2.0**-137, (0x01, 0), (0x01, 0), id="rounds up to the smallest code"),
        pytest.param(2.0**-149, (0x00, 0), (0x00, 0), id="smallest f32"),
        pytest.param(torch.finfo(torch.float32).max, (0x7E, 246), (0x78, 247), id="largest f32"),
        pytest.param(0.0, (0x00, 0), (0x00, 0), id="zero"),
        pytest.param(-0.0, (0x80, 0), (0x80, 0), id="negative zero"),
        pytest.param(math.nan, (0x7F, 255), (0x7F, 255), id="NaN"),
        pytest.param(math.inf, (0x7F, 255), (0x7F, 255), id="infinity"),
        pytest.param(-math.inf, (0x7F, 255), (0x7F, 255), id="negative infinity"),
    ],
)
def test_the_largest_element_and_its_scale(
    amax: float, floor: tuple[int, int], ceil: tuple[int, int]
):
    for rule, wanted in ((ScaleRule.FLOOR, floor), (ScaleRule.CEIL, ceil)):
        result = mxfp8_quantize(torch.tensor([amax]), rule=rule)
        assert (result.codes.view(torch.uint8).item(), result.scales.item()) == wanted


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_one_bad_value_makes_its_block_nan_and_no_other(bad: float):
    x = torch.ones(2, 64)
    x[0, 40] = bad
    result = mxfp8_quantize(x)
    nan = mxfp8_dequantize(result).isnan()
    assert nan[0, 32:].all()
    assert nan.sum() == 32
    assert (result.codes.view(torch.uint8)[0, 32:] == 0x7F).all()


def test_columns_are_the_transpose_quantised():
    x = wide_random(3, 40, 70)
    rows, columns = mxfp8_quantize(x, columns=True)
    assert columns.codes.shape == (3, 70, 40)
    assert columns.scales.shape == (3, 70, 2)
    assert_same_codes(rows, mxfp8_quantize(x))
    for each in range(3):
        transposed = MXFP8Tensor(columns.codes[each], columns.scales[each])
        assert_same_codes(transposed, expected(x[each].T, ScaleRule.CEIL))


@pytest.mark.parametrize("k", [1, 31, 32, 33, 64, 100])
def test_a_last_block_that_is_shorter(k: int):
    x = wide_random(5, k, seed=k)
    assert_same_codes(mxfp8_quantize(x), expected(x, ScaleRule.CEIL))


def test_the_error_is_that_of_four_bits():
    """Where the rule saturates nothing, an element is off by at most half a unit in its last place,
    1/16 of it, or of E4M3's subnormals, 2^-10 of the block's scale."""
    x = wide_random(64, 256)
    result = mxfp8_quantize(x)
    scales = result.scales.view(torch.float8_e8m0fnu).float().repeat_interleave(32, -1)
    error = (mxfp8_dequantize(result) - x).abs()
    assert (error <= torch.maximum(x.abs() / 16, scales * 2.0**-10)).all()


def test_dequantised_bf16_is_rounded_once():
    x = mxfp8_quantize(wide_random(8, 64))
    wanted = mxfp8_dequantize(x, dtype=torch.float32).to(torch.bfloat16)
    assert_same_bits(mxfp8_dequantize(x, dtype=torch.bfloat16), wanted)


def test_a_parameter_is_quantised_without_a_gradient():
    x = torch.nn.Parameter(torch.randn(2, 32))
    assert not mxfp8_dequantize(mxfp8_quantize(x)).requires_grad
