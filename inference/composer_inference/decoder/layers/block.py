"""One layer of the decoder: attention and feed-forward, each after a norm, each added.

Dimensions: T tokens of a step, D model dim.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from composer_inference.decoder.config import AttentionConfig, DecoderConfig, MLPConfig
from composer_inference.decoder.layers.attention import Attention
from composer_inference.decoder.layers.latent_attention import LatentAttention
from composer_inference.decoder.layers.mlp import MLP
from composer_inference.decoder.layers.moe import MoE, StoredFormat
from composer_inference.decoder.layers.norm import RMSNorm
from composer_inference.decoder.layers.step import Step


class Block(nn.Module):
    def __init__(
        self, layer: int, config: DecoderConfig, *, dtype: torch.dtype, experts: StoredFormat
    ) -> None:
        super().__init__()
        dim, eps = config.model_dim, config.norm_eps
        attention, feed_forward = config.layers[layer].attention, config.layers[layer].feed_forward
        self.attention_norm = RMSNorm(dim, eps, dtype=dtype)
        self.attention = (
            Attention(layer, dim, eps, attention, dtype=dtype)
            if isinstance(attention, AttentionConfig)
            else LatentAttention(layer, dim, attention, dtype=dtype)
        )
        self.feed_forward_norm = RMSNorm(dim, eps, dtype=dtype)
        self.feed_forward = (
            MLP(dim, feed_forward, dtype=dtype)
            if isinstance(feed_forward, MLPConfig)
            else MoE(dim, feed_forward, stored=experts, dtype=dtype)
        )

    def forward(self, x_TD: Float[Tensor, "T D"], step: Step) -> Float[Tensor, "T D"]:
        x_TD = x_TD + self.attention(self.attention_norm(x_TD), step)
        return x_TD + self.feed_forward(self.feed_forward_norm(x_TD), step)
