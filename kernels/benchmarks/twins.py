"""The twins on the CPU beside naive torch: `python -m bench kernels`, a part of `make bench`.

Naive is what a first version does: dequantise all experts' weights at each call, then go through
the experts one by one and pick their tokens with a mask.
"""

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.operands import Draw, Operand, dequantize, in_format
from benchmarks.shapes import LayerShape
from composer_kernels import ExpertWeights, MXFP8Tensor, expert_layer, mxfp8_quantize

SHAPE = LayerShape(name="small", D=512, F=192, E=32, top_k=4)
"""A quarter of Qwen3-Coder-30B-A3B's sizes: what a CPU's tests meet."""
NUM_TOKENS = (1, 16, 256)
_ROUNDS = 7
SEED = 0


async def run() -> None:
    # A test's share of a machine; and on a busy one several threads wait for each other.
    torch.set_num_threads(1)
    compare(SHAPE, NUM_TOKENS, num_rounds=_ROUNDS)


def compare(shape: LayerShape, all_num_tokens: tuple[int, ...], *, num_rounds: int) -> None:
    """Print the medians of both, taken in turn, and their ratio."""
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, seed {SEED}, "
        f"{num_rounds} rounds in turn after one of warm-up; {shape.E} experts, top {shape.top_k}, "
        f"{shape.D} x {shape.F}"
    )
    print(f"{'':36}{'naive, ms':>12}{'twin, ms':>12}{'ratio':>8}")
    draw = Draw(SEED, "cpu")
    for fmt in ("bf16", "mxfp8", "mxfp4"):
        gate_up, down = (
            in_format(draw.bf16(*size), fmt)
            for size in ((shape.E, 2 * shape.F, shape.D), (shape.E, shape.D, shape.F))
        )
        weights = ExpertWeights(gate_up=gate_up, down=down)
        for num_tokens in all_num_tokens:
            x = draw.normal(num_tokens, shape.D).bfloat16()
            ids, scores = draw.choices(num_tokens, shape.E, shape.top_k)
            naive, twin = medians_ms(
                lambda: naive_layer(x, ids, scores, gate_up, down),  # noqa: B023
                lambda: expert_layer(x, ids, scores, weights),  # noqa: B023
                num_rounds,
            )
            print(
                f"layer, {fmt}, {num_tokens:4} tokens{'':14}{naive:12.2f}{twin:12.2f}{twin / naive:8.2f}"
            )
    x = draw.normal(4096, shape.D)
    naive, twin = medians_ms(lambda: naive_quantize(x), lambda: mxfp8_quantize(x), num_rounds)
    print(f"{'quantise 4096 rows, f32':36}{naive:12.2f}{twin:12.2f}{twin / naive:8.2f}")


def medians_ms(
    first: Callable[[], object], second: Callable[[], object], num_rounds: int
) -> tuple[float, float]:
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(num_rounds + 1):
        for run, taken in zip((first, second), times, strict=True):
            start = time.perf_counter()
            run()
            taken.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times[0][1:]), statistics.median(times[1][1:])


def naive_layer(
    x_TD: Tensor, ids_TK: Tensor, scores_TK: Tensor, gate_up: Operand, down: Operand
) -> Tensor:
    """Everything in f32, rounded to x's dtype at the end."""
    gate_up_EGD, down_EDF = dequantize(gate_up), dequantize(down)
    y_TD = torch.zeros(x_TD.shape)
    for expert in range(len(gate_up_EGD)):
        weight_T = (scores_TK * (ids_TK == expert)).sum(-1)
        chosen = (ids_TK == expert).any(-1)
        hidden = x_TD[chosen].float() @ gate_up_EGD[expert].mT
        hidden = functional.silu(hidden[:, 0::2]) * hidden[:, 1::2]
        y_TD[chosen] += weight_T[chosen, None] * (hidden @ down_EDF[expert].mT)
    return y_TD.to(x_TD.dtype)


def naive_quantize(x: Tensor) -> MXFP8Tensor:
    """By logarithm and division, under the floor rule."""
    blocks = x.reshape(*x.shape[:-1], -1, 32)
    exponent = torch.floor(torch.log2(blocks.abs().amax(-1, keepdim=True))) - 8
    codes = (blocks / torch.exp2(exponent)).clamp(-448, 448).to(torch.float8_e4m3fn)
    return MXFP8Tensor(codes.reshape(x.shape), (exponent[..., 0] + 127).to(torch.uint8))
