"""The vocabulary in a model folder as Hugging Face lays it out."""

import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from tokenizers import Tokenizer

from composer_inference.sampling.token_table import (
    SHOWN_CONTROL,
    TokenTable,
    byte_level_bytes,
    ending_ids,
    sentence_piece_bytes,
    template_tokens,
    written_bytes,
)
from composer_inference.tokenizer import ALWAYS_CONTROL
from composer_inference.weights.errors import CheckpointError

_Json = Mapping[str, Any]

_SENTENCE_PIECE = frozenset({"Metaspace", "ByteFallback"})
"""Decoders of SentencePiece vocabularies."""


class _Encoder:
    """Threads may share it: whether control tokens are recognised is the tokenizer's state."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._lock = threading.Lock()

    def __call__(self, text: str, *, special: bool = True) -> list[int]:
        with self._lock:
            self._tokenizer.encode_special_tokens = not special
            return self._tokenizer.encode(text, add_special_tokens=False).ids


def read_folder_vocabulary(folder: Path, *, num_embeddings: int) -> TokenTable:
    """Raises: CheckpointError."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise CheckpointError(
            f"{path} is missing; transformers' AutoTokenizer.from_pretrained(...).save_pretrained "
            "writes one from a model's other tokenizer files"
        )
    description = _marked(_read_json(path))
    tokenizer = _tokenizer(path, description)
    ids = tokenizer.get_vocab(with_added_tokens=True)
    num_ids = max(ids.values(), default=-1) + 1
    if num_ids > num_embeddings:
        raise CheckpointError(
            f"{path} has ids up to {num_ids - 1} and the model's embedding {num_embeddings} rows: "
            "the tokenizer is another model's"
        )
    added = tokenizer.get_added_tokens_decoder()
    control = {
        token_id: token.content
        for token_id, token in added.items()
        if token.special and token.content not in SHOWN_CONTROL
    }
    tokens = _token_bytes(
        path, description, tokenizer, {id_: each.content for id_, each in added.items()}
    )
    for token_id in control:
        tokens[token_id] = b""
    config = _read_json(folder / "tokenizer_config.json")
    named = {**_read_json(folder / "special_tokens_map.json"), **config}
    bos, eos = _content(named.get("bos_token")), _content(named.get("eos_token"))
    bos_id = None if bos is None else ids.get(bos)
    adds_bos = bos_id is not None and _adds_bos(config, tokenizer, bos_id)
    ends = {*_configured_ends(folder, num_ids), *ending_ids(control.items())}
    if eos is not None and eos in ids:
        ends.add(ids[eos])
    return TokenTable(
        encoder=_Encoder(tokenizer),
        tokens=tokens,
        control=control,
        size=num_embeddings,
        eos_ids=frozenset(ends),
        bos_id=bos_id,
        adds_bos=adds_bos,
        chat_template=_chat_template(folder, config),
        special_tokens=template_tokens(bos, eos, adds_bos=adds_bos),
    )


def _marked(description: dict[str, Any]) -> dict[str, Any]:
    """With those added tokens as control tokens that are so by their names, whatever the file says."""
    added: Any = description.get("added_tokens") or []
    if isinstance(added, list):
        tokens = cast(list[Any], added)
        added = [{**each, "special": True} if _is_control(each) else each for each in tokens]
    return {**description, "added_tokens": added}


def _is_control(token: Any) -> bool:
    content = _content(token)
    return content is not None and ALWAYS_CONTROL.fullmatch(content) is not None


def _tokenizer(path: Path, description: _Json) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_str(json.dumps(description))
    except Exception as error:  # `tokenizers` raises bare exceptions from Rust.
        raise CheckpointError(f"{path} cannot be read as a tokenizer: {error}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _token_bytes(
    path: Path, description: _Json, tokenizer: Tokenizer, added: Mapping[int, str]
) -> list[bytes]:
    ids = tokenizer.get_vocab(with_added_tokens=True)
    decoders = set(_types(description.get("decoder")))
    tokens = [b""] * (max(ids.values(), default=-1) + 1)
    if "ByteLevel" in decoders:
        model = type(tokenizer.model).__name__
        if model != "BPE":
            raise CheckpointError(
                f"{path} has a {model} model under the decoder ByteLevel, which goes with BPE alone; "
                "take the tokenizer.json that the model was published with"
            )
        for token, token_id in ids.items():
            tokens[token_id] = byte_level_bytes(token)
    elif decoders & _SENTENCE_PIECE:
        for token, token_id in ids.items():
            tokens[token_id] = sentence_piece_bytes(token, is_byte="ByteFallback" in decoders)
    else:
        kinds = ", ".join(sorted(decoders)) or "none"
        raise CheckpointError(
            f"{path} has the decoder {kinds}; byte-level and SentencePiece vocabularies are known"
        )
    for token_id, content in added.items():
        tokens[token_id] = written_bytes(content)
    return tokens


def _types(decoder: Any) -> Iterator[str]:
    if isinstance(decoder, dict):
        part = cast(dict[str, Any], decoder)
        yield str(part.get("type"))
        for each in cast(list[Any], part.get("decoders") or []):
            yield from _types(each)


def _adds_bos(config: _Json, tokenizer: Tokenizer, bos_id: int) -> bool:
    says = config.get("add_bos_token")
    if isinstance(says, bool):
        return says
    return bos_id in tokenizer.encode("", add_special_tokens=True).ids


def _configured_ends(folder: Path, num_ids: int) -> Iterator[int]:
    for name in ("generation_config.json", "config.json"):
        value = _read_json(folder / name).get("eos_token_id")
        ends = cast(list[Any], value if isinstance(value, list) else [value])
        for end in ends:
            if end is None:
                continue
            if type(end) is not int or not 0 <= end < num_ids:
                raise CheckpointError(
                    f"{folder / name} has eos_token_id {end!r}, and the tokenizer ids below {num_ids}"
                )
            yield end


def _chat_template(folder: Path, config: _Json) -> str | None:
    path = folder / "chat_template.jinja"
    if path.is_file():
        return _read_text(path)
    template: Any = config.get("chat_template")
    if isinstance(template, list):
        named = cast(list[_Json], [each for each in template if isinstance(each, dict)])  # pyright: ignore[reportUnknownVariableType]
        template = {each.get("name"): each.get("template") for each in named}.get("default")
    return template if isinstance(template, str) else None


def _content(token: Any) -> str | None:
    """Of a token that is written as its text, or as an object with it."""
    if isinstance(token, dict):
        token = cast(dict[str, Any], token).get("content")
    return token if isinstance(token, str) else None


def _read_json(path: Path) -> dict[str, Any]:
    """Empty if the file is missing."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(_read_text(path))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is no JSON: {error}; fetch it again") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} holds no JSON object; fetch it again")
    return cast(dict[str, Any], value)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
