"""The saved tiles, how one is chosen, and how others are measured and saved."""

import json
import logging
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from triton.runtime.errors import OutOfResources

from composer_kernels import (
    KernelError,
    Kind,
    Tiles,
    WgradTiles,
    choose_tiles,
    choose_wgrad_tiles,
    mean_rows_per_expert,
)
from composer_kernels.autotune import autotune, default_candidates
from composer_kernels.target_info import INTERPRETER, target_from_capability
from composer_kernels.tiles import (
    TILES_VARIABLE,
    Regime,
    SavedTiles,
    TileKey,
    WgradKey,
    load_tiles,
    regime_of,
    save_tiles,
)

from .grouped import KINDS, SMALL

CAPABILITIES = [(8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0), (12, 1)]
ROWS_OF = {Regime.DECODE: 1, Regime.MIXED: 17, Regime.PREFILL: 65}
LARGE = replace(SMALL, block_m=128, block_n=128)
WGRAD_KINDS = [Kind.MXFP8_MXFP8, Kind.BF16_BF16]
SMALL_WGRAD = WgradTiles(block_n=16, block_k=16, block_r=32, group_n=1, num_warps=1, num_stages=1)
LARGE_WGRAD = replace(SMALL_WGRAD, block_n=128, block_k=128)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("capability", CAPABILITIES, ids=str)
def test_every_target_has_a_choice(capability: tuple[int, int], kind: Kind):
    target = target_from_capability(*capability)
    for regime, rows in ROWS_OF.items():
        tiles = choose_tiles(target, kind, rows, 1536, 2048)
        assert (tiles.block_m == 16) == (regime is Regime.DECODE)
        # SwiGLU's output in MXFP8 wants 32 of them in a tile.
        assert tiles.block_n >= 64


@pytest.mark.parametrize("kind", WGRAD_KINDS)
@pytest.mark.parametrize("capability", CAPABILITIES, ids=str)
def test_every_target_has_a_choice_for_wgrad(capability: tuple[int, int], kind: Kind):
    target = target_from_capability(*capability)
    is_scaled = target.has_dot_scaled and kind is Kind.MXFP8_MXFP8
    assert choose_wgrad_tiles(target, kind).block_r == (128 if is_scaled else 64)


def test_the_interpreter_has_none():
    with pytest.raises(KernelError, match="no tiles are saved for mxfp8_mxfp8 wgrad on cpu"):
        choose_wgrad_tiles(INTERPRETER, Kind.MXFP8_MXFP8)
    with pytest.raises(KernelError, match="no tiles are saved for bf16_bf16 decode on cpu"):
        choose_tiles(INTERPRETER, Kind.BF16_BF16, 1, 8, 8)


@pytest.mark.parametrize(
    ("rows", "regime"),
    [
        (0, Regime.DECODE),
        (16, Regime.DECODE),
        (17, Regime.MIXED),
        (64, Regime.MIXED),
        (65, Regime.PREFILL),
    ],
)
def test_regimes(rows: int, regime: Regime):
    assert regime_of(rows) is regime


@pytest.mark.parametrize(
    ("num_tokens", "top_k", "num_experts", "rows"),
    [(1, 8, 128, 1), (16, 8, 128, 1), (17, 8, 128, 2), (4096, 8, 128, 256), (0, 8, 128, 0)],
)
def test_mean_rows(num_tokens: int, top_k: int, num_experts: int, rows: int):
    assert mean_rows_per_expert(num_tokens, top_k, num_experts) == rows


def _key(capability: int = 90, shape: tuple[int, int] | None = None) -> TileKey:
    return TileKey(capability=capability, kind=Kind.BF16_MXFP8, regime=Regime.DECODE, shape=shape)


def _choose(table: dict[TileKey, Tiles], capability: tuple[int, int], n: int, k: int) -> Tiles:
    target = target_from_capability(*capability)
    return choose_tiles(target, Kind.BF16_MXFP8, 4, n, k, table=table)


def test_a_shape_of_its_own_goes_before_any_shape():
    table = {_key(): SMALL, _key(shape=(64, 32)): LARGE}
    assert _choose(table, (9, 0), 64, 32) is LARGE
    assert _choose(table, (9, 0), 32, 64) is SMALL


def test_the_nearest_target_below_lends_its_choice():
    table = {_key(80): SMALL, _key(100): LARGE}
    assert _choose(table, (9, 0), 8, 8) is SMALL
    assert _choose(table, (10, 3), 8, 8) is LARGE


def test_a_target_without_the_kind_looks_further_down():
    other = replace(_key(100), kind=Kind.BF16_BF16)
    assert _choose({_key(80): SMALL, other: LARGE}, (10, 0), 8, 8) is SMALL


def _wgrad_key(capability: int, kind: Kind = Kind.BF16_BF16) -> WgradKey:
    return WgradKey(capability=capability, kind=kind)


def test_wgrad_takes_the_nearest_choice_of_its_kind():
    table = {
        _wgrad_key(80): SMALL_WGRAD,
        _wgrad_key(100): LARGE_WGRAD,
        _wgrad_key(90, Kind.MXFP8_MXFP8): LARGE_WGRAD,
    }
    for capability, tiles in {(9, 0): SMALL_WGRAD, (10, 3): LARGE_WGRAD}.items():
        target = target_from_capability(*capability)
        assert choose_wgrad_tiles(target, Kind.BF16_BF16, table=table) is tiles
    with pytest.raises(KernelError, match="mxfp8_mxfp8 wgrad on sm_80 or below"):
        choose_wgrad_tiles(target_from_capability(8, 0), Kind.MXFP8_MXFP8, table=table)


def test_a_file_keeps_every_choice(tmp_path: Path):
    gemm = {
        TileKey(capability=capability, kind=kind, regime=regime, shape=shape): LARGE
        for capability, kind, regime, shape in product(
            [120, 80], Kind, Regime, [(1536, 2048), None]
        )
    }
    wgrad = {
        _wgrad_key(capability, kind): LARGE_WGRAD
        for capability, kind in product([120, 80], WGRAD_KINDS)
    }
    for saved in (
        SavedTiles(gemm=gemm, wgrad=wgrad),
        SavedTiles(gemm=gemm),
        SavedTiles(wgrad=wgrad),
        SavedTiles(),
    ):
        save_tiles(tmp_path / "tiles.json", saved)
        assert load_tiles(tmp_path / "tiles.json") == saved


def test_the_environments_file_goes_before_the_shipped_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    target = target_from_capability(9, 0)
    shipped = choose_tiles(target, Kind.BF16_BF16, 4, 8, 8)
    shipped_wgrad = choose_wgrad_tiles(target, Kind.MXFP8_MXFP8)
    path = tmp_path / "tiles.json"
    saved = SavedTiles(gemm={_key(): LARGE}, wgrad={_wgrad_key(90): SMALL_WGRAD})
    save_tiles(path, saved)
    monkeypatch.setenv(TILES_VARIABLE, str(path))
    assert choose_tiles(target, Kind.BF16_MXFP8, 4, 8, 8) == LARGE
    assert choose_tiles(target, Kind.BF16_BF16, 4, 8, 8) == shipped
    assert choose_wgrad_tiles(target, Kind.BF16_BF16) == SMALL_WGRAD
    assert choose_wgrad_tiles(target, Kind.MXFP8_MXFP8) == shipped_wgrad


def _file_of_one(table: str = "grouped_gemm", **changes: Any) -> str:
    entry = {"capability": 90, "kind": "bf16_bf16", "regime": "decode", "shape": None}
    entry |= {"tiles": asdict(SMALL)} | changes
    return json.dumps({"grouped_gemm": [], "grouped_wgrad": [], table: [entry]})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}x",
        "3",
        "{}",
        "[" * 100_000,
        "[]",
        '{"grouped_gemm": []}',
        '{"grouped_gemm": 1, "grouped_wgrad": []}',
        '{"grouped_gemm": [{"capability": 90}], "grouped_wgrad": []}',
        _file_of_one(kind="int4"),
        _file_of_one(tiles={"block_m": 16}),
        _file_of_one(table="grouped_wgrad"),
    ],
    ids=[
        "empty",
        "no JSON",
        "a number",
        "no table",
        "too deep",
        "a list",
        "no wgrad",
        "no list",
        "a field missing",
        "unknown kind",
        "half a choice",
        "a GEMM's choice for wgrad",
    ],
)
def test_a_file_of_something_else_is_named(text: str, tmp_path: Path):
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(KernelError, match=r"mine\.json is no file of tiles"):
        load_tiles(path)


@pytest.mark.parametrize(
    "change",
    [
        {"capability": "90"},
        {"shape": [1, 2, 3]},
        {"shape": "ab"},
        {"tiles": {"swap_operands": "no"}},
        {"tiles": {"num_stages": True}},
        {"tiles": {"block_m": 16.0}},
    ],
    ids=str,
)
def test_a_value_of_another_type_is_named(change: dict[str, Any], tmp_path: Path):
    path = tmp_path / "mine.json"
    path.write_text(_file_of_one(**change | {"tiles": asdict(SMALL) | change.get("tiles", {})}))
    with pytest.raises(KernelError, match=r"mine\.json is no file of tiles: .*asked for"):
        load_tiles(path)


@pytest.mark.parametrize(
    "change", [{"capability": "90"}, {"tiles": asdict(SMALL_WGRAD) | {"block_r": 32.0}}], ids=str
)
def test_so_is_one_of_wgrad(change: dict[str, Any], tmp_path: Path):
    path = tmp_path / "mine.json"
    path.write_text(_file_of_one("grouped_wgrad", **{"tiles": asdict(SMALL_WGRAD)} | change))
    with pytest.raises(KernelError, match=r"mine\.json is no file of tiles: .*asked for"):
        load_tiles(path)


def test_a_missing_file_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(TILES_VARIABLE, "/nowhere/tiles.json")
    with pytest.raises(KernelError, match=r"/nowhere/tiles\.json is no file of tiles"):
        choose_tiles(target_from_capability(9, 0), Kind.BF16_BF16, 4, 8, 8)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("block_m", 8),
        ("block_m", 48),
        ("block_n", 0),
        ("block_k", 16),
        ("num_warps", 3),
        ("group_m", 0),
        ("num_stages", 0),
        ("programs_per_sm", 0),
    ],
)
def test_tiles_of_odd_sizes_are_refused(field: str, value: int):
    with pytest.raises(KernelError, match=f"{field} is {value}"):
        replace(SMALL, **{field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("block_n", 8),
        ("block_k", 24),
        ("block_r", 16),
        ("num_warps", 3),
        ("group_n", 0),
        ("num_stages", 0),
    ],
)
def test_wgrad_tiles_of_odd_sizes_are_refused(field: str, value: int):
    with pytest.raises(KernelError, match=f"{field} is {value}"):
        replace(SMALL_WGRAD, **{field: value})


def _tune(path: Path, time_ms: Callable[[Callable[[], object]], float], **changes: int) -> Tiles:
    sizes = {"num_tokens": 3, "top_k": 2, "num_experts": 4, "n": 8, "k": 32} | changes
    return autotune(
        path,
        kind=Kind.BF16_MXFP8,
        candidates=[SMALL, LARGE, replace(SMALL, block_n=16)],
        device="cpu",
        time_ms=time_ms,
        **sizes,
    )


class FakeClock:
    """Runs what it shall time, and gives times from a list; None: the tiles do not fit the target."""

    def __init__(self, *times: float | None) -> None:
        self.times = list(times)
        self.shapes: list[tuple[int, ...]] = []

    def __call__(self, run: Callable[[], object]) -> float:
        self.shapes.append(tuple(run().shape))
        time = self.times.pop(0)
        if time is None:
            raise OutOfResources(300_000, 232_448, "shared memory")
        return time


def test_the_fastest_is_saved(tmp_path: Path):
    clock = FakeClock(3.0, 1.0, 2.0)
    assert _tune(tmp_path / "tiles.json", clock) is LARGE
    key = TileKey(capability=0, kind=Kind.BF16_MXFP8, regime=Regime.DECODE, shape=(8, 32))
    assert load_tiles(tmp_path / "tiles.json") == SavedTiles(gemm={key: LARGE})
    # Six slots of at most 4 experts, rounded up to each candidate's blocks.
    assert clock.shapes == [(64, 8), (512, 8), (64, 8)]


def test_what_is_saved_is_chosen(tmp_path: Path):
    path = tmp_path / "tiles.json"
    _tune(path, FakeClock(3.0, 1.0, 2.0))
    chosen = choose_tiles(INTERPRETER, Kind.BF16_MXFP8, 2, 8, 32, table=load_tiles(path).gemm)
    assert chosen == LARGE


def test_other_choices_stay(tmp_path: Path):
    path = tmp_path / "tiles.json"
    wgrad = {_wgrad_key(90): SMALL_WGRAD}
    save_tiles(path, SavedTiles(gemm={_key(): SMALL}, wgrad=wgrad))
    _tune(path, FakeClock(3.0, 1.0, 2.0))
    _tune(path, FakeClock(1.0, 2.0, 3.0))
    _tune(path, FakeClock(3.0, 1.0, 2.0), num_tokens=40)
    assert load_tiles(path).wgrad == wgrad
    table = load_tiles(path).gemm
    assert table[_key()] == SMALL
    assert {(key.regime, key.shape): tiles for key, tiles in table.items()} == {
        (Regime.DECODE, None): SMALL,
        (Regime.DECODE, (8, 32)): SMALL,
        (Regime.MIXED, (8, 32)): LARGE,
    }


def test_what_does_not_fit_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.INFO, logger="composer_kernels.autotune"):
        assert _tune(tmp_path / "tiles.json", FakeClock(3.0, None, 2.0)).block_n == 16
    assert "is passed over: out of resource: shared memory" in caplog.text


def test_nothing_that_fits_is_an_error(tmp_path: Path):
    with pytest.raises(KernelError, match="no candidate runs for bf16_mxfp8 with N = 8 and K = 32"):
        _tune(tmp_path / "tiles.json", FakeClock(None, None, None))
    assert not (tmp_path / "tiles.json").exists()


@pytest.mark.parametrize("regime", list(Regime))
def test_candidates_differ_and_include_both_orders(regime: Regime):
    candidates = default_candidates(regime)
    assert len(set(candidates)) == len(candidates)
    assert {tiles.swap_operands for tiles in candidates} == {False, True}
