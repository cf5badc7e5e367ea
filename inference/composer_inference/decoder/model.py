"""The decoder: a step's tokens to logits.

Dimensions: T tokens of a step, R rows whose logits are wanted, D model dim, V tokens of the vocabulary.
"""

from collections.abc import Iterable
from typing import cast

import torch
from jaxtyping import Float32, Int32
from torch import Tensor, nn
from torch.nn import functional

from composer_inference.decoder.attention.paged import PagedAttention
from composer_inference.decoder.batch import Batch
from composer_inference.decoder.config import DecoderConfig
from composer_inference.decoder.layers.block import Block
from composer_inference.decoder.layers.linear import Linear
from composer_inference.decoder.layers.moe import StoredFormat
from composer_inference.decoder.layers.norm import RMSNorm
from composer_inference.decoder.layers.packed import pack, packed_linear
from composer_inference.decoder.layers.step import Step
from composer_inference.decoder.parallel.parallel import Parallel
from composer_inference.decoder.rope import Rope
from composer_inference.kv.pool import CacheShape, KVPool


class Decoder(nn.Module):
    """Without values: `load_decoder` makes it on the meta device and fills it."""

    def __init__(
        self,
        config: DecoderConfig,
        *,
        dtype: torch.dtype,
        experts: StoredFormat = "bf16",
        parallel: Parallel | None = None,
    ) -> None:
        """`experts`: what their weights are kept in, where there are any. `parallel`: the part of the
        model that is computed here; None: all.

        Raises: ParallelError for a model that cannot be shared out so.
        """
        super().__init__()
        self.config = config
        self.parallel = parallel or Parallel()
        self.embedding = nn.Parameter(torch.empty(config.vocab_size, config.model_dim, dtype=dtype))
        self.blocks = nn.ModuleList(
            Block(layer, config, dtype=dtype, experts=experts, parallel=self.parallel)
            for layer in range(len(config.layers))
        )
        self.norm = RMSNorm(config.model_dim, config.norm_eps, dtype=dtype)
        self.output = None
        if not config.tie_embeddings:
            self.output = Linear(config.model_dim, config.vocab_size, dtype=dtype)
        self._packed_output: Tensor | None = None
        self._rope = Rope(config.rope)

    @property
    def cache_shapes(self) -> tuple[CacheShape, ...]:
        """What each layer keeps of a token here."""
        blocks = cast(Iterable[Block], self.blocks)
        return tuple(block.attention.cache_shape for block in blocks)

    def forward(
        self,
        batch: Batch,
        pool: KVPool,
        *,
        router_choices: list[Int32[Tensor, "T K"]] | None = None,
    ) -> Float32[Tensor, "R V"]:
        """Logits of `batch.logits_rows_R`. Writes the new tokens' keys and values into the pool.

        `router_choices`: a list to which each layer with a router adds its tokens' experts.
        Differentiable in the parameters where nothing is cached. Nothing waits for the device.
        """
        x_TD = functional.embedding(batch.token_ids_T, self.embedding)
        step = Step(
            rotation=self._rope.rotation(batch.positions_T, x_TD.dtype),
            attention=PagedAttention(batch, pool, by_table=x_TD.is_cuda),
            router_choices=router_choices,
        )
        for block in self.blocks:
            x_TD = block(x_TD, step)
        x_RD = self.norm(x_TD[batch.logits_rows_R])
        return self.logits(x_RD).float()

    @property
    def is_packed(self) -> bool:
        """Whether weights are kept in the layout of `layers.packed`."""
        return self._packed_output is not None or (
            self.output is not None and self.output.is_packed
        )

    @property
    def num_bytes(self) -> int:
        """Memory of the weights, with the packed copy of tied embeddings."""
        copy_bytes = 0 if self._packed_output is None else self.embedding.nbytes
        return copy_bytes + sum(parameter.nbytes for parameter in self.parameters())

    def pack(self) -> None:
        """Keep a copy of tied embeddings in the layout of `layers.packed`, for the output."""
        if self.output is None:
            self._packed_output = pack(self.embedding)

    def unpack(self) -> None:
        self._packed_output = None

    def logits(self, x_RD: Tensor) -> Tensor:
        if self.output is not None:
            return self.output(x_RD)
        if self._packed_output is not None:
            return packed_linear(x_RD, self._packed_output, None)
        return functional.linear(x_RD, self.embedding)
