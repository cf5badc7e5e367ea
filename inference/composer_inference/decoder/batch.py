"""What one step computes: new tokens of several sequences, laid end to end without padding.

Dimensions: T new tokens of the step, R rows whose logits are wanted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from jaxtyping import Int64
from torch import Tensor

from composer_kernels import BlockTable


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """One sequence's part of a step: the tokens that follow `num_cached` others."""

    token_ids: Sequence[int]
    """New ones, at least one."""
    num_cached: int
    """Tokens before them, whose keys and values are in the cache."""
    blocks: Sequence[int]
    """The sequence's cache blocks in order, for the cached and the new tokens."""
    num_logits: int = 1
    """Rows of logits that are wanted, of the last tokens; 0 for a part of a prompt."""

    @property
    def num_tokens(self) -> int:
        """Cached and new."""
        return self.num_cached + len(self.token_ids)

    def slot(self, place: int, block_size: int) -> int:
        """Where the keys and values of the sequence's token go."""
        return self.blocks[place // block_size] * block_size + place % block_size


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """The tensors lie on the model's device."""

    spans: tuple[Span, ...]
    token_ids_T: Int64[Tensor, " T"]
    positions_T: Int64[Tensor, " T"]
    slots_T: Int64[Tensor, " T"]
    """Where each token's keys and values go: its block times the block's size, plus its place in it."""
    logits_rows_R: Int64[Tensor, " R"]
    """Rows of T, span by span."""
    block_table: BlockTable | None = None
    """Of all sequences, in their order, where it is on the device already; attention goes by it then, and
    `spans` may be empty."""

    @classmethod
    def of(cls, spans: Sequence[Span], *, block_size: int, device: torch.device) -> "Batch":
        token_ids: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        logits_rows: list[int] = []
        for span in spans:
            token_ids += span.token_ids
            places = range(span.num_cached, span.num_tokens)
            positions += places
            slots += [span.slot(place, block_size) for place in places]
            logits_rows += range(len(token_ids) - span.num_logits, len(token_ids))
        columns = (token_ids, positions, slots, logits_rows)
        token_ids_T, positions_T, slots_T, logits_rows_R = to_device(columns, device)
        return cls(
            spans=tuple(spans),
            token_ids_T=token_ids_T,
            positions_T=positions_T,
            slots_T=slots_T,
            logits_rows_R=logits_rows_R,
        )


def to_device(
    columns: Sequence[Sequence[int]], device: torch.device
) -> tuple[Int64[Tensor, " length"], ...]:
    """Tensors of these numbers, in one copy that the host does not wait for."""
    sizes = [len(column) for column in columns]
    numbers = list(chain.from_iterable(columns))
    return torch.split(on_host(numbers, device).to(device, non_blocking=True), sizes)


def on_host(numbers: Sequence[int], device: torch.device) -> Int64[Tensor, " length"]:
    """In memory that this device copies from without the host's waiting."""
    return torch.tensor(numbers, dtype=torch.int64, pin_memory=device.type == "cuda")
