"""A layer's shape as one rank computes it."""

from dataclasses import replace

from composer_inference.decoder.config import (
    AttentionConfig,
    LatentAttentionConfig,
    LayerConfig,
    MLPConfig,
    MoEConfig,
)
from composer_inference.decoder.parallel.parallel import Parallel
from composer_inference.decoder.parallel.shard import ParallelError
from composer_kernels import BLOCK


def split_layer(config: LayerConfig, parallel: Parallel, *, in_blocks: bool) -> LayerConfig:
    """`in_blocks`: experts are kept in a format with a scale for each `BLOCK` values, which no two
    ranks share. A mixture still has the number of all its experts.

    Raises: ParallelError for what cannot be shared out evenly.
    """
    num_ranks = parallel.tensor.count
    attention, feed_forward = config.attention, config.feed_forward
    return LayerConfig(
        attention=(
            _attention(attention, num_ranks)
            if isinstance(attention, AttentionConfig)
            else _latent_attention(attention, num_ranks)
        ),
        feed_forward=(
            _mlp(feed_forward, num_ranks)
            if isinstance(feed_forward, MLPConfig)
            else _moe(feed_forward, parallel, in_blocks=in_blocks)
        ),
    )


def _attention(config: AttentionConfig, num_ranks: int) -> AttentionConfig:
    if num_ranks > 1 and config.qk_norm == "all":
        raise ParallelError(
            "this model norms the queries of all heads as one, which --tp cannot share out; use --ep"
        )
    num_heads = _share(config.num_heads, num_ranks, "query heads")
    num_kv_heads = config.num_kv_heads
    # Fewer than ranks: several ranks have the same one.
    if num_kv_heads > num_ranks or num_ranks % num_kv_heads:
        num_kv_heads = _share(num_kv_heads, num_ranks, "key-value heads")
    else:
        num_kv_heads = 1
    return replace(config, num_heads=num_heads, num_kv_heads=num_kv_heads)


def _latent_attention(config: LatentAttentionConfig, num_ranks: int) -> LatentAttentionConfig:
    return replace(config, num_heads=_share(config.num_heads, num_ranks, "heads"))


def _mlp(config: MLPConfig, num_ranks: int) -> MLPConfig:
    return replace(config, hidden_dim=_share(config.hidden_dim, num_ranks, "hidden dims"))


def _moe(config: MoEConfig, parallel: Parallel, *, in_blocks: bool) -> MoEConfig:
    _share(config.num_experts, parallel.experts.count, "experts", option="--ep")
    count = parallel.expert_dims.count
    expert_dim = _share(config.expert_dim, count, "hidden dims of an expert")
    if in_blocks and count > 1 and expert_dim % BLOCK:
        raise ParallelError(
            f"{count} ranks would have {expert_dim} hidden dims of an expert each, which cuts the"
            f" blocks of {BLOCK} that share a scale; choose a smaller --tp, or a larger --ep"
        )
    shared_dim = config.shared_dim
    if shared_dim is not None:
        shared_dim = _share(shared_dim, parallel.tensor.count, "hidden dims of the shared expert")
        if parallel.tensor.count == 1 and parallel.rank > 0:
            shared_dim = None  # The first rank's alone: the ranks' outputs are summed.
    return replace(config, expert_dim=expert_dim, shared_dim=shared_dim)


def _share(number: int, num_ranks: int, what: str, *, option: str = "--tp") -> int:
    if number % num_ranks:
        raise ParallelError(
            f"{number} {what} cannot be shared out evenly over {num_ranks} ranks; {option} must divide"
            " them"
        )
    return number // num_ranks
