"""The script for a GPU, dry: its logic on the CPU, and that each of its checks can fail."""

import csv
import math
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from torch import Tensor

from benchmarks import correctness, gpu_check, timings
from benchmarks.clock import CpuClock, Deadline
from benchmarks.operands import Draw, poisoned_memory
from benchmarks.report import line
from benchmarks.timings import Measurement
from composer_kernels import Dispatch, MXFP8Tensor
from composer_kernels.tiles import TILES_VARIABLE, load_tiles

from .grouped import SMALL


def test_a_dry_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Every check and section, on the twins."""
    assert gpu_check.main(["--device", "cpu", "--quick", "--out", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert output.endswith("all passed\n")
    with (tmp_path / "checks.csv").open() as file:
        results = [row["result"] for row in csv.DictReader(file)]
    assert results == ["passed"] * len(correctness.checks(quick=True))
    with (tmp_path / "measurements.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["section"] for row in rows} == {
        "quantiser",
        "grouped GEMM",
        "layer, forward",
        "layer, forward and backward",
    }
    assert all(float(row["median_us"]) > 0 for row in rows)
    svg = ElementTree.parse(tmp_path / "measurements.svg")
    assert len(svg.findall(".//{*}rect")) >= len(rows)


def _break(result: Any) -> Any:
    """One wrong number, or every float a tenth too large."""
    match result:
        case tuple():
            return tuple(map(_break, result))
        case MXFP8Tensor(codes, scales):
            broken = codes.view(torch.uint8).clone()
            broken.view(-1)[-1] ^= 1
            return MXFP8Tensor(broken.view(torch.float8_e4m3fn), scales)
        case Dispatch():
            return replace(result, row_of_slot=result.row_of_slot.flip(0))
        case Tensor() if result.is_floating_point():
            return result * 1.1
        case _:
            return result


@pytest.mark.parametrize(
    ("check", "function"),
    [
        ("quantise: every bf16 number", "mxfp8_quantize"),
        ("quantise: ties and their neighbours", "mxfp8_quantize"),
        ("quantise: random, rows and columns", "mxfp8_quantize"),
        ("dequantise: every code times every scale", "mxfp8_dequantize"),
        ("dequantise: every code times every scale", "mxfp4_dequantize"),
        ("route", "route"),
        ("dispatch, permute, combine", "dispatch"),
        ("dispatch, permute, combine", "permute"),
        ("dispatch, permute, combine", "combine"),
        ("dispatch, permute, combine", "combine_backward"),
        ("grouped GEMM: bf16_mxfp8, 300 tokens", "grouped_gemm"),
        ("grouped GEMM: quantised output", "grouped_gemm_quantized"),
        ("experts' layer: all mxfp8", "expert_layer"),
        ("backward: mxfp8", "expert_layer_with_grad"),
    ],
)
def test_a_broken_function_is_found(check: str, function: str, monkeypatch: pytest.MonkeyPatch):
    right: Callable[..., Any] = getattr(correctness, function)
    run = correctness.checks(quick=True)[check]
    monkeypatch.setattr(correctness, function, lambda *a, **k: _break(right(*a, **k)))
    with pytest.raises(AssertionError):
        run(Draw(0, "cpu"))


def test_results_that_change_are_found(monkeypatch: pytest.MonkeyPatch):
    right = correctness.expert_layer
    draw = Draw(0, "cpu")

    def noisy(*args: Any, **options: Any) -> Tensor:
        y = right(*args, **options)
        return y + draw.normal(*y.shape).bfloat16()

    monkeypatch.setattr(correctness, "expert_layer", noisy)
    with pytest.raises(AssertionError):
        correctness.checks(quick=True)["the same bits twice, and as a CUDA graph"](Draw(0, "cpu"))


def test_what_fails_is_told_and_does_not_stop_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    ran: list[str] = []

    def wrong(draw: Draw) -> None:
        raise AssertionError("3 of 9 codes differ")

    def broken(draw: Draw) -> None:
        raise RuntimeError("an illegal memory access")

    def section(setting: Any, deadline: Deadline) -> Iterator[Measurement]:
        yield from timings.quantiser(setting, deadline)
        raise RuntimeError("out of memory")

    def other(setting: Any, deadline: Deadline) -> Iterator[Measurement]:
        ran.append("other")
        return iter(())

    checks = {"wrong": wrong, "broken": broken, "right": lambda draw: ran.append("right")}
    monkeypatch.setattr(gpu_check, "checks", lambda *, quick: checks)
    sections = {"first": (60.0, section), "other": (60.0, other)}
    monkeypatch.setattr(gpu_check, "SECTIONS", sections)
    assert gpu_check.main(["--device", "cpu", "--quick", "--out", str(tmp_path)]) == 1
    output = capsys.readouterr().out
    assert ran == ["right", "other"]
    assert "wrong: AssertionError: 3 of 9 codes differ" in output
    assert "broken: RuntimeError: an illegal memory access" in output
    assert "first: RuntimeError: out of memory" in output
    assert "copy" in (tmp_path / "measurements.csv").read_text()


def test_what_the_time_does_not_allow_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(gpu_check, "TOTAL_S", 0.0)
    assert gpu_check.main(["--device", "cpu", "--out", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "left out: quantise: every bf16 number" in output
    assert output.count("the rest is left out") == len(gpu_check.SECTIONS)


def test_tuning_saves_what_later_sections_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(TILES_VARIABLE, "")
    monkeypatch.setattr(gpu_check, "checks", lambda *, quick: {})
    monkeypatch.setattr(gpu_check, "SECTIONS", {})
    monkeypatch.setattr("composer_kernels.autotune.default_candidates", lambda regime: [SMALL])
    path = tmp_path / "tiles.json"
    arguments = ["--device", "cpu", "--quick", "--out", str(tmp_path), "--tune", str(path)]
    assert gpu_check.main(arguments) == 0
    assert {tiles.num_stages for tiles in load_tiles(path).gemm.values()} == {SMALL.num_stages}
    assert len({(key.kind, key.shape) for key in load_tiles(path).gemm}) == 8
    assert os.environ[TILES_VARIABLE] == str(path)


def test_without_a_gpu_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    if torch.cuda.is_available():
        pytest.skip("there is one")
    assert gpu_check.main(["--out", str(tmp_path)]) == 1
    assert "--device cpu is a dry run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (["--out", "{file}"], "--out: .*file is no folder"),
        (["--tune", "{folder}/none/tiles.json"], "--tune: .*none is no folder"),
        (["--seed", "-1"], "-1 is not from 0 to"),
        (["--seed", "99999999999999999999"], "is not from 0 to"),
    ],
    ids=lambda each: each if isinstance(each, str) else " ".join(each),
)
def test_a_mistake_is_told_before_anything_runs(
    option: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "file"
    file.touch()
    arguments = [each.format(file=file, folder=tmp_path) for each in option]
    with pytest.raises(SystemExit):
        gpu_check.main(["--device", "cpu", "--out", str(tmp_path / "out"), *arguments])
    error = capsys.readouterr().err
    assert re.search(message, error), error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float8_e4m3fn], ids=str)
def test_poisoned_memory_is_not_a_number(dtype: torch.dtype):
    with poisoned_memory():
        inside = torch.empty(4, 33, dtype=dtype)
    assert bool(inside.float().isnan().all())
    assert not torch.are_deterministic_algorithms_enabled()


def test_poisoned_codes_are_255():
    with poisoned_memory():
        assert bool((torch.empty(9, dtype=torch.uint8) == 255).all())


def test_exact_operands_have_exact_sums():
    for kind in correctness.Kind:
        x, w = Draw(1, "cpu").exact(kind, 5, 2, 8, 256)
        x64, w64 = (correctness.dequantize(each).double() for each in (x, w))
        products = x64[None] @ w64.mT
        assert torch.equal(products.float().double(), products)
        assert float((x64.abs()[None] @ w64.mT.abs()).max()) < 2**24 / 64


def test_a_line_tells_the_floor_and_the_speed():
    row = Measurement(
        section="s", shape="m", num_tokens=16, what="ours", median_us=50.0, floor_us=20.0
    )
    assert "   40%   2.00x" in line(row, 100.0)
    assert "%" not in line(replace(row, floor_us=None), None)


def test_published_peaks_go_by_the_exact_name():
    draw, clock = Draw(0, "cpu"), CpuClock(1)
    sizes = {"size": 16, "copy_bytes": 1024}
    assert timings.peaks_of("NVIDIA H200", draw, clock, **sizes).bytes_per_s == 4.8e12
    assert timings.peaks_of("NVIDIA H200 NVL", draw, clock, **sizes).source.startswith("measured")


def test_the_torch_layer_is_the_same_layer():
    draw = Draw(2, "cpu")
    x, (ids, scores) = draw.normal(9, 64).bfloat16(), draw.choices(9, 4, 2)
    gate_up, down = draw.bf16(4, 80, 64), draw.bf16(4, 64, 40)
    theirs = timings._torch_layer(x, ids, scores, gate_up, down)
    weights = timings.ExpertWeights(gate_up=gate_up, down=down)
    ours = timings.expert_layer(x, ids, scores, weights)
    # bf16 between all steps there, and here after each product: some roundings of 2^-9.
    correctness.close(theirs, ours, 4 * 2.0**-8)
    assert not math.isnan(float(theirs.float().sum()))
