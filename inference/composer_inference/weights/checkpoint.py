"""Where a model's tensors are read from."""

from collections.abc import Mapping
from typing import Any, Protocol

import torch
from torch import Tensor

from composer_inference.weights.errors import CheckpointError as CheckpointError


class Checkpoint(Protocol):
    """One model's files. Tensors have the names and shapes of the family's Hugging Face checkpoints,
    whatever the files call them."""

    @property
    def config(self) -> Mapping[str, Any]:
        """As in Hugging Face's `config.json`."""
        ...

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Of all tensors, by name; nothing is read for it but headers."""
        ...

    def dtype(self, name: str) -> torch.dtype:
        """As stored; of a quantised GGUF tensor float32.

        Raises: CheckpointError for a tensor that is missing.
        """
        ...

    def tensor(self, name: str) -> Tensor:
        """On the CPU, with its stored dtype. Mapped from the file where its format allows that, so
        it must not be written to.

        Raises: CheckpointError for a tensor that is missing or cannot be read.
        """
        ...
