"""A model's tokens: text to ids, and ids to the bytes that they stand for. Knows no torch."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from composer_inference.sampling.folder_vocabulary import read_folder_vocabulary
from composer_inference.sampling.gguf_vocabulary import read_gguf_vocabulary


class Vocabulary(Protocol):
    @property
    def size(self) -> int:
        """Ids that the logits have, those included that pad the embedding and have no token."""
        ...

    @property
    def eos_ids(self) -> frozenset[int]:
        """Tokens that end a text."""
        ...

    @property
    def bos_id(self) -> int | None: ...

    @property
    def adds_bos(self) -> bool:
        """Whether a prompt is to begin with `bos_id`; `encode` never writes it by itself."""
        ...

    @property
    def chat_template(self) -> str | None: ...

    @property
    def special_tokens(self) -> Mapping[str, str]:
        """`bos_token` and `eos_token` as a chat template is to write them; BOS is empty where
        `adds_bos` is true, because it would stand there twice."""
        ...

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Token ids, without BOS; `special` recognises control tokens that are written in the text."""
        ...

    def token_bytes(self, token_id: int) -> bytes:
        """Empty for a control token and for an id that has no token."""
        ...

    def token_text(self, token_id: int) -> str:
        """For people: a control token by its name, bytes that are no text as U+FFFD."""
        ...


def read_vocabulary(path: Path, *, num_embeddings: int) -> Vocabulary:
    """Of a model folder as Hugging Face lays it out, or of a GGUF file. `num_embeddings`: rows of the
    model's embedding.

    Raises: CheckpointError for files that are missing or broken, or have more tokens than that.
    """
    read = read_folder_vocabulary if path.is_dir() else read_gguf_vocabulary
    return read(path, num_embeddings=num_embeddings)
