"""Vectors by a table of words: a text is the weighted sum of its words' rows.

The table is trained for prose that asks for code (`scripts/embedding_table`) on the very words of
`composer_index.words`, so whoever has split a text for BM25 hands over the words. Words that the
table lacks count nothing.
"""

import hashlib
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from composer_index.embedding.embedder import Vectors
from composer_index.words import split_words

_DATA = Path(__file__).parent / "data"
_BLOCK = 48
"""Texts at a time: what is held between is a few MB."""


class StaticEmbedder:
    """An `Embedder` that costs a fraction of a millisecond a text, and no memory of its own."""

    def __init__(self, folder: Path = _DATA) -> None:
        """Maps the table into memory.

        Raises:
            OSError: `folder` lacks `table.npy` (int8 [V, D]), `scales.npy` (float32 [V]) or
                `words.txt` (V lines).
        """
        self._table: NDArray[np.int8] = np.load(folder / "table.npy", mmap_mode="r")
        self._scales: NDArray[np.float32] = np.load(folder / "scales.npy")
        digest = hashlib.blake2b(self._scales.tobytes(), digest_size=4).hexdigest()
        self._name = f"composer-static-{digest}"
        words = (folder / "words.txt").read_text(encoding="utf-8").splitlines()
        self._rows = dict(zip(words, range(len(words)), strict=True))

    @property
    def name(self) -> str:
        """Holds a digest of the table, so that retrained vectors are never taken for these."""
        return self._name

    @property
    def dim(self) -> int:
        return self._table.shape[1]

    def embed(self, texts: Sequence[str]) -> Vectors:
        return self.embed_words([split_words(text) for text in texts])

    def embed_words(self, texts: Sequence[Iterable[str]]) -> Vectors:
        """Returns float32 [len(texts), dim] for texts that `split_words` has split."""
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for start in range(0, len(texts), _BLOCK):
            self._embed_block(texts[start : start + _BLOCK], vectors[start : start + _BLOCK])
        return vectors

    def _embed_block(self, texts: Sequence[Iterable[str]], vectors: Vectors) -> None:
        """Fills zeroed `vectors`.

        The texts of a block share many words: their counts, as a matrix of texts and distinct
        words, times those words' rows is far quicker than adding up rows text by text.
        """
        found = [
            [row for word in text if (row := self._rows.get(word)) is not None] for text in texts
        ]
        rows = np.fromiter(chain.from_iterable(found), np.int64)
        if not rows.size:
            return
        distinct, columns = np.unique(rows, return_inverse=True)
        lines = np.repeat(np.arange(len(texts)), [len(one) for one in found])
        counts = np.bincount(
            lines * len(distinct) + columns, minlength=len(texts) * len(distinct)
        ).reshape(len(texts), -1)
        weights = np.sqrt(counts, dtype=np.float32)
        weights *= self._scales[distinct]
        np.matmul(weights, self._table[distinct].astype(np.float32), out=vectors)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
