"""What routing takes and gives: `RouterConfig` says how experts are chosen, `Dispatch` where their rows lie.

Dimensions: T tokens, E experts, K chosen experts a token, P rows of the permuted buffer.
"""

from dataclasses import dataclass
from enum import StrEnum

from jaxtyping import Float32, Int32
from torch import Tensor

from composer_kernels.errors import KernelError, check_member


class Scoring(StrEnum):
    """How a router's logits become the weights of the chosen experts."""

    SOFTMAX = "softmax"
    """Softmax over all experts, then the choice (Mixtral, Qwen3-MoE, OLMoE, DeepSeek-V2)."""
    SOFTMAX_OF_CHOSEN = "softmax_of_chosen"
    """The choice by logit, then softmax over the chosen alone (gpt-oss)."""
    SIGMOID = "sigmoid"
    """Each expert's sigmoid by itself (DeepSeek-V3, GLM-4 MoE)."""


class GroupScore(StrEnum):
    """How a group of experts is ranked in group-limited routing."""

    MAX = "max"
    """The group's best expert (DeepSeek-V2, section 2.2.2)."""
    TOP2_SUM = "top2_sum"
    """The sum of the group's two best (DeepSeek-V3, section 2.1.2; GLM-4 MoE)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RouterConfig:
    """How each token chooses its experts.

    By family, in the names of their published configurations:

    | family               | scoring           | normalize         | routed_scaling_factor | groups                       |
    |----------------------|-------------------|-------------------|-----------------------|------------------------------|
    | Qwen3-MoE, OLMoE     | softmax           | `norm_topk_prob`  | 1                     | none                         |
    | Mixtral              | softmax           | True              | 1                     | none                         |
    | gpt-oss              | softmax_of_chosen | False             | 1                     | none                         |
    | DeepSeek-V2          | softmax           | False             | as published          | `n_group`, max               |
    | DeepSeek-V3, GLM-4   | sigmoid           | `norm_topk_prob`  | as published          | `n_group`, top2_sum, bias    |
    """

    top_k: int
    """Experts chosen for each token: from 1 to the number that the kept groups hold."""
    scoring: Scoring
    """Which function of the logits weighs the chosen experts."""
    normalize: bool = False
    """Divide a token's weights by their sum (plus 1e-20, as DeepSeek-V3 does)."""
    routed_scaling_factor: float = 1.0
    """Factor on every weight, after the normalisation."""
    num_groups: int = 1
    """Equal groups of neighbouring experts; 1 means that routing is not limited to groups."""
    topk_groups: int = 1
    """Groups kept for each token, from 1 to `num_groups`; experts of the others are not chosen."""
    group_score: GroupScore = GroupScore.MAX
    """How groups are ranked; without meaning when `num_groups` is 1."""

    def __post_init__(self) -> None:
        for name, value, kind in (
            ("scoring", self.scoring, Scoring),
            ("group_score", self.group_score, GroupScore),
        ):
            check_member(name, value, kind)
        if self.top_k < 1:
            raise KernelError(f"top_k is {self.top_k}; it must be at least 1")
        if not 1 <= self.topk_groups <= self.num_groups:
            raise KernelError(
                f"topk_groups is {self.topk_groups}; it must be from 1 to num_groups, {self.num_groups}"
            )

    @property
    def ranks_logits(self) -> bool:
        """True where logits order experts and groups just as their scores do, if no bias is added.

        Scores rise with the logit, so ranking by logits chooses the same experts, keeps apart those
        whose scores round to one number, and does not depend on how a device rounds `exp`.
        """
        return self.num_groups == 1 or self.group_score is GroupScore.MAX

    def check_num_experts(self, num_experts: int) -> None:
        """Raise `KernelError` unless this choice can be made among `num_experts` experts."""
        if num_experts % self.num_groups:
            raise KernelError(f"{num_experts} experts do not make {self.num_groups} equal groups")
        group_size = num_experts // self.num_groups
        if self.top_k > group_size * self.topk_groups:
            raise KernelError(
                f"top_k is {self.top_k}; the {self.topk_groups} kept groups of {group_size} hold "
                f"{group_size * self.topk_groups} experts"
            )
        if self.num_groups > 1 and self.group_score is GroupScore.TOP2_SUM and group_size < 2:
            raise KernelError("group_score top2_sum needs groups of 2 experts or more")


@dataclass(frozen=True, kw_only=True, slots=True)
class Dispatch:
    """Where each token's copies lie among rows sorted by expert; all tensors are on the logits' device.

    E counts the local experts alone, and expert indices here are local: 0 is `first_local_expert`.
    An expert's rows are in the order of (token, slot) and start at a multiple of `block_m`, so every
    block of `block_m` rows belongs to one expert. P is `num_rows_bound(...)`, known without asking
    the device; the blocks past `block_offsets[E]` are unused.
    """

    block_m: int
    """Rows in a block: a power of two."""
    token_of_row: Int32[Tensor, " P"]
    """The token copied to each row; -1 for padding."""
    row_of_slot: Int32[Tensor, "T K"]
    """The row of each token's k-th choice; -1 where that expert is not local."""
    expert_of_block: Int32[Tensor, " num_blocks"]
    """The expert of each block, P / block_m of them; -1 for an unused block."""
    block_offsets: Int32[Tensor, " E_and_1"]
    """Each expert's first row, a multiple of `block_m`; the last is the rows in use."""
    num_tokens_per_expert: Int32[Tensor, " E"]
    """Rows of each expert, padding left out."""
    weights: Float32[Tensor, "T K"]
    """The weight of each slot in `combine`."""

    @property
    def num_rows(self) -> int:
        """P: rows of the permuted buffer, padding and unused blocks included."""
        return self.token_of_row.shape[0]


def num_rows_bound(num_slots: int, num_experts: int, block_m: int) -> int:
    """Rows that hold `num_slots` rows of `num_experts` experts, each expert padded to `block_m`.

    At most `min(num_slots, num_experts)` experts have rows, and each wastes `block_m - 1` at most.
    """
    num_used_experts = min(num_slots, num_experts)
    return (num_slots + num_used_experts * (block_m - 1)) // block_m * block_m
