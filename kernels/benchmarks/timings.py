"""Times of the quantiser, the grouped GEMM and the layer, beside what else torch offers and the floor.

Each section yields its measurements one by one, and is left early when its deadline has passed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.clock import Clock, Deadline
from benchmarks.operands import Draw, Operand
from benchmarks.roofline import (
    BF16,
    BF16_MXFP4,
    BF16_MXFP8,
    GPUS,
    MXFP8,
    Format,
    Gpu,
    gemm_floor,
    layer_floor,
)
from benchmarks.shapes import LayerShape
from composer_kernels import (
    BF16_RECIPE,
    MXFP8_RECIPE,
    Dispatch,
    ExpertWeights,
    Kind,
    MXFP4Tensor,
    MXFP8Tensor,
    choose_tiles,
    expert_layer,
    expert_layer_with_grad,
    grouped_gemm,
    mean_rows_per_expert,
    mxfp8_quantize,
    reference,
    target_of,
)
from composer_kernels.autotune import autotune

_FORMATS = {
    Kind.BF16_BF16: BF16,
    Kind.BF16_MXFP8: BF16_MXFP8,
    Kind.BF16_MXFP4: BF16_MXFP4,
    Kind.MXFP8_MXFP8: MXFP8,
}
BASELINE = "ours, bf16"


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    section: str
    shape: str
    num_tokens: int
    what: str
    median_us: float
    floor_us: float | None = None
    """What the card's peaks allow; None where nothing was reckoned."""
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """What every section is given."""

    draw: Draw
    clock: Clock
    gpu: Gpu
    """Published peaks, or for other cards what was measured."""
    models: tuple[LayerShape, ...]
    all_num_tokens: tuple[int, ...]
    copy_bytes: int
    """Size of the buffer whose copy measures the bandwidth."""

    @property
    def device(self) -> str:
        return self.draw.device


def peaks_of(name: str, draw: Draw, clock: Clock, *, size: int, copy_bytes: int) -> Gpu:
    """Published peaks of a card by its name; measured ones of a card that is not in the list."""
    for gpu in GPUS:
        if gpu.torch_name == name:
            return gpu
    a = draw.bf16(size, size)
    operations = 2 * size**3 / clock.median_us(lambda: a @ a) * 1e6
    bandwidth = copy_bandwidth(clock, draw.device, copy_bytes)
    target = target_of(a)
    return Gpu(
        name=name,
        torch_name=name,
        target=target.name,
        bytes_per_s=bandwidth,
        bf16_per_s=operations,
        mxfp8_per_s=2 * operations if target.has_dot_scaled else None,
        source="measured: a copy, and a bf16 product; MXFP8 taken as twice that",
    )


def copy_bandwidth(clock: Clock, device: str, num_bytes: int) -> float:
    """Bytes read and written a second by a copy."""
    source = torch.zeros(num_bytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * num_bytes / clock.median_us(lambda: target.copy_(source)) * 1e6


def quantiser(setting: Setting, deadline: Deadline) -> Iterator[Measurement]:
    """In TB/s, beside a copy's."""
    bandwidth = copy_bandwidth(setting.clock, setting.device, setting.copy_bytes)
    yield Measurement(
        section="quantiser",
        shape=f"{setting.copy_bytes / 1e6:,.0f} MB",
        num_tokens=0,
        what="copy",
        median_us=2 * setting.copy_bytes / bandwidth * 1e6,
        note=f"{bandwidth / 1e12:.3f} TB/s",
    )
    for shape in setting.models:
        for num_tokens in setting.all_num_tokens:
            for columns in (False, True):
                if deadline.has_passed:
                    return
                yield _quantise(setting, shape, num_tokens, columns, bandwidth)


def _quantise(
    setting: Setting, shape: LayerShape, num_tokens: int, columns: bool, bandwidth: float
) -> Measurement:
    x = setting.draw.bf16(num_tokens, shape.D)

    def run() -> object:
        return mxfp8_quantize(x, columns=True) if columns else mxfp8_quantize(x)

    median_us = setting.clock.median_us(run)
    num_bytes = x.numel() * (2 + (1 + 1 / 32) * (1 + columns))
    rate = num_bytes / median_us * 1e6
    return Measurement(
        section="quantiser",
        shape=shape.name,
        num_tokens=num_tokens,
        what="rows and columns" if columns else "rows",
        median_us=median_us,
        floor_us=num_bytes / bandwidth * 1e6,
        note=f"{rate / 1e12:.3f} TB/s, {rate / bandwidth:.0%} of a copy's",
    )


def grouped_gemms(setting: Setting, deadline: Deadline) -> Iterator[Measurement]:
    """Gate and up without SwiGLU, from rows that are permuted already: what each peer can do too."""
    for shape in setting.models:
        weights = setting.draw.bf16(shape.E, 2 * shape.F, shape.D)
        for kind in (Kind.BF16_BF16, Kind.BF16_MXFP8, Kind.BF16_MXFP4, Kind.MXFP8_MXFP8):
            if deadline.has_passed:
                return
            w = _quantised(weights, kind)
            for num_tokens in setting.all_num_tokens:
                if deadline.has_passed:
                    return
                yield _our_gemm(setting, shape, kind, w, num_tokens)
                if kind is Kind.BF16_BF16:
                    yield from _other_gemms(setting, shape, weights, num_tokens)
            del w


def _quantised(weights: Tensor, kind: Kind) -> Operand:
    """MXFP4 expert by expert: the twin wants several times an operand's f32 of memory."""
    if kind is Kind.BF16_BF16:
        return weights
    if kind is not Kind.BF16_MXFP4:
        return mxfp8_quantize(weights)
    experts = [reference.mxfp4_quantize(expert) for expert in weights]
    return MXFP4Tensor(
        torch.stack([expert.codes for expert in experts]),
        torch.stack([expert.scales for expert in experts]),
    )


def _our_gemm(
    setting: Setting, shape: LayerShape, kind: Kind, w: Operand, num_tokens: int
) -> Measurement:
    N, K = 2 * shape.F, shape.D
    plan = _plan(setting, shape, kind, num_tokens, N, K)
    x: Tensor | MXFP8Tensor = setting.draw.normal(plan.num_rows, K).bfloat16()
    if kind is Kind.MXFP8_MXFP8:
        x = mxfp8_quantize(x)
    return _gemm_measurement(
        setting,
        shape,
        num_tokens,
        plan,
        f"ours, {_FORMATS[kind].name}",
        _FORMATS[kind],
        lambda: grouped_gemm(x, w, plan),
    )


def _other_gemms(
    setting: Setting, shape: LayerShape, w: Tensor, num_tokens: int
) -> Iterator[Measurement]:
    """Rows without padding, as these take them."""
    plan = _plan(setting, shape, Kind.BF16_BF16, num_tokens, 2 * shape.F, shape.D)
    x = setting.draw.normal(num_tokens * shape.top_k, shape.D).bfloat16()
    ends = plan.num_tokens_per_expert.cumsum(0).int()
    sizes = [int(count) for count in plan.num_tokens_per_expert]

    def loop() -> object:
        parts = zip(torch.split(x, sizes), w, strict=True)
        return [rows @ expert.mT for rows, expert in parts if len(rows)]

    peers: dict[str, Callable[[], object]] = {
        "torch grouped_mm, bf16": lambda: _grouped_mm(x, w.mT, ends),
        "loop over experts, bf16": loop,
    }
    for name, run in peers.items():
        try:
            yield _gemm_measurement(setting, shape, num_tokens, plan, name, BF16, run)
        except (RuntimeError, NotImplementedError) as error:
            reason = str(error).splitlines()[0][:80]
            yield Measurement(
                section="grouped GEMM",
                shape=shape.name,
                num_tokens=num_tokens,
                what=name,
                median_us=float("nan"),
                note=f"does not run here: {reason}",
            )


def _gemm_measurement(
    setting: Setting,
    shape: LayerShape,
    num_tokens: int,
    plan: Dispatch,
    what: str,
    fmt: Format,
    run: Callable[[], object],
) -> Measurement:
    used = int((plan.num_tokens_per_expert > 0).sum())
    slots = num_tokens * shape.top_k
    floor = gemm_floor(slots, 2 * shape.F, shape.D, used, fmt, setting.gpu)
    return Measurement(
        section="grouped GEMM",
        shape=shape.name,
        num_tokens=num_tokens,
        what=what,
        median_us=setting.clock.median_us(run),
        floor_us=floor.seconds * 1e6,
        note=f"{used} experts, bound by {floor.binds}",
    )


def _plan(
    setting: Setting, shape: LayerShape, kind: Kind, num_tokens: int, n: int, k: int
) -> Dispatch:
    target = target_of(torch.empty(0, device=setting.device))
    block_m = 16
    if target.capability:
        rows = mean_rows_per_expert(num_tokens, shape.top_k, shape.E)
        block_m = choose_tiles(target, kind, rows, n, k).block_m
    return setting.draw.plan(num_tokens, shape.E, shape.top_k, block_m)


def _grouped_mm(x: Tensor, w: Tensor, ends: Tensor) -> Tensor:
    ops: Any = functional
    if hasattr(ops, "grouped_mm"):
        return ops.grouped_mm(x, w, offs=ends)
    private: Any = torch
    return private._grouped_mm(x, w, offs=ends)


def layers(setting: Setting, deadline: Deadline) -> Iterator[Measurement]:
    """Forward: dispatch, both GEMMs, SwiGLU, combine; and forward with backward."""
    for shape in setting.models:
        plain = ExpertWeights(
            gate_up=setting.draw.bf16(shape.E, 2 * shape.F, shape.D),
            down=setting.draw.bf16(shape.E, shape.D, shape.F),
        )
        for num_tokens in setting.all_num_tokens:
            if deadline.has_passed:
                return
            yield from _forward(setting, shape, plain, num_tokens)
        if deadline.has_passed:
            return
        yield from _backward(setting, shape, plain, max(setting.all_num_tokens))


def _forward(
    setting: Setting, shape: LayerShape, plain: ExpertWeights, num_tokens: int
) -> Iterator[Measurement]:
    x = setting.draw.normal(num_tokens, shape.D).bfloat16()
    ids, scores = setting.draw.choices(num_tokens, shape.E, shape.top_k)
    gate_up, down = plain.gate_up, plain.down
    assert isinstance(gate_up, Tensor)
    assert isinstance(down, Tensor)
    mxfp8 = ExpertWeights(gate_up=mxfp8_quantize(gate_up), down=mxfp8_quantize(down))
    runs: dict[str, tuple[Format, Callable[[], object]]] = {
        BASELINE: (BF16, lambda: expert_layer(x, ids, scores, plain)),
        "ours, bf16 x MXFP8": (BF16_MXFP8, lambda: expert_layer(x, ids, scores, mxfp8)),
        "ours, MXFP8 x MXFP8": (
            MXFP8,
            lambda: expert_layer(x, ids, scores, mxfp8, quantize_activations=True),
        ),
        "torch grouped_mm, bf16": (BF16, lambda: _torch_layer(x, ids, scores, gate_up, down)),
    }
    used = int((torch.bincount(ids.flatten()) > 0).sum())
    for what, (fmt, run) in runs.items():
        floor = layer_floor(shape, num_tokens, fmt, setting.gpu, num_experts=used)
        yield Measurement(
            section="layer, forward",
            shape=shape.name,
            num_tokens=num_tokens,
            what=what,
            median_us=setting.clock.median_us(run),
            floor_us=floor.seconds * 1e6,
            note=f"{used} experts, bound by {floor.binds}",
        )


def _torch_layer(x: Tensor, ids: Tensor, scores: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """The layer of torch's own operations, without a wait for the device."""
    num_experts, top_k = len(gate_up), ids.shape[1]
    order = ids.flatten().argsort(stable=True)
    sizes = torch.zeros(num_experts, dtype=torch.int32, device=x.device)
    sizes.scatter_add_(0, ids.flatten().long(), torch.ones_like(ids.flatten()))
    ends = sizes.cumsum(0).int()
    rows = x[order // top_k]
    gate_and_up = _grouped_mm(rows, gate_up.mT, ends)
    hidden = functional.silu(gate_and_up[:, 0::2]) * gate_and_up[:, 1::2]
    y = _grouped_mm(hidden, down.mT, ends) * scores.flatten()[order, None].to(x.dtype)
    return torch.zeros_like(x).index_add_(0, order // top_k, y)


def _backward(
    setting: Setting, shape: LayerShape, plain: ExpertWeights, num_tokens: int
) -> Iterator[Measurement]:
    """Three products where the forward pass has one."""
    x = setting.draw.normal(num_tokens, shape.D).bfloat16().requires_grad_()
    ids, scores = setting.draw.choices(num_tokens, shape.E, shape.top_k)
    grad = setting.draw.normal(num_tokens, shape.D).bfloat16()
    gate_up, down = plain.gate_up, plain.down
    assert isinstance(gate_up, Tensor)
    assert isinstance(down, Tensor)
    leaves = [x, scores.requires_grad_(), gate_up.requires_grad_(), down.requires_grad_()]

    def step(layer: Callable[[], Tensor]) -> Callable[[], object]:
        return lambda: torch.autograd.grad(layer(), leaves, grad)

    runs: dict[str, Callable[[], Tensor]] = {
        BASELINE: lambda: expert_layer_with_grad(x, ids, scores, plain, recipe=BF16_RECIPE),
        "ours, MXFP8 x MXFP8": lambda: expert_layer_with_grad(
            x, ids, scores, plain, recipe=MXFP8_RECIPE
        ),
        "torch grouped_mm, bf16": lambda: _torch_layer(x, ids, scores, gate_up, down),
    }
    for what, layer in runs.items():
        yield Measurement(
            section="layer, forward and backward",
            shape=shape.name,
            num_tokens=num_tokens,
            what=what,
            median_us=setting.clock.median_us(step(layer), graph=False),
            note="launched from Python",
        )
    for leaf in leaves:
        leaf.requires_grad_(False)


def tune(setting: Setting, path: Path, deadline: Deadline) -> Iterator[str]:
    """Measure tiles for each model's two GEMMs, kind and load, and save the fastest; a line for each."""
    for shape in setting.models:
        for num_tokens in setting.all_num_tokens:
            for n, k in ((2 * shape.F, shape.D), (shape.D, shape.F)):
                for kind in Kind:
                    if deadline.has_passed:
                        yield "left out: the time is over"
                        return
                    best = autotune(
                        path,
                        kind=kind,
                        num_tokens=num_tokens,
                        top_k=shape.top_k,
                        num_experts=shape.E,
                        n=n,
                        k=k,
                        device=setting.device,
                        time_ms=lambda run: setting.clock.median_us(run) / 1e3,
                    )
                    yield f"{shape.name}, {num_tokens} tokens, {n} x {k}, {kind}: {best}"
