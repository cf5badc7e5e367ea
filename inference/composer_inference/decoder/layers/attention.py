"""Multi-head attention with grouped key-value heads.

Dimensions: T tokens of a step, D model dim, N query heads, H key-value heads, K head dim.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from composer_inference.decoder.attention.rule import AttentionRule
from composer_inference.decoder.config import AttentionConfig
from composer_inference.decoder.layers.linear import Linear
from composer_inference.decoder.layers.norm import RMSNorm
from composer_inference.decoder.layers.step import Step
from composer_inference.kv.pool import CacheShape


class Attention(nn.Module):
    """Queries, keys and values come out of one product, in this order."""

    def __init__(
        self,
        layer: int,
        model_dim: int,
        norm_eps: float,
        config: AttentionConfig,
        *,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.config = config
        self._layer = layer
        self._num_heads = [config.num_heads, config.num_kv_heads]
        self._rotated_and_not = [sum(self._num_heads), config.num_kv_heads]
        query_dim = config.num_heads * config.head_dim
        kv_dim = config.num_kv_heads * config.head_dim
        self._dims = [query_dim, kv_dim, kv_dim]
        self.qkv = Linear(model_dim, *self._dims, bias=config.qkv_bias, dtype=dtype)
        self.output = Linear(query_dim, model_dim, bias=config.output_bias, dtype=dtype)
        if config.qk_norm is not None:
            whole = config.qk_norm == "all"
            self.q_norm = RMSNorm(query_dim if whole else config.head_dim, norm_eps, dtype=dtype)
            self.k_norm = RMSNorm(kv_dim if whole else config.head_dim, norm_eps, dtype=dtype)
        self.sinks = (
            nn.Parameter(torch.empty(config.num_heads, dtype=dtype)) if config.sinks else None
        )

    @property
    def cache_shape(self) -> CacheShape:
        config = self.config
        return CacheShape(
            num_kv_heads=config.num_kv_heads, key_dim=config.head_dim, value_dim=config.head_dim
        )

    def forward(self, x_TD: Float[Tensor, "T D"], step: Step) -> Float[Tensor, "T D"]:
        config = self.config
        qkv_TXK = self._project(x_TD).view(len(x_TD), -1, config.head_dim)
        qk_TXK, v_THK = torch.split(qkv_TXK, self._rotated_and_not, dim=1)
        if config.qk_norm == "head":
            q_TNK, k_THK = torch.split(qk_TXK, self._num_heads, dim=1)
            qk_TXK = torch.cat((self.q_norm(q_TNK), self.k_norm(k_THK)), dim=1)
        q_TNK, k_THK = torch.split(step.rotation.apply(qk_TXK), self._num_heads, dim=1)
        rule = AttentionRule(config.head_dim**-0.5, config.sliding_window, self.sinks)
        out_TNK = step.attention.attend(self._layer, q_TNK, k_THK, v_THK, rule)
        return self.output(out_TNK.flatten(1))

    def _project(self, x_TD: Tensor) -> Tensor:
        qkv = self.qkv(x_TD)
        config = self.config
        if config.qk_norm == "all":
            q, k, v = torch.split(qkv, self._dims, dim=-1)
            qkv = torch.cat((self.q_norm(q), self.k_norm(k), v), dim=-1)
        if config.clip_qkv is not None:
            qkv = qkv.clamp(-config.clip_qkv, config.clip_qkv)
        return qkv
