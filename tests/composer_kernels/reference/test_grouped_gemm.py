"""The twin of the grouped GEMM against numbers computed by hand and against one row at a time."""

import math

import pytest
import torch

from composer_kernels import MXFP4Tensor, MXFP8Tensor, reference
from composer_kernels.swiglu import GPT_OSS, SILU
from composer_kernels.tiles import Kind

from ..grouped import KINDS, Draw, dequantize, spread
from ..inputs import assert_same_bits


def test_numbers_by_hand():
    """Two experts; tokens 0 and 2 choose expert 1, token 1 chooses expert 0."""
    ids = torch.tensor([[1], [0], [1]], dtype=torch.int32)
    dispatch = reference.dispatch(ids, torch.ones(3, 1), 2, 2)
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    w = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [1.0, -1.0]]])
    bias = torch.tensor([[0.5, 0.5], [10.0, 20.0]])
    y = reference.grouped_gemm(x, w, dispatch, bias_EN=bias, gather=True, out_dtype=torch.float32)
    assert y.tolist() == [[3.5, 4.5], [0, 0], [13, 19], [21, 19]]


def test_codes_by_hand():
    """1.5 * 2^1 and -2 * 2^-1 times 6 * 2^2 and 0.5 * 2^2."""
    dispatch = spread([1], block_m=1)
    x = reference.mxfp8_dequantize(
        MXFP8Tensor(
            torch.tensor([[0x3C, 0xC0]], dtype=torch.uint8).view(torch.float8_e4m3fn),
            torch.tensor([[128]], dtype=torch.uint8),
        )
    )
    assert x.tolist() == [[3.0, -4.0]]
    w = MXFP4Tensor(
        torch.tensor([[[0x17]]], dtype=torch.uint8), torch.tensor([[[129]]], dtype=torch.uint8)
    )
    y = reference.grouped_gemm(x, w, dispatch, out_dtype=torch.float32)
    assert y.tolist() == [[3.0 * 24 - 4.0 * 2]]


@pytest.mark.parametrize("kind", KINDS)
def test_one_row_at_a_time(kind: Kind):
    dispatch = spread([3, 0, 17])
    x, w = Draw.seeded(0).exact(kind, 20, 3, 10, 96)
    y = reference.grouped_gemm(x, w, dispatch, gather=True, out_dtype=torch.float32)
    x_values, w_values = dequantize(x), dequantize(w)
    for row, token in enumerate(dispatch.token_of_row.tolist()):
        expert = dispatch.expert_of_block.tolist()[row // dispatch.block_m]
        expected = w_values[expert] @ x_values[token] if token >= 0 else torch.zeros(10)
        assert_same_bits(y[row], expected)


@pytest.mark.parametrize(
    ("gate", "up", "silu", "clamped"),
    [
        (0.0, 5.0, 0.0, 0.0),
        (1.0, 2.0, 2 / (1 + math.exp(-1)), 3 / (1 + math.exp(-1.702))),
        (-1.0, 2.0, -2 / (1 + math.exp(1)), -3 / (1 + math.exp(1.702))),
        (9.0, 2.0, 18 / (1 + math.exp(-9)), 21 / (1 + math.exp(-1.702 * 7))),
        (1.0, 9.0, 9 / (1 + math.exp(-1)), 8 / (1 + math.exp(-1.702))),
        (1.0, -9.0, -9 / (1 + math.exp(-1)), -6 / (1 + math.exp(-1.702))),
        (-9.0, 2.0, -18 / (1 + math.exp(9)), -27 / (1 + math.exp(1.702 * 9))),
    ],
)
def test_swiglu_by_hand(gate: float, up: float, silu: float, clamped: float):
    pair = torch.tensor([gate, up], dtype=torch.float64)
    assert reference.swiglu(pair, SILU).item() == pytest.approx(silu, rel=1e-14)
    assert reference.swiglu(pair, GPT_OSS).item() == pytest.approx(clamped, rel=1e-14)


def test_swiglu_keeps_nan():
    nan = torch.tensor([[torch.nan, 1.0], [1.0, torch.nan]])
    assert bool(reference.swiglu(nan, GPT_OSS).isnan().all())


def test_quantised_result_is_that_of_the_unrounded_sums():
    """272.5 becomes 288 in E4M3; rounded to bf16 before, it would be the tie 272, and then 256."""
    dispatch = spread([1], block_m=1)
    w = torch.tensor([[[272.5], [400.0]]])
    actual = reference.grouped_gemm_quantized(torch.ones(1, 1), w, dispatch)
    assert reference.mxfp8_dequantize(actual).tolist() == [[288.0, 384.0]]


def test_gradients_are_those_of_one_product_an_expert():
    draw = Draw.seeded(1)
    dispatch = spread([3, 0, 2])
    x, w, bias = draw.normal(5, 8), draw.normal(3, 6, 8), draw.normal(3, 6)
    for tensor in (x, w, bias):
        tensor.requires_grad_()
    y = reference.grouped_gemm(
        x, w, dispatch, bias_EN=bias, activation=SILU, gather=True, out_dtype=torch.float32
    )
    y.square().sum().backward()

    expected = [tensor.detach().clone().requires_grad_() for tensor in (x, w, bias)]
    x2, w2, bias2 = expected
    total = torch.zeros(())
    for row, token in enumerate(dispatch.token_of_row.tolist()):
        if token >= 0:
            expert = dispatch.expert_of_block.tolist()[row // dispatch.block_m]
            gate_up = w2[expert] @ x2[token] + bias2[expert]
            hidden = torch.nn.functional.silu(gate_up[0::2]) * gate_up[1::2]
            total = total + hidden.square().sum()
    total.backward()
    for tensor, other in zip((x, w, bias), expected, strict=True):
        torch.testing.assert_close(tensor.grad, other.grad)
