"""The kernel, under Triton's interpreter, against its twin: bit for bit."""

import pytest
import torch

from composer_kernels import DtypeError, MXFP4Tensor, ShapeError, mxfp4_dequantize, reference
from composer_kernels.mxfp4 import _launch_dequantize
from composer_kernels.target_info import INTERPRETER

from .inputs import assert_same_bits, wide_random

pytestmark = pytest.mark.filterwarnings(
    # NumPy, which the interpreter computes with, where NaN and overflow are what is tested.
    "ignore:(invalid value|overflow) encountered:RuntimeWarning"
)

DTYPES = [torch.float32, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_byte_with_every_scale(dtype: torch.dtype):
    codes = torch.arange(256).to(torch.uint8).expand(256, 256)
    scales = torch.arange(256).to(torch.uint8)[:, None].expand(256, 16)
    x = MXFP4Tensor(codes, scales)
    values = _launch_dequantize(x, dtype=dtype, target=INTERPRETER)
    assert_same_bits(values, reference.mxfp4_dequantize(x, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "shape", [(1, 2), (3, 34), (17, 300), (2, 5, 70), (0, 32), (2, 0)], ids=str
)
def test_shapes(shape: tuple[int, ...], dtype: torch.dtype):
    x = reference.mxfp4_quantize(wide_random(*shape))
    values = _launch_dequantize(x, dtype=dtype, target=INTERPRETER)
    assert values.shape == shape
    assert_same_bits(values, reference.mxfp4_dequantize(x, dtype=dtype))


def test_a_cpu_tensor_goes_to_the_twin():
    x = reference.mxfp4_quantize(wide_random(4, 70))
    assert_same_bits(mxfp4_dequantize(x), reference.mxfp4_dequantize(x))


@pytest.mark.usefixtures("unchecked")
def test_codes_and_scales_that_do_not_belong_together_are_named():
    x = reference.mxfp4_quantize(torch.ones(2, 70))
    with pytest.raises(ShapeError, match=r"x.scales has shape \[2, 2\]; \[2, 3\] is asked for"):
        mxfp4_dequantize(MXFP4Tensor(x.codes, x.scales[:, :2]))
    with pytest.raises(DtypeError, match="x.codes has dtype torch.int8"):
        mxfp4_dequantize(MXFP4Tensor(x.codes.view(torch.int8), x.scales))
    with pytest.raises(DtypeError, match="the result has dtype torch.float16"):
        mxfp4_dequantize(x, dtype=torch.float16)
    with pytest.raises(ShapeError, match=r"x.codes has shape \[\]; \[\*lead, K / 2\] is asked for"):
        mxfp4_dequantize(MXFP4Tensor(x.codes[0, 0], x.scales[0, 0]))


@pytest.mark.usefixtures("unchecked")
def test_an_odd_number_of_elements_makes_no_bytes():
    with pytest.raises(ShapeError, match=r"x has shape \[2, 5\]; \[\*rows, K\], K even"):
        reference.mxfp4_quantize(torch.ones(2, 5))
