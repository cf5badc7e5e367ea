"""SwiGLU, the activation between an expert's two GEMMs.

    h[j] = g * sigmoid(alpha * g) * (u + up_offset),  g = min(gate, limit),  u = clamp(up, -limit,
    limit)

Sources: Shazeer, "GLU Variants Improve Transformer" (2020), section 2; alpha, limit and up_offset
are those of gpt-oss.
"""

from dataclasses import dataclass

from composer_kernels.errors import KernelError


@dataclass(frozen=True, kw_only=True, slots=True)
class SwiGLU:
    """The formula's constants; as they stand by default, silu(gate) * up."""

    alpha: float = 1.0
    """Factor on the gate inside the sigmoid."""
    limit: float | None = None
    """Gate is at most this and up within plus or minus this, above 0. None: not clamped."""
    up_offset: float = 0.0
    """Added to up after clamping."""

    def __post_init__(self) -> None:
        if self.limit is not None and not self.limit > 0:
            raise KernelError(f"limit is {self.limit}; a positive number or None is asked for")


SILU = SwiGLU()
"""Plain SwiGLU, as in Qwen3-MoE, GLM-4 MoE, DeepSeek-V3, Mixtral."""
GPT_OSS = SwiGLU(alpha=1.702, limit=7.0, up_offset=1.0)
"""The clamped variant of gpt-oss."""
