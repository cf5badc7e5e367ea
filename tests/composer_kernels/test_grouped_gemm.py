"""The grouped GEMM's kernel, under Triton's interpreter, against its twin."""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from composer_kernels import KernelError, MXFP4Tensor, MXFP8Tensor, ScaleRule, reference
from composer_kernels.formats import num_blocks
from composer_kernels.grouped_gemm import _launch, grouped_gemm, grouped_gemm_quantized
from composer_kernels.grouped_gemm_details._grouped_gemm import (
    offsets,
    tile_position,
    ue8m0_to_bf16,
)
from composer_kernels.routes import Dispatch
from composer_kernels.swiglu import GPT_OSS, SILU, SwiGLU
from composer_kernels.target_info import INTERPRETER
from composer_kernels.tiles import Kind, Tiles

from .grouped import KINDS, SMALL, Draw, Operand, assert_within, bf16_error, spread, sum_error
from .inputs import assert_same_bits, assert_same_codes

pytestmark = pytest.mark.filterwarnings(
    # NumPy, which the interpreter computes with, where NaN and overflow are what is tested.
    "ignore:(invalid value|overflow) encountered:RuntimeWarning"
)

module = import_module("composer_kernels.grouped_gemm")

SWAPPED = replace(SMALL, swap_operands=True)
both_ways = pytest.mark.parametrize("tiles", [SMALL, SWAPPED], ids=["x w^T", "w x^T"])
every_kind = pytest.mark.parametrize("kind", KINDS)


def launch(
    x: Operand,
    w: Operand,
    dispatch: Dispatch,
    *,
    tiles: Tiles = SMALL,
    activation: SwiGLU | None = None,
    out_dtype: torch.dtype = torch.float32,
    num_programs: int = 3,
    **options: Any,
) -> Tensor:
    """By the kernel, into an output full of NaN."""
    num_outputs = w.shape[1] // 2 if activation else w.shape[1]
    out = torch.full((dispatch.num_rows, num_outputs), torch.nan, dtype=out_dtype)
    _launch(
        x,
        w,
        dispatch,
        out=out,
        activation=activation,
        tiles=tiles,
        target=INTERPRETER,
        num_programs=num_programs,
        **options,
    )
    return out


def launch_quantized(
    x: Operand,
    w: Operand,
    dispatch: Dispatch,
    *,
    tiles: Tiles = SMALL,
    activation: SwiGLU | None = None,
    **options: Any,
) -> MXFP8Tensor:
    """By the kernel, into codes and scales that are all NaN."""
    num_outputs = w.shape[1] // 2 if activation else w.shape[1]
    codes = torch.full((dispatch.num_rows, num_outputs), torch.nan).to(torch.float8_e4m3fn)
    scales = torch.full((dispatch.num_rows, num_blocks(num_outputs)), 255, dtype=torch.uint8)
    out = MXFP8Tensor(codes, scales)
    _launch(
        x,
        w,
        dispatch,
        out=out,
        activation=activation,
        tiles=tiles,
        target=INTERPRETER,
        num_programs=3,
        **options,
    )
    return out


@both_ways
@every_kind
@pytest.mark.parametrize(("N", "K"), [(1, 2), (63, 30), (65, 34), (130, 96), (20, 100)], ids=str)
def test_exact_sums(kind: Kind, N: int, K: int, tiles: Tiles):
    dispatch = spread([3, 0, 17])
    x, w = Draw.seeded(N + K).exact(kind, dispatch.num_rows, 3, N, K)
    expected = reference.grouped_gemm(x, w, dispatch, out_dtype=torch.float32)
    assert_same_bits(launch(x, w, dispatch, tiles=tiles), expected)
    rounded = launch(x, w, dispatch, tiles=tiles, out_dtype=torch.bfloat16)
    assert_same_bits(rounded, expected.bfloat16())


@pytest.mark.parametrize("K", [1, 31, 33])
@pytest.mark.parametrize("kind", [Kind.MXFP8_MXFP8, Kind.BF16_MXFP8, Kind.BF16_BF16])
def test_odd_contracted_dimensions(kind: Kind, K: int):
    dispatch = spread([2, 1])
    x, w = Draw.seeded(K).exact(kind, dispatch.num_rows, 2, 5, K)
    expected = reference.grouped_gemm(x, w, dispatch, out_dtype=torch.float32)
    assert_same_bits(launch(x, w, dispatch), expected)


@pytest.mark.parametrize(
    "num_tokens_per_expert",
    [
        pytest.param([1], id="one token, one expert"),
        pytest.param([0, 0, 0, 1], id="one token"),
        pytest.param([16, 16], id="full blocks"),
        pytest.param([0, 40, 0], id="all on one"),
        pytest.param([1, 33, 0, 2, 16, 0], id="uneven"),
        pytest.param([1] * 9, id="one each"),
    ],
)
@pytest.mark.parametrize("gather", [False, True], ids=["permuted", "gathered"])
def test_spread_over_experts(num_tokens_per_expert: list[int], gather: bool):
    dispatch = spread(num_tokens_per_expert)
    num_rows = sum(num_tokens_per_expert) if gather else dispatch.num_rows
    E = len(num_tokens_per_expert)
    x, w = Draw.seeded(E).exact(Kind.MXFP8_MXFP8, num_rows, E, 40, 64)
    expected = reference.grouped_gemm(x, w, dispatch, gather=gather, out_dtype=torch.float32)
    assert_same_bits(launch(x, w, dispatch, gather=gather), expected)


def test_no_token_at_all():
    dispatch = spread([0, 0])
    x, w = Draw.seeded(0).exact(Kind.BF16_MXFP8, dispatch.num_rows, 2, 8, 32)
    assert launch(x, w, dispatch).shape == (0, 8)


def test_no_local_expert_leaves_zeros():
    ids = torch.tensor([[4], [5]], dtype=torch.int32)
    dispatch = reference.dispatch(ids, torch.ones(2, 1), 8, 16, num_local_experts=2)
    x, w = Draw.seeded(0).exact(Kind.BF16_MXFP8, dispatch.num_rows, 2, 8, 32)
    bias = torch.ones(2, 8)
    assert_same_bits(launch(x, w, dispatch, bias_EN=bias), torch.zeros(dispatch.num_rows, 8))


def test_rows_without_token_are_neither_read_nor_biased():
    dispatch = spread([3, 1])
    x, w = Draw.seeded(0).exact(Kind.BF16_BF16, dispatch.num_rows, 2, 8, 32)
    expected = reference.grouped_gemm(x, w, dispatch, bias_EN=torch.ones(2, 8))
    assert expected[3:16].count_nonzero() == 0
    x[dispatch.token_of_row < 0] = torch.nan
    actual = launch(x, w, dispatch, bias_EN=torch.ones(2, 8), out_dtype=torch.bfloat16)
    assert_same_bits(actual, expected)


@every_kind
def test_gathered_rows_are_permuted_rows(kind: Kind):
    ids = torch.tensor([[2, 0], [0, 1], [2, 1], [1, 0], [0, 2]], dtype=torch.int32)
    dispatch = reference.dispatch(ids, torch.ones(5, 2), 3, 16)
    x, w = Draw.seeded(1).exact(kind, 5, 3, 20, 64)
    permuted = reference.permute(x, dispatch)
    assert_same_bits(launch(x, w, dispatch, gather=True), launch(permuted, w, dispatch))


@every_kind
@pytest.mark.parametrize("bias_dtype", [torch.bfloat16, torch.float32], ids=str)
def test_bias(kind: Kind, bias_dtype: torch.dtype):
    draw = Draw.seeded(2)
    dispatch = spread([3, 0, 17])
    x, w = draw.exact(kind, dispatch.num_rows, 3, 40, 64)
    bias = draw.integers(-8, 8, 3, 40).to(bias_dtype)
    expected = reference.grouped_gemm(x, w, dispatch, bias_EN=bias, out_dtype=torch.float32)
    assert_same_bits(launch(x, w, dispatch, bias_EN=bias), expected)


@both_ways
@every_kind
def test_real_operands(kind: Kind, tiles: Tiles):
    draw = Draw.seeded(3)
    dispatch = spread([5, 0, 18])
    x, w = draw.real(kind, dispatch.num_rows, 3, 96, 160)
    bias = draw.normal(3, 96)
    expected = reference.grouped_gemm(x, w, dispatch, bias_EN=bias)
    actual = launch(x, w, dispatch, bias_EN=bias, tiles=tiles, out_dtype=torch.bfloat16)
    bound = sum_error(x, w, dispatch, bias) + bf16_error(expected)
    assert_within(actual, expected, bound)


@both_ways
@pytest.mark.parametrize("activation", [SILU, GPT_OSS], ids=["silu", "clamped"])
def test_swiglu(activation: SwiGLU, tiles: Tiles):
    draw = Draw.seeded(4)
    dispatch = spread([5, 0, 18])
    x, w = draw.real(Kind.MXFP8_MXFP8, dispatch.num_rows, 3, 130, 64)
    x = MXFP8Tensor(x.codes, x.scales + 2)  # Four times as large: some pass the limit of 7.
    bias = draw.normal(3, 130)
    gate_up = reference.grouped_gemm(x, w, dispatch, bias_EN=bias, out_dtype=torch.float32)
    assert bool((gate_up.abs() > 7).any())

    expected = reference.swiglu(gate_up, activation).masked_fill(
        dispatch.token_of_row[:, None] < 0, 0
    )
    actual = launch(x, w, dispatch, bias_EN=bias, activation=activation, tiles=tiles)
    # g sigmoid(alpha g) has a slope of at most 1.1, the clamps of 1; sigmoid's relative error is that
    # of its exponential, |alpha g| + 2 roundings; five more operations follow.
    gate, up = gate_up[:, 0::2].abs(), gate_up[:, 1::2].abs() + activation.up_offset
    gate_error, up_error = (sum_error(x, w, dispatch, bias)[:, each::2] for each in (0, 1))
    evaluation = 2 * (activation.alpha * gate + 7) * 2.0**-24 * gate * up
    bound = 1.1 * gate_error * (up + up_error) + gate * up_error + evaluation
    assert_within(actual, expected, bound)


@pytest.mark.parametrize("rule", list(ScaleRule))
@pytest.mark.parametrize("kind", [Kind.MXFP8_MXFP8, Kind.BF16_MXFP4])
@pytest.mark.parametrize("N", [64, 96, 130])
def test_quantized_output(N: int, kind: Kind, rule: ScaleRule):
    dispatch = spread([3, 0, 17])
    x, w = Draw.seeded(N).exact(kind, dispatch.num_rows, 3, N, 64)
    sums = reference.grouped_gemm(x, w, dispatch, out_dtype=torch.float32)
    actual = launch_quantized(x, w, dispatch, rule=rule)
    assert_same_codes(actual, reference.mxfp8_quantize(sums, rule=rule))


@both_ways
def test_quantized_output_of_swiglu(tiles: Tiles):
    """Gates of 0 and of 32 or more, where silu is the identity in f32, make exact outputs."""
    draw = Draw.seeded(5)
    dispatch = spread([3, 0, 17])
    w_EFK = draw.integers(-3, 3, 3, 70, 32).float()
    gate_EFK = torch.zeros(3, 70, 32)
    gate_EFK[..., 0] = 32.0 * draw.integers(0, 2, 3, 70)
    w = torch.stack((gate_EFK, w_EFK), 2).flatten(1, 2).bfloat16()
    x = draw.integers(1, 3, dispatch.num_rows, 32).bfloat16()
    gate_up = reference.grouped_gemm(x, w, dispatch, out_dtype=torch.float32)
    expected = reference.mxfp8_quantize(gate_up[:, 0::2] * gate_up[:, 1::2])
    actual = launch_quantized(x, w, dispatch, activation=SILU, tiles=tiles)
    assert_same_codes(actual, expected)
    assert_same_codes(reference.grouped_gemm_quantized(x, w, dispatch, activation=SILU), expected)


@pytest.mark.parametrize("num_programs", [1, 2, 5, 1000])
def test_grid_of_any_size(num_programs: int):
    dispatch = spread([20, 1, 0, 33])
    x, w = Draw.seeded(6).exact(Kind.BF16_BF16, dispatch.num_rows, 4, 130, 32)
    expected = reference.grouped_gemm(x, w, dispatch, out_dtype=torch.float32)
    actual = launch(x, w, dispatch, num_programs=num_programs)
    assert_same_bits(actual, expected)


def test_tiles_shorter_than_a_dispatch_block():
    dispatch = spread([3, 0, 70], block_m=64)
    x, w = Draw.seeded(7).exact(Kind.MXFP8_MXFP8, dispatch.num_rows, 3, 20, 64)
    expected = reference.grouped_gemm(x, w, dispatch, out_dtype=torch.float32)
    assert_same_bits(launch(x, w, dispatch, tiles=SMALL), expected)


def test_tiles_taller_than_a_dispatch_block_are_refused():
    dispatch = spread([3])
    x, w = Draw.seeded(0).exact(Kind.BF16_BF16, dispatch.num_rows, 1, 4, 32)
    with pytest.raises(KernelError, match=r"block_m is 32; a divisor of the dispatch's 16"):
        launch(x, w, dispatch, tiles=replace(SMALL, block_m=32))


def test_weights_by_a_transposed_view():
    dispatch = spread([3, 0, 17])
    x, w = Draw.seeded(8).exact(Kind.BF16_BF16, dispatch.num_rows, 3, 64, 40)
    assert isinstance(w, Tensor)
    view = w.mT.contiguous().mT
    assert view.stride(-1) == 64
    assert_same_bits(launch(x, view, dispatch), launch(x, w, dispatch))


@pytest.mark.parametrize("quantized", [False, True], ids=["bf16", "mxfp8"])
def test_the_gradient_of_x_is_the_product_with_transposed_weights(quantized: bool):
    draw = Draw.seeded(14)
    dispatch = spread([3, 0, 17])
    w = draw.integers(-4, 4, 3, 64, 40).bfloat16()
    x = draw.integers(-4, 4, dispatch.num_rows, 40).float().requires_grad_()
    grad_y = draw.integers(-4, 4, dispatch.num_rows, 64).bfloat16()
    reference.grouped_gemm(x, w, dispatch, out_dtype=torch.float32).backward(grad_y.float())
    if quantized:
        _, transposed = reference.mxfp8_quantize(w, columns=True)
        actual = launch(reference.mxfp8_quantize(grad_y), transposed, dispatch)
    else:
        actual = launch(grad_y, w.mT, dispatch)
    torch.testing.assert_close(actual, x.grad, rtol=0, atol=0)


def test_rows_of_a_wider_buffer():
    dispatch = spread([3, 5])
    x, w = Draw.seeded(9).exact(Kind.BF16_BF16, dispatch.num_rows, 2, 20, 80)
    assert isinstance(x, Tensor) and isinstance(w, Tensor)
    x_part, w_part = x[:, 8:72], w[:, 2:, 8:72]
    assert_same_bits(
        launch(x_part, w_part, dispatch),
        launch(x_part.contiguous(), w_part.contiguous(), dispatch),
    )


@pytest.mark.parametrize("scale_is_nan", [False, True], ids=["code", "scale"])
def test_nan_stays_with_its_expert_and_output(scale_is_nan: bool):
    dispatch = spread([3, 5])
    x, w = Draw.seeded(10).exact(Kind.BF16_MXFP8, dispatch.num_rows, 2, 8, 64)
    expected = reference.grouped_gemm(x, w, dispatch, out_dtype=torch.float32)
    assert isinstance(w, MXFP8Tensor)
    if scale_is_nan:
        w.scales[1, 2, 0] = 255
    else:
        w.codes.view(torch.uint8)[1, 2, 3] = 0x7F
    expected[16:21, 2] = torch.nan
    assert_same_bits(launch(x, w, dispatch), expected)


def test_quantized_rows_with_nan():
    dispatch = spread([2, 1])
    x, w = Draw.seeded(11).exact(Kind.BF16_BF16, dispatch.num_rows, 2, 64, 32)
    assert isinstance(x, Tensor)
    x[1, 0] = torch.nan
    actual = launch_quantized(x, w, dispatch)
    assert actual.scales[:3].tolist()[1] == [255, 255]
    assert 255 not in actual.scales[[0, 2, 16]]
    assert_same_codes(actual, reference.grouped_gemm_quantized(x, w, dispatch))


@triton.jit
def _positions_kernel(rows_ptr, columns_ptr, num_m, num_n, GROUP_M: tl.constexpr):
    for tile in range(num_m * num_n):
        m, n = tile_position(tile, num_m, num_n, GROUP_M)
        tl.store(rows_ptr + tile, m)
        tl.store(columns_ptr + tile, n)


@pytest.mark.parametrize(
    ("num_m", "num_n", "group_m"), [(7, 3, 4), (4, 5, 4), (3, 2, 8), (5, 4, 1)]
)
def test_every_tile_comes_once_and_a_band_keeps_its_columns_together(
    num_m: int, num_n: int, group_m: int
):
    rows, columns = torch.full((2, num_m * num_n), -1, dtype=torch.int32)
    kernel: Any = _positions_kernel
    kernel[(1,)](rows, columns, num_m, num_n, GROUP_M=group_m)
    by_band = [
        (m, n)
        for band in range(0, num_m, group_m)
        for n in range(num_n)
        for m in range(band, min(band + group_m, num_m))
    ]
    assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == by_band


@triton.jit
def _offsets_kernel(index_ptr, out_ptr, stride, SIZE: tl.constexpr):
    place = tl.arange(0, SIZE)
    tl.store(out_ptr + place, offsets(tl.load(index_ptr + place), stride))


def test_offsets_beyond_32_bits():
    """256 experts of 8192 x 8192 weights: the last begins at 17 billion."""
    experts = torch.tensor([0, 1, 127, 255], dtype=torch.int32)
    out = torch.zeros(4, dtype=torch.int64)
    kernel: Any = _offsets_kernel
    kernel[(1,)](experts, out, 8192 * 8192, SIZE=4)
    assert out.tolist() == [0, 67108864, 8522825728, 17112760320]


@triton.jit
def _scales_kernel(scales_ptr, out_ptr):
    place = tl.arange(0, 256)
    tl.store(out_ptr + place, ue8m0_to_bf16(tl.load(scales_ptr + place)))


def test_every_scale_in_bf16():
    scales = torch.arange(256).to(torch.uint8)
    out = torch.zeros(256, dtype=torch.bfloat16)
    kernel: Any = _scales_kernel
    kernel[(1,)](scales, out)
    assert_same_bits(out, scales.view(torch.float8_e8m0fnu).bfloat16())


@every_kind
def test_on_the_cpu_the_twin_computes(kind: Kind):
    dispatch = spread([3, 0, 2])
    x, w = Draw.seeded(12).exact(kind, dispatch.num_rows, 3, 8, 64)
    bias = torch.ones(3, 8)
    options: dict[str, Any] = {"bias_EN": bias, "activation": GPT_OSS}
    assert_same_bits(
        grouped_gemm(x, w, dispatch, **options), reference.grouped_gemm(x, w, dispatch, **options)
    )
    assert_same_codes(
        grouped_gemm_quantized(x, w, dispatch, rule=ScaleRule.FLOOR, **options),
        reference.grouped_gemm_quantized(x, w, dispatch, rule=ScaleRule.FLOOR, **options),
    )


@pytest.mark.parametrize("rows_per_expert", [2, 20, 70], ids=["decode", "mixed", "prefill"])
def test_as_on_a_gpu_with_saved_tiles(rows_per_expert: int, monkeypatch: pytest.MonkeyPatch):
    """The public functions' path to the kernel, with the interpreter in the place of an A100."""
    target = replace(INTERPRETER, capability=80)
    monkeypatch.setattr(module, "target_of", lambda _: target)
    monkeypatch.setattr(module, "num_multiprocessors", lambda _: 2)
    dispatch = spread([rows_per_expert, rows_per_expert - 1])
    x, w = Draw.seeded(13).exact(Kind.MXFP8_MXFP8, dispatch.num_rows, 2, 66, 64)
    assert_same_bits(grouped_gemm(x, w, dispatch), reference.grouped_gemm(x, w, dispatch))
    assert_same_codes(
        grouped_gemm_quantized(x, w, dispatch, rule=ScaleRule.FLOOR),
        reference.grouped_gemm_quantized(x, w, dispatch, rule=ScaleRule.FLOOR),
    )
    assert grouped_gemm(x, w, dispatch, activation=SILU).shape == (dispatch.num_rows, 33)
    quantized = grouped_gemm_quantized(x, w, dispatch, activation=SILU)
    assert quantized.shape == (dispatch.num_rows, 33)
    assert quantized.scales.shape == (dispatch.num_rows, 2)


def _mxfp8(*shape: int) -> MXFP8Tensor:
    return reference.mxfp8_quantize(torch.zeros(shape))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (lambda: {"w": torch.zeros(2, 8, 33)}, r"x has shape \[32, 32\]; \[32, 33\], rows by K"),
        (lambda: {"gather": True}, r"x has shape \[32, 32\]; \[4, 32\], tokens by K"),
        (lambda: {"w": torch.zeros(8, 32)}, r"w has shape \[8, 32\]; \[E, N, K\]"),
        (
            lambda: {"w": torch.zeros(3, 8, 32)},
            r"dispatch.num_tokens_per_expert has shape \[2\]; \[3\]",
        ),
        (
            lambda: {"w": torch.zeros(2, 7, 32), "activation": SILU},
            r"w has shape \[2, 7, 32\]; \[E, 2 F, K\]",
        ),
        (lambda: {"bias_EN": torch.zeros(2, 7)}, r"bias has shape \[2, 7\]; \[2, 8\]"),
        (lambda: {"bias_EN": torch.zeros(2, 8).half()}, r"bias has dtype torch.float16"),
        (lambda: {"x": torch.zeros(32, 32).half()}, r"x has dtype torch.float16"),
        (lambda: {"w": torch.zeros(2, 8, 32).int()}, r"w has dtype torch.int32"),
        (lambda: {"x": _mxfp8(32, 32)}, r"x is in MXFP8 and w is not"),
        (
            lambda: {"w": MXFP8Tensor(_mxfp8(2, 8, 32).codes, _mxfp8(2, 8, 64).scales)},
            r"w.scales has shape \[2, 8, 2\]; \[2, 8, 1\]",
        ),
        (
            lambda: {"w": MXFP4Tensor(torch.zeros(2, 8, 16).int(), _mxfp8(2, 8, 32).scales)},
            r"w.codes has dtype torch.int32",
        ),
        (lambda: {"bias_EN": torch.zeros(2, 8, device="meta")}, r"bias on meta"),
        (lambda: {"x": torch.zeros(32, 32).T}, r"x has stride 32 along its last dimension, not 1"),
        (lambda: {"out_dtype": torch.float16}, r"the result has dtype torch.float16"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_errors_name_the_tensor(changes: Callable[[], dict[str, Any]], message: str):
    arguments: dict[str, Any] = {
        "x": torch.zeros(32, 32),
        "w": torch.zeros(2, 8, 32),
        "dispatch": spread([3, 1]),
    } | changes()
    x, w, dispatch = (arguments.pop(name) for name in ("x", "w", "dispatch"))
    with pytest.raises(KernelError, match=message):
        grouped_gemm(x, w, dispatch, **arguments)


@every_kind
def test_nothing_to_contract_reads_nothing(kind: Kind):
    """Operands without an element have no address that may be read."""
    dispatch, bias = spread([3, 0, 2]), torch.arange(3.0)[:, None].expand(3, 8).contiguous()
    x, w = Draw.seeded(15).exact(kind, dispatch.num_rows, 3, 8, 0)
    for tiles in (SMALL, SWAPPED):
        y = launch(x, w, dispatch, tiles=tiles, bias_EN=bias)
        assert_same_bits(y, reference.grouped_gemm(x, w, dispatch, bias_EN=bias, out_dtype=y.dtype))
