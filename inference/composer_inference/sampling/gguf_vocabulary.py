"""The vocabulary in a GGUF file, as llama.cpp reads it."""

from collections.abc import Callable, Sequence
from pathlib import Path

from composer_inference.backends.base import MissingCapabilityError
from composer_inference.gguf import GgufMetadata, InvalidGgufError
from composer_inference.sampling.token_table import (
    SHOWN_CONTROL,
    TokenTable,
    byte_level_bytes,
    ending_ids,
    sentence_piece_bytes,
    template_tokens,
    written_bytes,
)
from composer_inference.tokenizer import (
    ALWAYS_CONTROL,
    BYTE,
    CONTROL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    build_tokenizer,
)
from composer_inference.weights.errors import CheckpointError

_END_KEYS = ("eos", "eot", "eom")


def read_gguf_vocabulary(path: Path, *, num_embeddings: int) -> TokenTable:
    """Raises: CheckpointError."""
    try:
        return _read(path, num_embeddings)
    except InvalidGgufError as error:
        raise CheckpointError(str(error)) from error
    except MissingCapabilityError as error:
        raise CheckpointError(
            f"{path} cannot be tokenised: {error}; use the model's safetensors folder, or llama.cpp"
        ) from error


def _read(path: Path, num_embeddings: int) -> TokenTable:
    metadata = GgufMetadata.read(path)
    names = metadata.texts("tokenizer.ggml.tokens")
    kinds = metadata.numbers("tokenizer.ggml.token_type")
    if len(names) > num_embeddings:
        raise CheckpointError(
            f"{path} has {len(names)} tokens and its embedding {num_embeddings} rows: the tokenizer "
            "is another model's"
        )
    if len(kinds) != len(names):
        raise CheckpointError(f"{path} has {len(names)} tokens and the kinds of {len(kinds)}")
    described = list(zip(names, kinds, strict=True))
    control = {
        token_id: name
        for token_id, (name, kind) in enumerate(described)
        if (kind in (UNKNOWN, CONTROL) or ALWAYS_CONTROL.fullmatch(name))
        and name not in SHOWN_CONTROL
    }
    to_bytes = _to_bytes(metadata)
    tokens = [
        b"" if token_id in control else to_bytes(name, kind)
        for token_id, (name, kind) in enumerate(described)
    ]
    ids = {key: metadata.integer(f"tokenizer.ggml.{key}_token_id") for key in ("bos", *_END_KEYS)}
    bos_id, eos_id = _known(ids["bos"], names), _known(ids["eos"], names)
    ends = {_known(ids[key], names) for key in _END_KEYS} | ending_ids(control.items())
    adds_bos = metadata.adds_bos and bos_id is not None
    return TokenTable(
        encoder=build_tokenizer(metadata).encode,
        tokens=tokens,
        control=control,
        size=num_embeddings,
        eos_ids=frozenset(end for end in ends if end is not None),
        bos_id=bos_id,
        adds_bos=adds_bos,
        chat_template=metadata.chat_template,
        special_tokens=template_tokens(
            None if bos_id is None else names[bos_id],
            None if eos_id is None else names[eos_id],
            adds_bos=adds_bos,
        ),
    )


def _known(token_id: int | None, names: Sequence[str]) -> int | None:
    return token_id if token_id is not None and 0 <= token_id < len(names) else None


def _to_bytes(metadata: GgufMetadata) -> Callable[[str, float], bytes]:
    is_byte_level = metadata.text("tokenizer.ggml.model") == "gpt2"

    def to_bytes(token: str, kind: float) -> bytes:
        if kind == UNUSED:
            return b""
        if kind == USER_DEFINED or token in SHOWN_CONTROL:
            return written_bytes(token)
        if is_byte_level:
            return byte_level_bytes(token)
        return sentence_piece_bytes(token, is_byte=kind == BYTE)

    return to_bytes
