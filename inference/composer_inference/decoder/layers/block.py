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
from composer_inference.decoder.parallel.parallel import Parallel
from composer_inference.decoder.parallel.split import split_layer


class Block(nn.Module):
    def __init__(
        self,
        layer: int,
        config: DecoderConfig,
        *,
        dtype: torch.dtype,
        experts: StoredFormat,
        parallel: Parallel,
    ) -> None:
        super().__init__()
        dim, eps = config.model_dim, config.norm_eps
        in_blocks = experts in ("mxfp8", "mxfp4")
        local = split_layer(config.layers[layer], parallel, in_blocks=in_blocks)
        attention, feed_forward = local.attention, local.feed_forward
        self._parallel = parallel
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
            else MoE(dim, feed_forward, stored=experts, dtype=dtype, parallel=parallel)
        )

    def forward(self, x_TD: Float[Tensor, "T D"], step: Step) -> Float[Tensor, "T D"]:
        attended_TD = self.attention(self.attention_norm(x_TD), step)
        x_TD = x_TD + self._parallel.sum_split(attended_TD)
        y_TD = self.feed_forward(self.feed_forward_norm(x_TD), step)
        is_mixture = isinstance(self.feed_forward, MoE)
        sum_ranks = self._parallel.sum_experts if is_mixture else self._parallel.sum_split
        return x_TD + sum_ranks(y_TD)
