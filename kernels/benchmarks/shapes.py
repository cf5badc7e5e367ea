"""The experts' layers that are compiled, measured and reckoned, with the sizes of published models."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerShape:
    """One layer's routed experts."""

    name: str
    """The model."""
    D: int
    """Model dim."""
    F: int
    """Expert hidden dim."""
    E: int
    """Experts."""
    top_k: int
    """Experts that a token chooses."""

    @property
    def weights_per_expert(self) -> int:
        """Gate, up and down."""
        return 3 * self.D * self.F

    def expected_experts(self, num_tokens: int) -> float:
        """Experts that are chosen at all, on average, where each is as likely as another."""
        return self.E * (1 - (1 - self.top_k / self.E) ** num_tokens)


QWEN3_CODER = LayerShape(name="Qwen3-Coder-30B-A3B", D=2048, F=768, E=128, top_k=8)
"""`config.json` of Qwen/Qwen3-Coder-30B-A3B-Instruct."""
GLM_AIR = LayerShape(name="GLM-4.5-Air", D=4096, F=1408, E=128, top_k=8)
"""`config.json` of zai-org/GLM-4.5-Air."""
GPT_OSS_20B = LayerShape(name="gpt-oss-20b", D=2880, F=2880, E=32, top_k=4)
"""`config.json` of openai/gpt-oss-20b. 2880 is no multiple of a tile's 128 or 256."""
TINY = LayerShape(name="tiny", D=64, F=40, E=8, top_k=2)
"""For dry runs on a CPU."""

MODELS = (QWEN3_CODER, GLM_AIR)
NUM_TOKENS = (1, 16, 256, 4096)
"""Decoding alone and in a batch, a short prefill, a long one."""
