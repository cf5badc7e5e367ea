"""The kernels, under Triton's interpreter, against their twins: bit for bit."""

import math
from typing import Any

import pytest
import torch

from composer_kernels import (
    DeviceError,
    DtypeError,
    KernelError,
    MXFP8Tensor,
    ScaleRule,
    ShapeError,
    mxfp8_dequantize,
    mxfp8_quantize,
    reference,
)
from composer_kernels.mxfp8 import _launch_dequantize, _launch_quantize
from composer_kernels.target_info import INTERPRETER

from .inputs import (
    around_every_midpoint,
    assert_same_bits,
    assert_same_codes,
    every_bf16,
    wide_random,
)

pytestmark = pytest.mark.filterwarnings(
    # NumPy, which the interpreter computes with, where NaN and overflow are what is tested.
    "ignore:(invalid value|overflow) encountered:RuntimeWarning"
)

RULES = list(ScaleRule)
DTYPES = [torch.float32, torch.bfloat16]


def launch(x: torch.Tensor, rule: ScaleRule = ScaleRule.CEIL, *, columns: bool = False):
    return _launch_quantize(x, rule=rule, columns=columns, target=INTERPRETER)


@pytest.mark.parametrize("columns", [False, True], ids=["rows", "rows and columns"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "shape",
    [
        (1, 1),
        (1, 31),
        (31, 1),
        (1, 33),
        (33, 65),
        (64, 128),
        (65, 129),
        (130, 40),
        (3, 5, 40),
        (2, 2, 33, 31),
    ],
    ids=str,
)
def test_random_shapes(shape: tuple[int, ...], dtype: torch.dtype, rule: ScaleRule, columns: bool):
    x = wide_random(*shape, dtype=dtype, seed=sum(shape))
    rows, transposed = launch(x, rule, columns=columns)
    assert_same_codes(rows, reference.mxfp8_quantize(x, rule=rule))
    assert (transposed is not None) == columns
    if transposed is not None:
        assert_same_codes(transposed, reference.mxfp8_quantize(x, rule=rule, columns=True)[1])


@pytest.mark.parametrize("rule", RULES)
def test_every_bf16(rule: ScaleRule):
    """As neighbours in rows of 32, and as strangers in columns."""
    x = every_bf16().reshape(2048, 32)
    rows, transposed = launch(x, rule, columns=True)
    wanted_rows, wanted_transposed = reference.mxfp8_quantize(x, rule=rule, columns=True)
    assert_same_codes(rows, wanted_rows)
    assert transposed is not None
    assert_same_codes(transposed, wanted_transposed)


@pytest.mark.parametrize("rule", RULES)
def test_every_finite_bf16_among_strangers(rule: ScaleRule):
    x = every_bf16()
    x = x[x.isfinite()]
    x = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(2))].reshape(-1, 32)
    assert_same_codes(launch(x, rule)[0], reference.mxfp8_quantize(x, rule=rule))


@pytest.mark.parametrize("rule", RULES)
def test_around_every_midpoint(rule: ScaleRule):
    x = around_every_midpoint()
    assert_same_codes(launch(x, rule)[0], reference.mxfp8_quantize(x, rule=rule))


@pytest.mark.parametrize("rule", RULES)
def test_every_exponent_about_the_place_where_it_saturates(rule: ScaleRule):
    """1.8125 times a power of two is the last that does not."""
    tie = 1.8125 * 2.0 ** torch.arange(-126, 128)
    up, down = torch.tensor(torch.inf), torch.tensor(0.0)
    x = torch.cat([tie.nextafter(down), tie, tie.nextafter(up), -tie.nextafter(up)])[:, None]
    x = torch.cat([x, 2.0 ** torch.arange(-149, -126)[:, None]])
    assert_same_codes(launch(x, rule)[0], reference.mxfp8_quantize(x, rule=rule))


@pytest.mark.parametrize("special", [0.0, -0.0, math.inf, -math.inf, math.nan, 2.0**-149])
def test_a_special_value_in_its_block(special: float):
    """Among zeros, then among ones."""
    x = torch.arange(2.0)[:, None].repeat(1, 64)
    x[:, 40] = special
    rows, transposed = launch(x, columns=True)
    wanted_rows, wanted_transposed = reference.mxfp8_quantize(x, columns=True)
    assert_same_codes(rows, wanted_rows)
    assert transposed is not None
    assert_same_codes(transposed, wanted_transposed)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_code_with_every_scale(dtype: torch.dtype):
    codes = torch.arange(256).to(torch.uint8).expand(256, 256).contiguous()
    scales = torch.arange(256).to(torch.uint8)[:, None].expand(256, 8)
    x = MXFP8Tensor(codes.view(torch.float8_e4m3fn), scales)
    values = _launch_dequantize(x, dtype=dtype, target=INTERPRETER)
    assert_same_bits(values, reference.mxfp8_dequantize(x, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (3, 33), (2, 5, 70), (65, 129)], ids=str)
def test_dequantised_shapes(shape: tuple[int, ...], dtype: torch.dtype):
    x = reference.mxfp8_quantize(wide_random(*shape))
    values = _launch_dequantize(x, dtype=dtype, target=INTERPRETER)
    assert_same_bits(values, reference.mxfp8_dequantize(x, dtype=dtype))


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(lambda x: x.mT, id="transposed"),
        pytest.param(lambda x: x[:, 1:-1], id="offset rows"),
        pytest.param(lambda x: x[::2, ::3], id="strides"),
        pytest.param(lambda x: x[:, None, :].expand(-1, 3, -1), id="expanded"),
    ],
)
def test_views(view):
    x = view(wide_random(40, 70))
    rows, transposed = launch(x, columns=True)
    wanted_rows, wanted_transposed = reference.mxfp8_quantize(x.contiguous(), columns=True)
    assert_same_codes(rows, wanted_rows)
    assert transposed is not None
    assert_same_codes(transposed, wanted_transposed)


def test_a_parameter_is_quantised_without_a_gradient():
    rows, transposed = launch(torch.nn.Parameter(torch.ones(2, 32)), columns=True)
    assert transposed is not None
    assert not _launch_dequantize(rows, dtype=torch.float32, target=INTERPRETER).requires_grad
    assert not transposed.codes.requires_grad


@pytest.mark.parametrize("shape", [(0, 64), (4, 0), (0, 3, 32)], ids=str)
def test_nothing(shape: tuple[int, ...]):
    rows, transposed = launch(torch.empty(shape), columns=True)
    wanted_rows, wanted_transposed = reference.mxfp8_quantize(torch.empty(shape), columns=True)
    assert_same_codes(rows, wanted_rows)
    assert transposed is not None
    assert_same_codes(transposed, wanted_transposed)
    assert _launch_dequantize(rows, dtype=torch.float32, target=INTERPRETER).shape == shape


def test_a_cpu_tensor_goes_to_the_twin():
    x = wide_random(40, 70)
    rows, transposed = mxfp8_quantize(x, rule=ScaleRule.FLOOR, columns=True)
    wanted_rows, wanted_transposed = reference.mxfp8_quantize(x, rule=ScaleRule.FLOOR, columns=True)
    assert_same_codes(rows, wanted_rows)
    assert_same_codes(transposed, wanted_transposed)
    assert_same_codes(mxfp8_quantize(x), reference.mxfp8_quantize(x))
    assert_same_bits(mxfp8_dequantize(rows), reference.mxfp8_dequantize(rows))


@pytest.mark.usefixtures("unchecked")
def test_what_cannot_be_quantised_is_named():
    with pytest.raises(
        DtypeError, match=r"x has dtype torch.float16; torch.bfloat16 or torch.float"
    ):
        mxfp8_quantize(torch.ones(2, 32, dtype=torch.float16))
    with pytest.raises(ShapeError, match=r"x has shape \[32\]; \[\*batch, M, K\] is asked for"):
        mxfp8_quantize(torch.ones(32), columns=True)
    with pytest.raises(DeviceError, match="no kernel runs on meta"):
        mxfp8_quantize(torch.ones(2, 32, device="meta"))


@pytest.mark.usefixtures("unchecked")
def test_codes_and_scales_that_do_not_belong_together_are_named():
    x = mxfp8_quantize(torch.ones(2, 70))
    with pytest.raises(ShapeError, match=r"x.scales has shape \[2, 2\]; \[2, 3\] is asked for"):
        mxfp8_dequantize(MXFP8Tensor(x.codes, x.scales[:, :2]))
    with pytest.raises(DtypeError, match="x.codes has dtype torch.uint8; torch.float8_e4m3fn is"):
        mxfp8_dequantize(MXFP8Tensor(x.codes.view(torch.uint8), x.scales))
    with pytest.raises(DtypeError, match="x.scales has dtype torch.int32"):
        mxfp8_dequantize(MXFP8Tensor(x.codes, x.scales.int()))
    with pytest.raises(DeviceError, match="x.codes on cpu, x.scales on meta"):
        mxfp8_dequantize(MXFP8Tensor(x.codes, x.scales.to("meta")))
    with pytest.raises(DtypeError, match="the result has dtype torch.float16"):
        mxfp8_dequantize(x, dtype=torch.float16)
    with pytest.raises(ShapeError, match=r"x.codes has shape \[\]; \[\*lead, K\] is asked for"):
        mxfp8_dequantize(MXFP8Tensor(x.codes[0, 0], x.scales[0, 0]))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("rule", ["ceil", "nearest"])
def test_a_rule_by_its_name_alone_is_refused(rule: Any):
    """The kernel and its twin would have to agree on what it means."""
    with pytest.raises(KernelError, match=f"rule is '{rule}'; ScaleRule floor or ceil is asked"):
        mxfp8_quantize(torch.ones(32), rule=rule)
