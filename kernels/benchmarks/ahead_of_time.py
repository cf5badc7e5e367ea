"""Compile every launch of the package for GPUs that are not there, and read what came out.

    cd kernels && python -m benchmarks.ahead_of_time [--target sm_90 ...] [--sample]

Prints registers, shared memory, spills and matrix instructions of each kernel as JSON, one a line.
Every launch goes the way that it goes on a GPU up to the point where Triton would look for a
compiled kernel: its specialisation, and so the code, is that of the real launch. Triton keeps what
it compiled in its own cache (`~/.triton/cache`) by a digest of source, options and version.

Must not run under `TRITON_INTERPRET`, which replaces the compiler.
"""

import argparse
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import composer_kernels
from benchmarks.launches import Launch, launches, sample
from composer_kernels import Target, target_from_capability

CAPABILITIES = {
    "sm_80": (8, 0),
    "sm_89": (8, 9),
    "sm_90": (9, 0),
    "sm_100": (10, 0),
    "sm_120": (12, 0),
}
"""The targets that tiles are saved for."""

MAX_SHARED_BYTES = {"sm_80": 163, "sm_89": 99, "sm_90": 227, "sm_100": 227, "sm_120": 99}
"""KiB that a program may ask for: CUDA C++ Programming Guide, table of compute capabilities."""

_MATRIX_INSTRUCTION = re.compile(r"\b(?:tcgen05\.mma|wgmma\.mma_async|mma\.sync)[\w.:]*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiled:
    """A kernel as one launch gets it."""

    target: str
    """As in the PTX: `sm_90a`."""
    launch: str
    kernel: str
    kind: str | None
    regime: str | None
    tiles: str | None
    """`64 x 128 x 64, 4 warps, 4 stages`: rows, columns, elements of k; `w x^T` where swapped."""
    registers: int
    """A thread's."""
    shared_bytes: int
    """A program's."""
    stack_bytes: int
    """A thread's, where spilled registers go; 0: none was spilled."""
    instructions: tuple[str, ...]
    """Matrix instructions in the PTX, each once."""


@dataclass(frozen=True, slots=True)
class Request:
    """What Triton would compile for a launch."""

    function: Any
    signature: dict[str, str]
    constants: dict[tuple[int, ...], object]
    attributes: dict[tuple[int, ...], list[object]]
    options: dict[str, int]


class _AbsentGpu:
    """Triton's driver for a GPU that is not there."""

    def __init__(self, target: Target) -> None:
        backend: Any = import_module("triton.backends.compiler")
        self._target = backend.GPUTarget("cuda", target.capability, 32)

    def get_current_target(self) -> object:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


def record(launch: Launch, target: Target) -> list[Request]:
    """The kernels that a launch asks for."""
    requests: list[Request] = []

    def note(*, fn: Any, compile: dict[str, Any], **_: object) -> bool:
        requests.append(
            Request(
                function=fn.jit_function,
                signature=compile["signature"],
                constants=compile["constants"],
                attributes=compile["configs"][0],
                options={name: compile[name] for name in ("num_warps", "num_stages")},
            )
        )
        return True  # neither compiled nor launched

    triton: Any = import_module("triton")
    driver: Any = import_module("triton.runtime.driver").driver
    triton.knobs.runtime.jit_cache_hook = note
    driver.set_active(_AbsentGpu(target))
    try:
        launch.run()
    finally:
        triton.knobs.runtime.jit_cache_hook = None
    return requests


def compile_request(request: Request, target: Target) -> Any:
    """Triton's compiled kernel, from its cache where it is there."""
    triton: Any = import_module("triton")
    compiler: Any = import_module("triton.compiler")
    source = compiler.ASTSource(
        request.function, request.signature, request.constants, request.attributes
    )
    driver: Any = import_module("triton.runtime.driver").driver
    gpu = driver.active.get_current_target()
    assert gpu.arch == target.capability
    return triton.compile(source, target=gpu, options=request.options)


def compile_launch(launch: Launch, target: Target) -> Iterator[Compiled]:
    for request in record(launch, target):
        kernel = compile_request(request, target)
        ptx: str = kernel.asm["ptx"]
        target_line = re.search(r"\.target (\w+)", ptx)
        assert target_line
        registers, stack_bytes = resources(kernel.asm["cubin"])
        yield Compiled(
            target=target_line[1],
            launch=launch.name,
            kernel=request.function.__name__,
            kind=launch.kind,
            regime=launch.regime,
            tiles=_tiles_name(launch),
            registers=registers,
            shared_bytes=kernel.metadata.shared,
            stack_bytes=stack_bytes,
            instructions=tuple(sorted(set(_MATRIX_INSTRUCTION.findall(ptx)))),
        )


def compile_all(names: Iterable[str], *, only_sample: bool = False) -> list[Compiled]:
    """All launches of these targets, in as many processes as this machine has cores."""
    check_compiler()
    context = get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        results = pool.map(partial(_compile_target, only_sample=only_sample), names)
        return list(chain.from_iterable(results))


def _compile_target(name: str, *, only_sample: bool) -> list[Compiled]:
    target = target_from_capability(*CAPABILITIES[name])
    chosen = list(sample(target) if only_sample else launches(target))
    compiled: list[Compiled] = []
    for number, launch in enumerate(chosen, 1):
        print(f"{name}: {number}/{len(chosen)} {launch.name}", file=sys.stderr, flush=True)
        compiled += compile_launch(launch, target)
    return compiled


def check_compiler() -> None:
    """Ends the program where the interpreter stands for the compiler."""
    if os.environ.get("TRITON_INTERPRET") == "1":
        sys.exit("TRITON_INTERPRET=1 replaces the compiler: unset it")


def digest() -> str:
    """Of all that decides what is compiled: the kernels' code, every launch, Triton's version.

    Takes seconds, and tells whether a table made earlier is out of date. Comments, docstrings and
    layout do not count.
    """
    check_compiler()
    triton: Any = import_module("triton")
    parts = [str(triton.__version__)]
    package = Path(composer_kernels.__path__[0])
    for path in sorted(package.glob("*_details/*.py")):
        parts += [path.name, *code_tokens(path.read_text(encoding="utf-8"))]
    for name in CAPABILITIES:
        target = target_from_capability(*CAPABILITIES[name])
        for launch in launches(target):
            for request in record(launch, target):
                parts += [
                    launch.name,
                    request.function.__name__,
                    repr(request.signature),
                    repr(request.constants),
                    repr(request.attributes),
                    repr(request.options),
                ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def code_tokens(source: str) -> list[str]:
    """The tokens of Python code without comments, docstrings and line breaks."""
    layout = (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT)
    tokens: list[str] = []
    starts_statement = True
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_docstring = starts_statement and token.type == tokenize.STRING
        if token.type not in layout and not is_docstring:
            is_block = token.type in (tokenize.INDENT, tokenize.DEDENT)
            tokens.append(tokenize.tok_name[token.type] if is_block else token.string)
        if token.type not in (tokenize.NL, tokenize.COMMENT):
            starts_statement = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    return tokens


def resources(cubin: bytes) -> tuple[int, int]:
    """Registers and bytes of stack of a thread, as `cuobjdump`, which comes with Triton, reads them."""
    triton: Any = import_module("triton")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [triton.knobs.nvidia.cuobjdump.path, "-res-usage", file.name]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    registers, stack = re.search(r"REG:(\d+)", text), re.search(r"STACK:(\d+)", text)
    assert registers and stack, text
    return int(registers[1]), int(stack[1])


def _tiles_name(launch: Launch) -> str | None:
    tiles = launch.tiles
    if tiles is None:
        return None
    sizes = f"{tiles.block_m} x {tiles.block_n} x {tiles.block_k}"
    order = ", w x^T" if tiles.swap_operands else ""
    return f"{sizes}, {tiles.num_warps} warps, {tiles.num_stages} stages{order}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ahead_of_time")
    parser.add_argument("--target", nargs="+", choices=list(CAPABILITIES), help="default: all")
    parser.add_argument("--sample", action="store_true", help="a few launches of each target")
    parsed = parser.parse_args(arguments)
    for compiled in compile_all(parsed.target or CAPABILITIES, only_sample=parsed.sample):
        print(json.dumps(asdict(compiled)))


if __name__ == "__main__":
    main()
