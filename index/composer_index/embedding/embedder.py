"""What turns texts into vectors: the seam between the index and any embedding model."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
"""[N, D], rows of length one, or all zero where a text holds nothing that the model knows."""


class Embedder(Protocol):
    """Vectors for texts; a dot product of two rows is their cosine similarity."""

    @property
    def name(self) -> str:
        """Names the model and its version: vectors of another name are never compared."""
        ...

    @property
    def dim(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Returns a new [len(texts), dim] array.

        Raises:
            OSError: the model behind it cannot be reached (a server, a file).
        """
        ...
