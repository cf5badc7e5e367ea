"""The twin against the format's definition: everything here is exact."""

import pytest
import torch
from torch import Tensor

from composer_kernels import MXFP4Tensor, ScaleRule
from composer_kernels.reference import mxfp4_dequantize, mxfp4_quantize
from tests.composer_kernels.inputs import assert_same_bits, every_bf16, wide_random
from tests.composer_kernels.oracle import E2M1, quantize_block, scale_value, to_f32

RULES = list(ScaleRule)


def expected(x: Tensor, rule: ScaleRule) -> MXFP4Tensor:
    """x `[rows, K]` by the oracle."""
    codes: list[list[int]] = []
    scales: list[list[int]] = []
    for row in x.float().tolist():
        blocks = [
            quantize_block(row[start : start + 32], E2M1, rule=rule, nan_code=0)
            for start in range(0, len(row), 32)
        ]
        elements = [code for block, _ in blocks for code in block]
        codes.append(
            [low + 16 * high for low, high in zip(elements[::2], elements[1::2], strict=True)]
        )
        scales.append([scale for _, scale in blocks])
    return MXFP4Tensor(
        torch.tensor(codes, dtype=torch.uint8), torch.tensor(scales, dtype=torch.uint8)
    )


def assert_same(actual: MXFP4Tensor, wanted: MXFP4Tensor) -> None:
    assert_same_bits(actual.codes, wanted.codes)
    assert_same_bits(actual.scales, wanted.scales)


def test_every_byte_with_every_scale_has_its_values():
    codes = torch.arange(256).to(torch.uint8).expand(256, 256)
    scales = torch.arange(256).to(torch.uint8)[:, None].expand(256, 16)
    values = mxfp4_dequantize(MXFP4Tensor(codes, scales))
    elements = [E2M1.value(code) for byte in range(256) for code in (byte & 15, byte >> 4)]
    wanted = [[to_f32(v * scale_value(scale)) for v in elements] for scale in range(256)]
    assert_same_bits(values, torch.tensor(wanted))


def test_the_low_four_bits_come_first():
    """0x1 is 0.5, 0xA is -1, 0x7 is 6; the scale 128 doubles."""
    x = MXFP4Tensor(
        torch.tensor([[0xA1, 0x07]], dtype=torch.uint8), torch.tensor([[128]], dtype=torch.uint8)
    )
    assert mxfp4_dequantize(x).tolist() == [[1.0, -2.0, 12.0, 0.0]]
    assert_same(mxfp4_quantize(mxfp4_dequantize(x)), x)


def test_the_values_are_those_that_transformers_reads():
    """gpt-oss's own loader, on a checkpoint's shapes: blocks [E, N, K / 32, 16]."""
    mxfp4 = pytest.importorskip("transformers.integrations.mxfp4")
    generator = torch.Generator().manual_seed(3)
    blocks = torch.randint(0, 256, (2, 6, 3, 16), dtype=torch.uint8, generator=generator)
    scales = torch.randint(110, 140, (2, 6, 3), dtype=torch.uint8, generator=generator)
    theirs = mxfp4.convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
    ours = mxfp4_dequantize(MXFP4Tensor(blocks.flatten(-2), scales))
    # Theirs come with the contracted dimension before the last.
    assert torch.equal(ours, theirs.mT)


@pytest.mark.parametrize("rule", RULES)
def test_every_bf16_beside_a_zero(rule: ScaleRule):
    x = torch.stack([every_bf16(), torch.zeros(65536, dtype=torch.bfloat16)], -1)
    assert_same(mxfp4_quantize(x, rule=rule), expected(x, rule))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("k", [2, 30, 32, 34, 100])
def test_random_rows(k: int, rule: ScaleRule):
    x = wide_random(20, k, seed=k)
    assert_same(mxfp4_quantize(x, rule=rule), expected(x, rule))


@pytest.mark.parametrize("rule", RULES)
def test_every_tie(rule: ScaleRule):
    """The midpoints of E2M1 in a block of scale 1, and the next f32 on either side."""
    middles = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])
    near = [middles.nextafter(torch.tensor(0.0)), middles, middles.nextafter(torch.tensor(9.0))]
    for each in near:
        x = torch.cat([each, -each, torch.tensor([4.0, -6.0])])[None]
        result = mxfp4_quantize(x, rule=rule)
        assert result.scales.item() == 127
        assert_same(result, expected(x, rule))
