"""The experts that one sequence's tokens went to, kept on the device until they are asked for.

Dimensions: T tokens of a part, L layers with a router, K experts of a token.
"""

from jaxtyping import Int32
from torch import Tensor


class RouterChoices:
    def __init__(self) -> None:
        self._parts: list[tuple[int, Int32[Tensor, "T L K"]]] = []

    def add(self, position: int, ids_TLK: Int32[Tensor, "T L K"]) -> None:
        """Of the tokens from `position` on; what was there before counts no longer."""
        self._parts.append((position, ids_TLK))

    def lists(self, num_tokens: int) -> list[list[list[int]]]:
        """By token, layer and rank, of the first tokens, all of which were added. Waits for the
        device."""
        found: dict[int, list[list[int]]] = {}
        for position, ids_TLK in self._parts:
            lists: list[list[list[int]]] = ids_TLK.numpy(force=True).tolist()
            found.update(enumerate(lists, position))
        return [found[position] for position in range(num_tokens)]
