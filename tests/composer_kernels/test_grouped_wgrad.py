"""The kernels of weights' and biases' gradients, under Triton's interpreter, against their twins."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from composer_kernels import (
    KernelError,
    Kind,
    MXFP8Tensor,
    WgradTiles,
    choose_wgrad_tiles,
    grouped_wgrad,
    reference,
    sum_by_expert,
)
from composer_kernels.formats import num_blocks
from composer_kernels.grouped_wgrad import _launch_sum, _launch_wgrad
from composer_kernels.routes import Dispatch
from composer_kernels.target_info import INTERPRETER, target_from_capability
from composer_kernels.tiles import TILES_VARIABLE, SavedTiles, WgradKey, save_tiles

from .grouped import Draw, Operand, assert_within, dequantize, spread

module: Any = import_module("composer_kernels.grouped_wgrad")

TILES = WgradTiles(block_n=32, block_k=64, block_r=64, group_n=2, num_warps=4, num_stages=1)
formats = pytest.mark.parametrize("quantized", [False, True], ids=["bf16", "mxfp8"])


def exact_operand(draw: Draw, num_columns: int, dispatch: Dispatch, *, quantized: bool) -> Operand:
    """`[num_columns, P]`, zeros in padding; products have exact sums: multiples of 1/64 up to 576."""
    values = draw.integers(-12, 12, num_columns, dispatch.num_rows) / 2
    values = values.masked_fill(dispatch.token_of_row < 0, 0)
    if not quantized:
        return values.bfloat16().mT.contiguous().mT
    shape = (num_columns, num_blocks(dispatch.num_rows))
    return MXFP8Tensor(
        values.to(torch.float8_e4m3fn), draw.integers(125, 129, *shape).to(torch.uint8)
    )


def real_operand(draw: Draw, num_columns: int, dispatch: Dispatch, *, quantized: bool) -> Operand:
    num_tokens = dispatch.row_of_slot.shape[0]
    rows = reference.permute(draw.normal(num_tokens, num_columns).bfloat16(), dispatch)
    return reference.mxfp8_quantize(rows, columns=True)[1] if quantized else rows.mT


def assert_equal(actual: Tensor, expected: Tensor) -> None:
    """As numbers: a product that is -0 ends as 0 where it is added to a zero."""
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def launch(
    grad: Operand,
    x: Operand,
    dispatch: Dispatch,
    *,
    out_dtype: torch.dtype = torch.float32,
    tiles: WgradTiles = TILES,
    num_programs: int = 3,
) -> Tensor:
    return _launch_wgrad(
        grad,
        x,
        dispatch,
        out_dtype=out_dtype,
        tiles=tiles,
        target=INTERPRETER,
        num_programs=num_programs,
    )


@formats
@pytest.mark.parametrize(("N", "K"), [(1, 1), (31, 65), (33, 64), (70, 130)], ids=str)
def test_exact_sums(quantized: bool, N: int, K: int):
    draw, dispatch = Draw.seeded(N + K), spread([3, 0, 40], block_m=32)
    grad = exact_operand(draw, N, dispatch, quantized=quantized)
    x = exact_operand(draw, K, dispatch, quantized=quantized)
    expected = reference.grouped_wgrad(grad, x, dispatch)
    assert expected[1].count_nonzero() == 0
    assert expected[2].count_nonzero() > 0
    assert_equal(launch(grad, x, dispatch), expected)
    rounded = launch(grad, x, dispatch, out_dtype=torch.bfloat16)
    assert_equal(rounded, expected.bfloat16())


@formats
@pytest.mark.parametrize(
    ("num_tokens_per_expert", "block_m"),
    [
        pytest.param([1], 32, id="one token"),
        pytest.param([0, 0, 1, 0], 32, id="one token, four experts"),
        pytest.param([32, 64, 32], 32, id="full blocks"),
        pytest.param([0, 90, 0], 32, id="all on one"),
        pytest.param([1, 33, 0, 2, 16, 0], 32, id="uneven"),
        pytest.param([5, 70], 128, id="large blocks"),
        pytest.param([0, 0], 32, id="no token at all"),
    ],
)
def test_spread_over_experts(quantized: bool, num_tokens_per_expert: list[int], block_m: int):
    draw, dispatch = Draw.seeded(0), spread(num_tokens_per_expert, block_m=block_m)
    grad = exact_operand(draw, 20, dispatch, quantized=quantized)
    x = exact_operand(draw, 40, dispatch, quantized=quantized)
    assert_equal(launch(grad, x, dispatch), reference.grouped_wgrad(grad, x, dispatch))
    rows = exact_operand(draw, 40, dispatch, quantized=False).mT
    actual = _launch_sum(rows, dispatch, out_dtype=torch.float32, target=INTERPRETER)
    assert_equal(actual, reference.sum_by_expert(rows, dispatch))


def test_no_local_expert_gives_zeros():
    ids = torch.tensor([[4], [5]], dtype=torch.int32)
    dispatch = reference.dispatch(ids, torch.ones(2, 1), 8, 32, num_local_experts=2)
    draw = Draw.seeded(0)
    grad, x = (exact_operand(draw, 20, dispatch, quantized=True) for _ in range(2))
    assert_equal(launch(grad, x, dispatch), torch.zeros(2, 20, 20))


@formats
def test_real_operands(quantized: bool):
    draw, dispatch = Draw.seeded(1), spread([37, 0, 6], block_m=32)
    grad = real_operand(draw, 40, dispatch, quantized=quantized)
    x = real_operand(draw, 70, dispatch, quantized=quantized)
    # Two f32 sums of 37 products: gamma_38 of each (Higham, section 3.1).
    absolute = reference.grouped_wgrad(dequantize(grad).abs(), dequantize(x).abs(), dispatch)
    expected = reference.grouped_wgrad(grad, x, dispatch)
    assert_within(launch(grad, x, dispatch), expected, 2 * 38 * 2.0**-24 * absolute)


@formats
def test_nan_stays_with_its_expert(quantized: bool):
    """Its neighbour's rows are read in the same step."""
    draw, dispatch = Draw.seeded(2), spread([4, 5, 3], block_m=32)
    rows = reference.permute(draw.normal(12, 20).bfloat16(), dispatch)
    rows[32, 7] = torch.nan
    grad: Operand = reference.mxfp8_quantize(rows, columns=True)[1] if quantized else rows.mT
    x = real_operand(draw, 40, dispatch, quantized=quantized)
    is_nan = launch(grad, x, dispatch).isnan()
    expected = torch.zeros(3, 20, 40, dtype=torch.bool)
    expected[1, 7] = True
    assert_equal(is_nan, expected)


@formats
@pytest.mark.parametrize("num_programs", [1, 5, 1000])
@pytest.mark.parametrize("block_r", [32, 128])
def test_any_grid_and_step(quantized: bool, num_programs: int, block_r: int):
    draw, dispatch = Draw.seeded(3), spread([33, 2], block_m=32)
    grad = exact_operand(draw, 70, dispatch, quantized=quantized)
    x = exact_operand(draw, 66, dispatch, quantized=quantized)
    tiles = replace(TILES, block_r=block_r, group_n=1)
    actual = launch(grad, x, dispatch, tiles=tiles, num_programs=num_programs)
    assert_equal(actual, reference.grouped_wgrad(grad, x, dispatch))


@formats
def test_as_on_a_gpu_with_saved_tiles(quantized: bool, monkeypatch: pytest.MonkeyPatch):
    """The public functions' path to the kernels, with the interpreter in the place of an A100."""
    monkeypatch.setattr(module, "target_of", lambda _: replace(INTERPRETER, capability=80))
    monkeypatch.setattr(module, "num_multiprocessors", lambda _: 2)
    draw, dispatch = Draw.seeded(4), spread([33, 2], block_m=32)
    grad = exact_operand(draw, 20, dispatch, quantized=quantized)
    x = exact_operand(draw, 40, dispatch, quantized=quantized)
    assert_equal(grouped_wgrad(grad, x, dispatch), reference.grouped_wgrad(grad, x, dispatch))
    rows = exact_operand(draw, 70, dispatch, quantized=False).mT
    assert_equal(
        sum_by_expert(rows, dispatch, out_dtype=torch.bfloat16),
        reference.sum_by_expert(rows, dispatch, out_dtype=torch.bfloat16),
    )


@formats
def test_the_environments_tiles_are_taken(
    quantized: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    taken: list[WgradTiles] = []

    def launch_and_note(*operands: Any, tiles: WgradTiles, **options: Any) -> Tensor:
        taken.append(tiles)
        return _launch_wgrad(*operands, tiles=tiles, **options)

    monkeypatch.setattr(module, "_launch_wgrad", launch_and_note)
    monkeypatch.setattr(module, "target_of", lambda _: replace(INTERPRETER, capability=80))
    monkeypatch.setattr(module, "num_multiprocessors", lambda _: 2)
    mine = {Kind.BF16_BF16: TILES, Kind.MXFP8_MXFP8: replace(TILES, block_r=32)}
    saved = {WgradKey(capability=80, kind=kind): tiles for kind, tiles in mine.items()}
    save_tiles(tmp_path / "tiles.json", SavedTiles(wgrad=saved))
    monkeypatch.setenv(TILES_VARIABLE, str(tmp_path / "tiles.json"))
    draw, dispatch = Draw.seeded(6), spread([33, 2], block_m=32)
    grad = exact_operand(draw, 20, dispatch, quantized=quantized)
    x = exact_operand(draw, 40, dispatch, quantized=quantized)
    grouped_wgrad(grad, x, dispatch)
    assert taken == [mine[Kind.MXFP8_MXFP8 if quantized else Kind.BF16_BF16]]


@pytest.mark.parametrize("capability", [(8, 0), (8, 9), (9, 0), (10, 0), (12, 0)])
@formats
def test_saved_tiles_fit_in_shared_memory(capability: tuple[int, int], quantized: bool):
    """Both operands of every step in flight, of what a program may have (CUDA programming guide,
    "Compute capabilities": 99 KiB at 8.9 and 12.0, 163 at 8.0, 227 at 9.0 and 10.0)."""
    kind = Kind.MXFP8_MXFP8 if quantized else Kind.BF16_BF16
    tiles = choose_wgrad_tiles(target_from_capability(*capability), kind)
    step = (tiles.block_n + tiles.block_k) * tiles.block_r * (1 if quantized else 2)
    limit_kib = {(8, 0): 163, (9, 0): 227, (10, 0): 227}.get(capability, 99)
    assert step * tiles.num_stages <= limit_kib * 1024


@pytest.mark.usefixtures("unchecked")
def test_errors():
    draw, dispatch = Draw.seeded(5), spread([3, 2], block_m=32)
    x = exact_operand(draw, 4, dispatch, quantized=True)
    plain = dequantize(x)
    with pytest.raises(KernelError, match="one of grad and x is in MXFP8"):
        grouped_wgrad(plain, x, dispatch)
    with pytest.raises(KernelError, match=r"grad has shape \[4, 63\]; \[\*, 64\]"):
        grouped_wgrad(plain[:, 1:], plain, dispatch)
    with pytest.raises(KernelError, match="x has dtype torch.float16"):
        grouped_wgrad(plain, plain.half(), dispatch)
    with pytest.raises(KernelError, match=r"the result has dtype torch.float16"):
        grouped_wgrad(plain, plain, dispatch, out_dtype=torch.float16)
    with pytest.raises(KernelError, match=r"rows has shape \[4, 63\]"):
        sum_by_expert(plain[:, 1:].mT, dispatch)
    small = spread([3, 2], block_m=16)
    with pytest.raises(KernelError, match="block_m is 16; a multiple of 32 is asked for"):
        grouped_wgrad(plain[:, :32], plain[:, :32], small)


@pytest.mark.usefixtures("unchecked")
def test_rows_that_are_no_matrix_are_named():
    with pytest.raises(KernelError, match=r"rows has shape \[64\]; \[P, N\]"):
        sum_by_expert(torch.zeros(64), spread([3, 2], block_m=32))
