"""Vectors by a transformer that a server runs: better than the table's, and a thousand times slower."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from composer_index.embedding.answers import MAX_DIM, one_for_each, vectors_of
from composer_index.embedding.embedder import Vectors
from composer_index.embedding.server import (
    InputRefusedError,
    ModelServer,
    ModelServerError,
    Priority,
)

MAX_CHARS = 2400
"""Of a text. A chunk has 1,200 characters besides white space, which is what the common 512 tokens
hold of code; the server truncates, or refuses, what is more."""
MIN_CHARS = 256
"""A text that is refused is shortened down to this."""
QUERY_LIMIT_S = 2.0
"""A search waits so long for its query's vector before the table answers instead."""

_NUMBER_BYTES = 40
"""Of one number in an answer, however it is laid out: a double has 24 characters at most."""
_PROBE = "def main():"
"""Any model of any use has a vector for this."""

_RECIPE = 1
"""Of how a chunk becomes a text: another recipe's vectors are another model's."""

_BGE_QUERY = "Represent this sentence for searching relevant passages: "
_PREFIXES = {
    "bge-": (_BGE_QUERY, ""),
    "bge_": (_BGE_QUERY, ""),
    "mxbai-embed": (_BGE_QUERY, ""),
    "e5-": ("query: ", "passage: "),
    "nomic-embed": ("search_query: ", "search_document: "),
}
"""What models were trained to see before a query and before a passage (their cards on Hugging Face),
by a part of the name. bge-m3 sees neither."""


class ChunkText(Protocol):
    """What of a chunk its content hash covers, so that equal hashes mean equal vectors."""

    @property
    def symbol(self) -> str: ...
    @property
    def text(self) -> str: ...


def text_of(chunk: ChunkText) -> str:
    """What is embedded of a chunk."""
    return f"{chunk.symbol}\n{chunk.text}"[:MAX_CHARS] if chunk.symbol else chunk.text[:MAX_CHARS]


class ServedEmbedder:
    """An `Embedder` over `/v1/embeddings`. It has a name once the server has told, by a first
    answer, how many dimensions there are. Safe to use from several threads."""

    def __init__(self, server: ModelServer) -> None:
        served = server.served
        self.server = server
        self._family = f"{served.model} by {served.origin}, recipe {_RECIPE}"
        self._query_prefix, self._prefix = _prefixes(served.model)
        self._dim = 0

    @property
    def name(self) -> str:
        """Names the model, who serves it, and the dimensions; the model alone before the first
        answer."""
        return f"{self._family}: {self._dim}" if self._dim else self._family

    @property
    def dim(self) -> int:
        """0 before the first answer."""
        return self._dim

    def made(self, name: str) -> bool:
        """Whether vectors of that name are this model's, as far as is known without asking it."""
        return name.startswith(f"{self._family}: ") if not self._dim else name == self.name

    def connect(self) -> None:
        """Ask for one vector unless that was done. Raises: ModelServerError."""
        if not self._dim:
            try:
                self._ask([_PROBE], "background", None)
            except InputRefusedError as error:
                question = "" if error.is_failure else ". Is it an embedding model?"
                self.server.failed(told := ModelServerError(f"{error}{question}"))
                raise told from error

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Returns a new [len(texts), dim] array of rows of length one; a row of zeros for a text
        that the server refuses however short it is made, or has nothing but zeros for.

        Raises: ModelServerError.
        """
        self.connect()
        shown = [self._prefix + text[:MAX_CHARS] for text in texts]
        return self._embed(shown) if shown else np.zeros((0, self._dim), np.float32)

    def embed_query(self, query: str) -> Vectors:
        """Returns [dim], of length one. Raises: ModelServerError, within about `QUERY_LIMIT_S`."""
        shown = self._query_prefix + query[:MAX_CHARS]
        return self._ask([shown], "agent", QUERY_LIMIT_S)[0]

    def _embed(self, texts: Sequence[str]) -> Vectors:
        try:
            vectors = self._ask(texts, "background", None, may_be_zero=True)
        except InputRefusedError:
            if len(texts) > 1:
                middle = len(texts) // 2
                halves = [self._embed(texts[:middle]), self._embed(texts[middle:])]
                return np.concatenate(halves)
            if len(texts[0]) > MIN_CHARS:
                return self._embed([texts[0][: max(MIN_CHARS, len(texts[0]) // 2)]])
            self._check_health()
            return np.zeros((1, self._dim), np.float32)
        if not vectors.any(axis=1).all():
            self._check_health()
        return vectors

    def _check_health(self) -> None:
        """Is it the text, or does the server fail for everything? Raises: ModelServerError."""
        try:
            self._ask([_PROBE], "background", None)
        except InputRefusedError as error:
            self.server.failed(told := ModelServerError(str(error)))
            raise told from error

    def _ask(
        self,
        texts: Sequence[str],
        priority: Priority,
        limit_s: float | None,
        *,
        may_be_zero: bool = False,
    ) -> Vectors:
        def read(answer: Mapping[str, Any]) -> Vectors:
            return self._checked(answer, len(texts), may_be_zero)

        vectors = self.server.post(
            "embeddings",
            {"input": list(texts)},
            read,
            max_bytes=len(texts) * MAX_DIM * _NUMBER_BYTES,
            priority=priority,
            limit_s=limit_s,
        )
        self._dim = vectors.shape[1]
        return vectors

    def _checked(self, answer: Mapping[str, Any], number: int, may_be_zero: bool) -> Vectors:
        """The answer's vectors in the order of the texts, of length one."""
        who = f"{self.server.served.origin}, asked for vectors by {self.server.served.model},"
        items = one_for_each(who, answer, "data", "vectors", number, is_ordered=True)
        vectors = vectors_of(who, items)
        if self._dim and vectors.shape[1] != self._dim:
            had, self._dim = self._dim, 0  # The next answer gives it a new name.
            raise ModelServerError(
                f"{who} gave {vectors.shape[1]} dimensions after {had}: it serves another model "
                "now, by which everything is embedded anew"
            )
        if not may_be_zero and not vectors.any(axis=1).all():
            raise ModelServerError(f"{who} gave a vector of zeros, by which nothing is found")
        return vectors


def _prefixes(model: str) -> tuple[str, str]:
    name = model.lower()
    if "bge-m3" in name or "-zh" in name:
        return "", ""
    return next((each for part, each in _PREFIXES.items() if part in name), ("", ""))
