"""Every launch compiled for GPUs that are not there; a few here, all of them in `make soak`."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import benchmarks
from benchmarks.ahead_of_time import CAPABILITIES, MAX_SHARED_BYTES, code_tokens

pytestmark = pytest.mark.xdist_group("ahead of time")

BLOCK_SCALED = "mxf8f6f4.block_scale"
INSTRUCTIONS = {
    "sm_80": ("mma.sync", "mma.sync"),
    "sm_89": ("mma.sync", "mma.sync"),
    "sm_90a": ("wgmma.mma_async", "wgmma.mma_async"),
    "sm_100a": ("tcgen05.mma", "tcgen05.mma"),
    "sm_120a": ("mma.sync", "mma.sync"),
}


def run_compiler(arguments: Sequence[str]) -> str:
    """Another process: in this one the interpreter stands in the compiler's place."""
    environment = {name: os.environ[name] for name in os.environ if name != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = str(Path(benchmarks.__path__[0]).parent)
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def compiled_sample() -> list[dict[str, Any]]:
    output = run_compiler(["-m", "benchmarks.ahead_of_time", "--sample"])
    return [json.loads(line) for line in output.splitlines()]


def test_a_sample_for_each_target(compiled_sample: list[dict[str, Any]]):
    assert {row["target"].removesuffix("a") for row in compiled_sample} == set(CAPABILITIES)
    assert {row["kind"] for row in compiled_sample} == {"mxfp8_mxfp8", "bf16_bf16", None}
    assert {"quantize_kernel", "paged_attention_kernel"} <= {r["kernel"] for r in compiled_sample}
    check(compiled_sample)


@pytest.mark.soak
def test_every_launch():
    output = run_compiler(["-m", "benchmarks.ahead_of_time"])
    rows = [json.loads(line) for line in output.splitlines()]
    kernels = {row["kernel"] for row in rows}
    assert {"grouped_gemm_kernel", "quantize_kernel", "route_kernel", "wgrad_kernel"} <= kernels
    assert {"paged_attention_kernel", "join_parts_kernel"} <= kernels
    assert len(rows) >= 60 * len(CAPABILITIES)
    check(rows)


def check(rows: list[dict[str, Any]]) -> None:
    """No register spilled, no more shared memory than there is, and the target's instruction."""
    for row in rows:
        assert row["stack_bytes"] == 0, row
        target = row["target"].removesuffix("a")
        assert row["shared_bytes"] <= MAX_SHARED_BYTES[target] * 1024, row
        if row["kind"] is not None:
            (instruction,) = row["instructions"]
            assert instruction.startswith(INSTRUCTIONS[row["target"]]), row
            has_scales = target in ("sm_100", "sm_120") and row["kind"] == "mxfp8_mxfp8"
            assert (BLOCK_SCALED in instruction) == has_scales, row


def test_what_is_spilled_is_seen():
    """The quantiser held to 24 registers."""
    script = """
from dataclasses import replace
from benchmarks.ahead_of_time import compile_request, record, resources
from benchmarks.launches import quantiser_launches
from composer_kernels import target_from_capability
target = target_from_capability(9, 0)
launch = next(each for each in quantiser_launches(target) if "columns" in each.name)
(request,) = record(launch, target)
starved = replace(request, options=request.options | {"maxnreg": 24})
print(*resources(compile_request(starved, target).asm["cubin"]))
"""
    registers, stack_bytes = map(int, run_compiler(["-c", script]).split())
    assert registers <= 24
    assert stack_bytes > 0


def test_the_page_is_up_to_date():
    run_compiler(["-m", "benchmarks.documents", "--check"])


def test_the_interpreter_is_refused():
    command = [sys.executable, "-m", "benchmarks.ahead_of_time", "--sample"]
    environment = os.environ | {"PYTHONPATH": str(Path(benchmarks.__path__[0]).parent)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "TRITON_INTERPRET=1 replaces the compiler" in done.stderr


def test_tokens_are_those_of_code_alone():
    source = '"""A docstring."""\n\ndef f(x):\n    """Another."""\n    # why\n    return x + 1\n'
    assert code_tokens(source) == code_tokens(
        "def f(x):\n        return (x+1)\n".replace("(x+1)", "x+1")
    )
    assert code_tokens(source) != code_tokens(source.replace("+ 1", "+ 2"))
    assert '"e4m3"' in code_tokens('def f():\n    return g("e4m3")\n')
