"""The least time that a GPU can take for a layer's two grouped GEMMs: bytes over bandwidth, or
operations over peak, whichever is more.

    bytes = used experts * 3 D F * bytes a weight + (T D + 2 T K F + T K D) * bytes an activation
    operations = 2 * T K * 3 D F

x is read once (the K reads of a token meet in the L2 cache), SwiGLU's output h written and read, y
written; y is bf16 in every format. Peaks are published ones, dense, which no kernel reaches.

Dimensions: T tokens, K chosen experts a token, F expert hidden dim, D model dim.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.shapes import LayerShape


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    """Published peaks of one card."""

    name: str
    torch_name: str
    """As `torch.cuda.get_device_name` gives it; cards of like names have other peaks."""
    target: str
    bytes_per_s: float
    bf16_per_s: float
    """Dense operations a second in bf16, f32 sums."""
    mxfp8_per_s: float | None
    """The same for `mxf8f6f4.block_scale`; None: no such instruction, and codes are decoded to bf16."""
    source: str


GPUS = (
    Gpu(
        name="A100 80GB SXM",
        torch_name="NVIDIA A100-SXM4-80GB",
        target="sm_80",
        bytes_per_s=2.039e12,
        bf16_per_s=312e12,
        mxfp8_per_s=None,
        source="NVIDIA A100 datasheet",
    ),
    Gpu(
        name="H100 SXM",
        torch_name="NVIDIA H100 80GB HBM3",
        target="sm_90",
        bytes_per_s=3.35e12,
        bf16_per_s=989e12,
        mxfp8_per_s=None,
        source="NVIDIA H100 datasheet; half of the figures with sparsity",
    ),
    Gpu(
        name="H200 SXM",
        torch_name="NVIDIA H200",
        target="sm_90",
        bytes_per_s=4.8e12,
        bf16_per_s=989e12,
        mxfp8_per_s=None,
        source="NVIDIA H200 datasheet; half of the figures with sparsity",
    ),
    Gpu(
        name="B200 (HGX)",
        torch_name="NVIDIA B200",
        target="sm_100",
        bytes_per_s=7.7e12,
        bf16_per_s=2250e12,
        mxfp8_per_s=4500e12,
        source="NVIDIA Blackwell datasheet, HGX B200; half of the figures with sparsity",
    ),
    Gpu(
        name="RTX 5090",
        torch_name="NVIDIA GeForce RTX 5090",
        target="sm_120",
        bytes_per_s=1.792e12,
        bf16_per_s=209.5e12,
        mxfp8_per_s=419e12,
        source="NVIDIA RTX Blackwell GPU Architecture, appendix A: dense, f32 accumulate, that of FP8 for MXFP8",
    ),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """Formats of a layer's operands."""

    name: str
    weight_bytes: float
    activation_bytes: float
    mxfp8_products: bool = False
    """Both operands are MXFP8, so that the GPU's block-scaled products serve."""


_MXFP8_BYTES = 1 + 1 / 32
BF16 = Format(name="bf16", weight_bytes=2, activation_bytes=2)
BF16_MXFP8 = Format(name="bf16 x MXFP8", weight_bytes=_MXFP8_BYTES, activation_bytes=2)
BF16_MXFP4 = Format(name="bf16 x MXFP4", weight_bytes=0.5 + 1 / 32, activation_bytes=2)
MXFP8 = Format(
    name="MXFP8 x MXFP8",
    weight_bytes=_MXFP8_BYTES,
    activation_bytes=_MXFP8_BYTES,
    mxfp8_products=True,
)
FORMATS = (BF16, BF16_MXFP8, BF16_MXFP4, MXFP8)


@dataclass(frozen=True, kw_only=True, slots=True)
class Floor:
    """What a layer's two GEMMs take at least."""

    num_bytes: float
    num_operations: float
    memory_s: float
    arithmetic_s: float

    @property
    def seconds(self) -> float:
        return max(self.memory_s, self.arithmetic_s)

    @property
    def binds(self) -> str:
        return "memory" if self.memory_s >= self.arithmetic_s else "arithmetic"


def layer_floor(
    shape: LayerShape, num_tokens: int, fmt: Format, gpu: Gpu, *, num_experts: float | None = None
) -> Floor:
    """Floor of both grouped GEMMs. `num_experts`: experts in use, where that is known; the expected
    number by default."""
    used = shape.expected_experts(num_tokens) if num_experts is None else num_experts
    slots = num_tokens * shape.top_k
    activations = num_tokens * shape.D + 2 * slots * shape.F
    num_bytes = (
        used * shape.weights_per_expert * fmt.weight_bytes
        + activations * fmt.activation_bytes
        + slots * shape.D * 2
    )
    num_operations = 2.0 * slots * shape.weights_per_expert
    return _floor(num_bytes, num_operations, fmt, gpu)


def gemm_floor(num_rows: int, n: int, k: int, num_experts: float, fmt: Format, gpu: Gpu) -> Floor:
    """Floor of one grouped GEMM of `num_rows` rows that writes bf16."""
    num_bytes = (
        num_experts * n * k * fmt.weight_bytes
        + num_rows * k * fmt.activation_bytes
        + num_rows * n * 2
    )
    return _floor(num_bytes, 2.0 * num_rows * n * k, fmt, gpu)


def _floor(num_bytes: float, num_operations: float, fmt: Format, gpu: Gpu) -> Floor:
    peak = gpu.mxfp8_per_s if fmt.mxfp8_products and gpu.mxfp8_per_s else gpu.bf16_per_s
    return Floor(
        num_bytes=num_bytes,
        num_operations=num_operations,
        memory_s=num_bytes / gpu.bytes_per_s,
        arithmetic_s=num_operations / peak,
    )


def bytes_table(shapes: Sequence[LayerShape], all_num_tokens: Sequence[int]) -> str:
    """Bytes and operations of a layer, the same on every GPU, as Markdown."""
    lines = [
        f"| Model | tokens | experts used | GFLOP | {' | '.join(f'{each.name}, MB' for each in FORMATS)} |",
        "|---|---|---|---|" + "---|" * len(FORMATS),
    ]
    for shape in shapes:
        for num_tokens in all_num_tokens:
            floors = [layer_floor(shape, num_tokens, fmt, GPUS[0]) for fmt in FORMATS]
            cells = " | ".join(f"{floor.num_bytes / 1e6:,.1f}" for floor in floors)
            lines.append(
                f"| {shape.name} | {num_tokens:,} | {shape.expected_experts(num_tokens):.1f} | "
                f"{floors[0].num_operations / 1e9:,.2f} | {cells} |"
            )
    return "\n".join(lines)


def floors_table(shapes: Sequence[LayerShape], all_num_tokens: Sequence[int]) -> str:
    """The floor in microseconds, what binds (m, a), and the speed over bf16, as Markdown."""
    lines = [
        f"| Model | tokens | GPU | {' | '.join(f'{each.name}, µs' for each in FORMATS)} |",
        "|---|---|---|" + "---|" * len(FORMATS),
    ]
    for shape in shapes:
        for num_tokens in all_num_tokens:
            for gpu in GPUS:
                floors = [layer_floor(shape, num_tokens, fmt, gpu) for fmt in FORMATS]
                cells = [_cell(floor, floors[0]) for floor in floors]
                lines.append(
                    f"| {shape.name} | {num_tokens:,} | {gpu.name} | {' | '.join(cells)} |"
                )
    return "\n".join(lines)


def peaks_table() -> str:
    """The peaks that floors are reckoned from, as Markdown."""
    lines = [
        "| GPU | target | memory, TB/s | bf16, TFLOP/s | MXFP8, TFLOP/s | source |",
        "|---|---|---|---|---|---|",
    ]
    for gpu in GPUS:
        mxfp8 = f"{gpu.mxfp8_per_s / 1e12:,g}" if gpu.mxfp8_per_s else "as bf16"
        lines.append(
            f"| {gpu.name} | {gpu.target} | {gpu.bytes_per_s / 1e12:g} | "
            f"{gpu.bf16_per_s / 1e12:,g} | {mxfp8} | {gpu.source} |"
        )
    return "\n".join(lines)


def _cell(floor: Floor, bf16: Floor) -> str:
    time = f"{floor.seconds * 1e6:,.1f} {floor.binds[0]}"
    return time if floor is bf16 else f"{time}, {bf16.seconds / floor.seconds:.2f}x"
