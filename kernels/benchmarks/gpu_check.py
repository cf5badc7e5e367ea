"""What there is to do on a machine with a GPU, in under four minutes:

    cd kernels && python -m benchmarks.gpu_check [--quick] [--tune TILES.json] [--out FOLDER]

First the kernels against their twins on fresh random inputs in poisoned memory, then times: CUDA
events, medians, nothing in the L2 cache. Prints tables and writes `measurements.csv`,
`measurements.svg` and `checks.csv`. Every section has its own share of the time; what fails or is
left out is told, and the rest goes on. The exit status is 1 where anything failed.

`--tune` measures tiles first and saves the fastest, in a time of its own (ten minutes at most); the
sections after it use them. Set `COMPOSER_KERNEL_TILES` to that file to use them elsewhere.
`--device cpu` is a dry run of all this with tiny sizes and the twins in the kernels' place.

Needs torch from 2.11, Triton from 3.6, jaxtyping, and nothing else.
"""

import argparse
import csv
import os
import platform
import secrets
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from benchmarks import report, timings
from benchmarks.clock import Clock, CpuClock, CudaClock, Deadline
from benchmarks.correctness import checks
from benchmarks.operands import Draw
from benchmarks.shapes import MODELS, NUM_TOKENS, TINY
from benchmarks.timings import Measurement, Setting
from composer_kernels.tiles import TILES_VARIABLE

TOTAL_S = 225.0
CHECKS_S = 100.0
TUNE_S = 600.0
SECTIONS: dict[str, tuple[float, Callable[[Setting, Deadline], Iterator[Measurement]]]] = {
    "quantiser": (20.0, timings.quantiser),
    "grouped GEMM": (80.0, timings.grouped_gemms),
    "layer": (70.0, timings.layers),
}
"""Seconds that each may take, and what it is."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.out.exists() and not options.out.is_dir():
        parser.error(f"--out: {options.out} is no folder")
    # Told here, and not after minutes on a GPU.
    if options.tune is not None and not options.tune.resolve().parent.is_dir():
        parser.error(f"--tune: {options.tune.resolve().parent} is no folder")
    warnings.filterwarnings("ignore", message=".*deterministic.*")
    if options.device == "cuda" and not torch.cuda.is_available():
        print("torch sees no GPU; --device cpu is a dry run", file=sys.stderr)
        return 1
    options.out.mkdir(parents=True, exist_ok=True)
    seed = secrets.randbelow(2**31) if options.seed is None else options.seed
    name = _device_name(options.device)
    print(_machine(name, seed), flush=True)

    failures: list[str] = []
    setting = _setting(options, name, seed)
    if options.tune is not None:
        failures += _tune(setting, options.tune)
    deadline = Deadline.after(TOTAL_S)
    failures += _check(seed, options, deadline.within(CHECKS_S))
    failures += _measure(setting, options, f"{name}, seed {seed}", deadline)
    print("\n" + ("\n".join(["FAILED:", *failures]) if failures else "all passed"))
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_check")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--quick", action="store_true", help="one model, two loads, few calls")
    parser.add_argument("--tune", type=Path, metavar="TILES.json", help="measure tiles first")
    parser.add_argument("--out", type=Path, default=Path("gpu-check"), help="folder of the results")
    parser.add_argument("--seed", type=_seed, help="of the inputs; a fresh one by default")
    return parser


def _seed(text: str) -> int:
    seed = int(text)
    if not 0 <= seed < 2**31:
        raise argparse.ArgumentTypeError(f"{seed} is not from 0 to 2^31 - 1")
    return seed


def _setting(options: argparse.Namespace, name: str, seed: int) -> Setting:
    on_gpu = options.device == "cuda"
    num_calls = (7 if options.quick else 20) if on_gpu else 1
    clock: Clock = CudaClock(num_calls) if on_gpu else CpuClock(num_calls)
    draw = Draw(seed, options.device)
    models = (MODELS[:1] if options.quick else MODELS) if on_gpu else (TINY,)
    all_num_tokens = (NUM_TOKENS[0], NUM_TOKENS[-1]) if options.quick else NUM_TOKENS
    copy_bytes = 1 << (30 if on_gpu else 20)
    return Setting(
        draw=draw,
        clock=clock,
        gpu=timings.peaks_of(name, draw, clock, size=8192 if on_gpu else 64, copy_bytes=copy_bytes),
        models=models,
        all_num_tokens=all_num_tokens if on_gpu else (1, 16),
        copy_bytes=copy_bytes,
    )


def _check(seed: int, options: argparse.Namespace, deadline: Deadline) -> list[str]:
    """Runs the checks of correctness; the names of those that failed."""
    print("\n== correctness")
    rows: list[tuple[str, str, str]] = []
    for number, (name, check) in enumerate(checks(quick=options.quick).items()):
        if deadline.has_passed:
            rows.append((name, "left out", "the time is over"))
            continue
        start = time.monotonic()
        try:
            check(Draw(seed + number, options.device))
            _synchronize(options.device)
            rows.append((name, "passed", ""))
        except Exception as error:
            if not isinstance(error, AssertionError):
                traceback.print_exc()
            rows.append((name, "FAILED", f"{type(error).__name__}: {error}".splitlines()[0]))
        _, result, reason = rows[-1]
        print(f"{name:44}{result:10}{time.monotonic() - start:6.1f} s  {reason}", flush=True)
    with (options.out / "checks.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("check", "result", "reason"), *rows])
    left_out = [name for name, result, _ in rows if result == "left out"]
    if left_out:
        print(f"left out: {', '.join(left_out)}")
    return [f"{name}: {reason}" for name, result, reason in rows if result == "FAILED"]


def _measure(
    setting: Setting, options: argparse.Namespace, title: str, deadline: Deadline
) -> list[str]:
    """Runs the timings; what failed."""
    rows: list[Measurement] = []
    failures: list[str] = []
    for name, (seconds, section) in SECTIONS.items():
        print(f"\n== {name}, peaks of {setting.gpu.name} ({setting.gpu.source})\n{report.HEADER}")
        share = deadline.within(seconds)
        try:
            for row in section(setting, share):
                rows.append(row)
                baseline = report.baselines(rows).get((row.section, row.shape, row.num_tokens))
                print(report.line(row, baseline), flush=True)
        except Exception as error:
            traceback.print_exc()
            failures.append(f"{name}: {type(error).__name__}: {error}".splitlines()[0])
        if share.has_passed:
            print("the rest is left out: the time is over")
    report.write_csv(options.out / "measurements.csv", rows)
    report.write_svg(options.out / "measurements.svg", rows, title)
    return failures


def _tune(setting: Setting, path: Path) -> list[str]:
    print(f"\n== tuning, to {path}")
    try:
        for line in timings.tune(setting, path, Deadline.after(TUNE_S)):
            print(line, flush=True)
    except Exception as error:
        traceback.print_exc()
        return [f"tuning: {type(error).__name__}: {error}".splitlines()[0]]
    os.environ[TILES_VARIABLE] = str(path)
    return []


def _machine(name: str, seed: int) -> str:
    cuda: Any = torch.version
    return (
        f"{name}; torch {torch.__version__}, CUDA {cuda.cuda}, Triton {_triton_version()}, "
        f"Python {platform.python_version()}, {platform.system()}; seed {seed}"
    )


def _triton_version() -> str:
    try:
        return version("triton")
    except PackageNotFoundError:
        return "none"


def _device_name(device: str) -> str:
    cuda: Any = torch.cuda
    return cuda.get_device_name() if device == "cuda" else platform.machine()


def _synchronize(device: str) -> None:
    """So that a kernel's fault shows in its own check."""
    if device == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    sys.exit(main())
