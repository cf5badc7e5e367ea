"""The memory of keys and values: blocks of a fixed number of tokens, which belong to no sequence.

Dimensions: L tokens of a sequence, T tokens of a step, H key-value heads, K and V dims of a key and a value.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float, Int64
from torch import Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheShape:
    """What one layer keeps of a token."""

    num_kv_heads: int
    key_dim: int
    value_dim: int
    """0: the layer keeps no values (multi-head latent attention keeps one latent vector, as key)."""

    @property
    def num_elements(self) -> int:
        return self.num_kv_heads * (self.key_dim + self.value_dim)


class KVPool:
    """Who holds which block is `PrefixCache`'s to know."""

    def __init__(
        self,
        shapes: Sequence[CacheShape],
        *,
        num_blocks: int,
        block_size: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """`shapes`: one a layer."""
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.device = device
        num_slots = num_blocks * block_size

        def empty(shape: CacheShape, dim: int) -> Tensor:
            return torch.zeros((num_slots, shape.num_kv_heads, dim), dtype=dtype, device=device)

        self._keys = [empty(shape, shape.key_dim) for shape in shapes]
        self._values = [empty(shape, shape.value_dim) for shape in shapes]

    @staticmethod
    def block_bytes(shapes: Sequence[CacheShape], *, block_size: int, dtype: torch.dtype) -> int:
        """Of one block over all layers."""
        return block_size * dtype.itemsize * sum(shape.num_elements for shape in shapes)

    @property
    def layer_bytes_per_token(self) -> int:
        """Of the layer that keeps the most."""
        return max(
            (keys.nbytes + values.nbytes) // len(keys)
            for keys, values in zip(self._keys, self._values, strict=True)
        )

    @property
    def num_bytes(self) -> int:
        return sum(tensor.nbytes for tensor in (*self._keys, *self._values))

    def write(
        self,
        layer: int,
        slots_T: Int64[Tensor, " T"],
        keys_THK: Float[Tensor, "T H K"],
        values_THV: Float[Tensor, "T H V"] | None,
    ) -> None:
        self._keys[layer].index_copy_(0, slots_T, keys_THK)
        if values_THV is not None:
            self._values[layer].index_copy_(0, slots_T, values_THV)

    def read(
        self, layer: int, blocks: Sequence[int], num_tokens: int, *, first: int = 0
    ) -> tuple[Float[Tensor, "L H K"], Float[Tensor, "L H V"]]:
        """Of a sequence's tokens from `first` on, to `num_tokens`: a view where its blocks lie in a
        row, else a copy. A view is valid until the next write."""
        return self.read_slots(layer, self.slots(blocks, num_tokens, first=first))

    def read_slots(
        self, layer: int, slots: slice | Int64[Tensor, " L"]
    ) -> tuple[Float[Tensor, "L H K"], Float[Tensor, "L H V"]]:
        """A view of a slice, which is valid until the next write; else a copy."""
        keys_SHK, values_SHV = self._keys[layer], self._values[layer]
        if isinstance(slots, slice):
            return keys_SHK[slots], values_SHV[slots]
        # Indexing by a tensor takes four times as long on a CPU.
        return keys_SHK.index_select(0, slots), values_SHV.index_select(0, slots)

    def slots(self, blocks: Sequence[int], num_tokens: int, *, first: int = 0) -> slice | Tensor:
        """Where a sequence's tokens lie from `first` on, to `num_tokens`, in every layer: a slice
        where its blocks lie in a row."""
        size, end = self.block_size, num_tokens
        held = blocks[first // size : -(-end // size)]
        offset = first % size
        if all(after == before + 1 for before, after in pairwise(held)):
            start = held[0] * size + offset
            return slice(start, start + end - first)
        starts = torch.tensor(held, device=self._keys[0].device) * size
        within = torch.arange(size, device=starts.device)
        return (starts[:, None] + within).flatten()[offset : offset + end - first]
