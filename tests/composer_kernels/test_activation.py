"""SwiGLU of stored rows and its gradient: the kernels, under the interpreter, against their twins."""

from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor

from composer_kernels import GPT_OSS, SILU, KernelError, SwiGLU, reference
from composer_kernels.activation import (
    _launch_swiglu,
    _launch_swiglu_backward,
    apply_swiglu,
    swiglu_backward,
)
from composer_kernels.target_info import INTERPRETER

from .grouped import Draw, assert_within
from .inputs import assert_same_bits

module: Any = import_module("composer_kernels.activation")

pytestmark = pytest.mark.filterwarnings(
    # NumPy, which the interpreter computes with, where NaN and overflow are what is tested.
    "ignore:(invalid value|overflow) encountered:RuntimeWarning"
)
activations = pytest.mark.parametrize("activation", [SILU, GPT_OSS], ids=["silu", "clamped"])
dtypes = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)


def inputs(num_rows: int, F: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """The gradient, and gates and ups on both sides of gpt-oss's limit of 7."""
    draw = Draw.seeded(num_rows + F)
    gate_up = 5 * draw.normal(num_rows, 2 * F)
    gate_up[:, :2] = torch.tensor([7.0, -7.0])
    return draw.normal(num_rows, F).to(dtype), gate_up.to(dtype)


def error(grad: Tensor, gate_up: Tensor, activation: SwiGLU) -> Tensor:
    """`[P, F]`: how far two f32 evaluations may lie apart, with the factors' magnitudes.

    A sigmoid's relative error is |alpha g| + 2 roundings in its exponential and the quotient; some
    eight follow, in sums of terms of up to 1 + |alpha g| times the rest.
    """
    gate, up = gate_up[:, 0::2].float().abs(), gate_up[:, 1::2].float().abs()
    slope = 1 + activation.alpha * gate
    size = slope * grad.float().abs() * (gate + up + 1)
    return 2 * (10 + activation.alpha * gate) * 2.0**-24 * size


def rounding(y: Tensor) -> Tensor:
    """Two close numbers rounded to y's dtype: a last place."""
    return (2.0**-7 if y.dtype == torch.bfloat16 else 0.0) * y.float().abs()


@activations
@dtypes
@pytest.mark.parametrize(("num_rows", "F"), [(1, 1), (17, 130), (40, 64)], ids=str)
def test_kernels_are_their_twins(num_rows: int, F: int, dtype: torch.dtype, activation: SwiGLU):
    grad, gate_up = inputs(num_rows, F, dtype)
    expected = reference.apply_swiglu(gate_up, activation)
    actual = _launch_swiglu(gate_up, activation, target=INTERPRETER)
    bound = error(torch.ones_like(grad), gate_up, activation) * (1 + gate_up[:, 0::2].float().abs())
    assert actual.dtype == dtype
    assert_within(actual, expected, bound + rounding(expected))

    expected = reference.swiglu_backward(grad, gate_up, activation)
    actual = _launch_swiglu_backward(grad, gate_up, activation, target=INTERPRETER)
    bound = error(grad, gate_up, activation).repeat_interleave(2, 1)
    assert actual.dtype == dtype
    assert_within(actual, expected, bound + rounding(expected))


@activations
def test_zero_rows_stay_zero(activation: SwiGLU):
    zeros = torch.zeros(3, 8)
    assert_same_bits(apply_swiglu(zeros, activation), torch.zeros(3, 4))
    hidden = _launch_swiglu(zeros, activation, target=INTERPRETER)
    assert hidden.count_nonzero() == 0
    grad = _launch_swiglu_backward(zeros[:, :4], zeros, activation, target=INTERPRETER)
    assert grad.count_nonzero() == 0


def test_nan_stays_where_it_is():
    """Of a pair's two gradients: that of a NaN up in up itself is grad g s, which is a number."""
    gate_up = torch.tensor([[torch.nan, 1.0, 1.0, torch.nan, 1.0, 1.0]])
    grad = torch.ones(1, 3)
    expected = [True, True, True, False, False, False]
    for actual in (
        reference.swiglu_backward(grad, gate_up, GPT_OSS),
        _launch_swiglu_backward(grad, gate_up, GPT_OSS, target=INTERPRETER),
    ):
        assert actual.isnan().tolist() == [expected]


@pytest.mark.parametrize("shape", [(0, 4), (3, 0)], ids=str)
def test_nothing(shape: tuple[int, int]):
    gate_up = torch.zeros(shape)
    grad = torch.zeros(shape[0], shape[1] // 2)
    assert _launch_swiglu(gate_up, SILU, target=INTERPRETER).shape == grad.shape
    assert _launch_swiglu_backward(grad, gate_up, SILU, target=INTERPRETER).shape == shape


def test_as_on_a_gpu(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "target_of", lambda _: replace(INTERPRETER, capability=80))
    grad, gate_up = inputs(5, 6, torch.float32)
    launched = _launch_swiglu(gate_up, SILU, target=INTERPRETER)
    assert_same_bits(apply_swiglu(gate_up, SILU), launched)
    launched = _launch_swiglu_backward(grad, gate_up, SILU, target=INTERPRETER)
    assert_same_bits(swiglu_backward(grad, gate_up, SILU), launched)


@pytest.mark.usefixtures("unchecked")
def test_errors():
    with pytest.raises(KernelError, match=r"gate_up has shape \[2, 3\]; \[P, 2 F\]"):
        apply_swiglu(torch.zeros(2, 3), SILU)
    with pytest.raises(KernelError, match="gate_up has dtype torch.float16"):
        apply_swiglu(torch.zeros(2, 4).half(), SILU)
    with pytest.raises(KernelError, match=r"grad has shape \[2, 3\]; \[2, 2\]"):
        swiglu_backward(torch.zeros(2, 3), torch.zeros(2, 4), SILU)
    with pytest.raises(KernelError, match="limit is nan; a positive number or None"):
        SwiGLU(limit=float("nan"))
