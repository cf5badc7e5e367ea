"""Over how many ranks a model is shared out, and how rows are. Knows no torch."""

from dataclasses import dataclass

from composer_inference.backends.base import BackendError


class ParallelError(BackendError):
    """A model cannot be shared out so; the message has the numbers."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `count` equal parts."""

    index: int = 0
    count: int = 1

    def rows(self, whole: int, part: int) -> slice:
        """Which of `whole` rows, of which a shard has `part`. Several shards have the same ones where
        there are fewer parts than shards, such as key-value heads."""
        first = self.index * (whole // part) // self.count * part
        return slice(first, first + part)


@dataclass(frozen=True, kw_only=True, slots=True)
class ParallelConfig:
    tp: int = 1
    """Tensor parallelism: ranks that share each layer's heads and hidden dims."""
    ep: int = 1
    """Expert parallelism: groups of ranks that share the experts out, a divisor of `tp`; alone, all
    else is computed by every rank. An expert is shared by `tp` / `ep` ranks."""

    def __post_init__(self) -> None:
        """Raises: ParallelError."""
        if min(self.tp, self.ep) < 1 or (self.tp > 1 and self.tp % self.ep):
            raise ParallelError(
                f"--tp {self.tp} and --ep {self.ep} do not go together: --ep is a divisor of --tp, or"
                " --tp is 1"
            )

    @property
    def num_ranks(self) -> int:
        return max(self.tp, self.ep)
