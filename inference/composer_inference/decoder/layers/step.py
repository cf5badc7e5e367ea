"""What all layers of one step share."""

from dataclasses import dataclass

from jaxtyping import Int32
from torch import Tensor

from composer_inference.decoder.attention.paged import PagedAttention
from composer_inference.decoder.rope import Rotation


@dataclass(frozen=True, slots=True)
class Step:
    rotation: Rotation
    attention: PagedAttention
    router_choices: list[Int32[Tensor, "T K"]] | None
    """Filled by the layers that have a router, in their order: each token's experts."""
