"""Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): the cache keeps one vector a
token, the compressed key and value and the key's rotated dims.

The up-projections of keys and values are absorbed into the query and the output, so that all heads
attend to the cached vectors themselves; they serve as values too, their rotated dims dropped.

Dimensions: T tokens of a step, D model dim, N heads, C latent dim, R rotated dims, P dims without
position, V value dim.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from composer_inference.decoder.attention.rule import AttentionRule
from composer_inference.decoder.config import LatentAttentionConfig
from composer_inference.decoder.layers.linear import Linear
from composer_inference.decoder.layers.norm import RMSNorm
from composer_inference.decoder.layers.step import Step
from composer_inference.kv.pool import CacheShape

_NORM_EPS = 1e-6
"""Of the latents' norms, in all published models, whatever `rms_norm_eps` says."""


class LatentUp(nn.Module):
    """Of keys and values, each head's in turn; used by its parts."""

    def __init__(self, latent_dim: int, up_dim: int, *, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(up_dim, latent_dim, dtype=dtype))


class LatentAttention(nn.Module):
    def __init__(
        self, layer: int, model_dim: int, config: LatentAttentionConfig, *, dtype: torch.dtype
    ) -> None:
        super().__init__()
        self.config = config
        self._layer = layer
        query_dim = config.num_heads * (config.nope_dim + config.rope_dim)
        if config.query_rank is None:
            self.query = Linear(model_dim, query_dim, dtype=dtype)
        else:
            rank = config.query_rank
            self.query_down = Linear(model_dim, rank, bias=config.bias, dtype=dtype)
            self.query_norm = RMSNorm(rank, _NORM_EPS, dtype=dtype)
            self.query_up = Linear(rank, query_dim, dtype=dtype)
        self.latent_down = Linear(
            model_dim, config.latent_dim + config.rope_dim, bias=config.bias, dtype=dtype
        )
        self.latent_norm = RMSNorm(config.latent_dim, _NORM_EPS, dtype=dtype)
        up_dim = config.num_heads * (config.nope_dim + config.value_dim)
        self.latent_up = LatentUp(config.latent_dim, up_dim, dtype=dtype)
        self.output = Linear(
            config.num_heads * config.value_dim, model_dim, bias=config.bias, dtype=dtype
        )

    @property
    def cache_shape(self) -> CacheShape:
        key_dim = self.config.latent_dim + self.config.rope_dim
        return CacheShape(num_kv_heads=1, key_dim=key_dim, value_dim=0)

    def forward(self, x_TD: Float[Tensor, "T D"], step: Step) -> Float[Tensor, "T D"]:
        config = self.config
        up_NXC = self.latent_up.weight.view(config.num_heads, -1, config.latent_dim)
        up_NPC, up_NVC = torch.split(up_NXC, [config.nope_dim, config.value_dim], dim=1)
        q_TNX = self._queries(x_TD).view(len(x_TD), config.num_heads, -1)
        q_TNP, q_TNR = torch.split(q_TNX, [config.nope_dim, config.rope_dim], dim=-1)
        q_TNC = (q_TNP.transpose(0, 1) @ up_NPC).transpose(0, 1)
        latent_TC, k_TR = torch.split(
            self.latent_down(x_TD), [config.latent_dim, config.rope_dim], dim=-1
        )
        out_TNK = step.attention.attend(
            self._layer,
            torch.cat((q_TNC, step.rotation.apply(q_TNR)), dim=-1),
            torch.cat(
                (self.latent_norm(latent_TC)[:, None], step.rotation.apply(k_TR[:, None])), dim=-1
            ),
            None,
            AttentionRule(config.scale, value_dim=config.latent_dim),
        )
        out_TNC = out_TNK[..., : config.latent_dim]
        out_TNV = (out_TNC.transpose(0, 1) @ up_NVC.mT).transpose(0, 1)
        return self.output(out_TNV.flatten(1))

    def _queries(self, x_TD: Tensor) -> Tensor:
        if self.config.query_rank is None:
            return self.query(x_TD)
        return self.query_up(self.query_norm(self.query_down(x_TD)))
