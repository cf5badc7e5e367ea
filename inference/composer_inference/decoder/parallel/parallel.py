"""Who computes what of a model that several processes ("ranks") share.

All ranks compute the same tokens. With `tp`, each has some of the heads and of the hidden dims of every
layer; with `ep`, some of the experts. The outputs of attention and of the feed-forward are sums over
the ranks, one all-reduce each; what is small is held by all alike: norms, routers, the latents of
multi-head latent attention, and also embeddings and the output's matrix. Since every rank has every
token, experts need no tokens sent to them.
"""

from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from composer_inference.decoder.parallel.shard import ParallelConfig, Shard


class Group(Protocol):
    """The ranks' connection."""

    def sum(self, x: Tensor) -> Tensor:
        """Over all ranks, the same to the bit on each; x is overwritten. Without a gradient."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Parallel:
    """One rank's part. Without arguments: all of it, by one process."""

    config: ParallelConfig = field(default_factory=ParallelConfig)
    rank: int = 0
    group: Group | None = None
    """None: of one rank, or of a decoder that computes nothing."""

    @property
    def tensor(self) -> Shard:
        """Of heads and hidden dims."""
        return Shard(self.rank, self.config.tp) if self.config.tp > 1 else Shard()

    @property
    def experts(self) -> Shard:
        """Of a layer's experts."""
        return Shard(self.rank * self.config.ep // self.config.num_ranks, self.config.ep)

    @property
    def expert_dims(self) -> Shard:
        """Of each of these experts' hidden dims."""
        count = self.config.num_ranks // self.config.ep
        return Shard(self.rank % count, count)

    def sum_split(self, x: Tensor) -> Tensor:
        """Of heads or hidden dims that are shared out. x may be overwritten."""
        return self._sum(x) if self.config.tp > 1 else x

    def sum_experts(self, x: Tensor) -> Tensor:
        """Of a mixture's experts. x may be overwritten."""
        return self._sum(x) if self.config.num_ranks > 1 else x

    def _sum(self, x: Tensor) -> Tensor:
        assert self.group is not None
        return self.group.sum(x)
