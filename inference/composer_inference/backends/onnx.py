"""Encoders behind the `Backend` protocol: BERT-like embedders and cross-encoders in ONNX files, by
onnxruntime on the CPU.

What shapes this module (docs/decisions/0006):

- Texts are computed one by one. An int8 model scales its activations by the largest of the whole
  batch, so that a text's vector depends on its neighbours (cosine 0.995 to itself alone), and a batch
  is no cheaper on a CPU.
- Embedding is background work: few threads, which the system's scheduler puts behind llama.cpp's
  where it can. A ranking is waited for and gets all threads.
- onnxruntime's threads must not spin while they wait, as on a busy machine they do so for seconds.
"""

import asyncio
import importlib
import os
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from composer_inference.backends.base import (
    BackendError,
    Capability,
    GenerateChunk,
    GenerateRequest,
    MissingCapabilityError,
)

T = TypeVar("T")

Task = Literal["embed", "rerank"]

_SHAPES: dict[Task, str] = {"embed": "[1, tokens, width]", "rerank": "[1, 1]"}
"""Of the first output, for one text."""

MAX_TOKENS = 512
"""Of a text, or of a question and a text together; what is longer is cut at its end."""

MAX_TEXT_CHARS = 16_384
"""Characters of a text that are looked at: a tokenizer takes a minute for 16 MB of which 512 tokens
remain, and a token has four."""

NICENESS = 10
"""Of an embedder's threads, above the engine's own."""

_INPUTS: Mapping[str, Callable[[Encoding], list[int]]] = {
    "input_ids": lambda encoding: encoding.ids,
    "attention_mask": lambda encoding: encoding.attention_mask,
    "token_type_ids": lambda encoding: encoding.type_ids,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class OnnxConfig:
    path: Path
    """The ONNX file."""
    tokenizer_path: Path
    """Its tokenizer, as `tokenizers` writes it."""
    task: Task
    threads: int
    """Those that the engine may use."""

    @property
    def compute_threads(self) -> int:
        """A ranking is waited for; embedding is background work."""
        return self.threads if self.task == "rerank" else max(1, self.threads // 4)


class OnnxBackend:
    """One ONNX model. Make it with `load`."""

    def __init__(self, config: OnnxConfig, encoder: "_Encoder", thread: ThreadPoolExecutor) -> None:
        self._config = config
        self._encoder = encoder
        self._thread = thread

    @classmethod
    async def load(cls, config: OnnxConfig) -> "OnnxBackend":
        """Raises: BackendError if onnxruntime is missing or the files are no such model."""
        thread = ThreadPoolExecutor(
            max_workers=1,
            thread_name_prefix="onnx",
            initializer=_give_way if config.task == "embed" else None,
        )
        loop = asyncio.get_running_loop()
        try:
            # In the thread that computes: onnxruntime's own threads inherit its niceness.
            encoder = await loop.run_in_executor(thread, _Encoder, config)
        except BackendError:
            thread.shutdown(wait=False)
            raise
        return cls(config, encoder, thread)

    @property
    def capabilities(self) -> frozenset[Capability]:
        embeds = self._config.task == "embed"
        return frozenset({Capability.EMBED if embeds else Capability.RERANK})

    @property
    def context_tokens(self) -> int:
        return MAX_TOKENS

    @property
    def chat_template(self) -> str | None:
        return None

    @property
    def special_tokens(self) -> dict[str, str]:
        return {}

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[GenerateChunk, None]:
        raise MissingCapabilityError(f"{self._config.path} is no generating model")
        yield GenerateChunk()  # Makes it a generator.

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """The normalised vectors of the texts' first tokens ([CLS])."""
        if Capability.EMBED not in self.capabilities:
            raise MissingCapabilityError(f"{self._config.path} is no embedding model")
        return [await self._run(self._encoder.embed, text) for text in texts]

    async def rerank(self, query: str, documents: Sequence[str]) -> list[float]:
        """Each document's relevance, from 0 to 1."""
        if Capability.RERANK not in self.capabilities:
            raise MissingCapabilityError(f"{self._config.path} is no reranking model")
        return [await self._run(self._encoder.rank, query, text) for text in documents]

    async def tokenize(self, text: str, *, special: bool = True) -> list[int]:
        raise MissingCapabilityError(f"{self._config.path} tokenises for itself alone")

    async def close(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)

    async def _run(self, function: Callable[..., T], *arguments: str) -> T:
        # A caller that leaves has the text under way computed to its end, and no other.
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, function, *arguments)


class _Encoder:
    """The model and its tokenizer, used from one thread.

    Raises: BackendError if onnxruntime is missing or the files are no model of the task.
    """

    def __init__(self, config: OnnxConfig) -> None:
        self._path = config.path
        self._tokenizer = _load_tokenizer(config.tokenizer_path)
        self._session = _load_session(config)
        self._inputs = self._checked_inputs()
        self._check_output(config.task)

    def embed(self, text: str) -> list[float]:
        """The first token's vector, of length 1."""
        hidden = self._output(text)  # [1, tokens, width]
        first = hidden[0, 0].astype(np.float64)
        return self._finite(first / np.linalg.norm(first)).tolist()

    def rank(self, query: str, text: str) -> float:
        """The sigmoid of the pair's logit."""
        logits = self._output(query, text)  # [1, 1]
        score = 1 / (1 + np.exp(-logits[0].astype(np.float64)))
        return self._finite(score).tolist()[0]

    def _output(self, text: str, pair: str | None = None) -> NDArray[np.float32]:
        """The model's first output for a batch of one: the text, or the text and its pair."""
        if pair is not None:
            pair = pair[:MAX_TEXT_CHARS]
        encoding = self._tokenizer.encode(text[:MAX_TEXT_CHARS], pair)
        feed = {name: np.array([_INPUTS[name](encoding)], np.int64) for name in self._inputs}
        with _told(f"{self._path} failed"):
            return self._session.run(None, feed)[0]

    def _checked_inputs(self) -> list[str]:
        inputs = {entry.name: entry.type for entry in self._session.get_inputs()}
        wrong = [name for name in inputs if name not in _INPUTS or inputs[name] != "tensor(int64)"]
        if wrong or "input_ids" not in inputs:
            raise BackendError(
                f"{self._path} is no encoder of texts: its inputs are "
                f"{', '.join(f'{name} {kind}' for name, kind in inputs.items()) or 'none'}, and "
                f"{', '.join(_INPUTS)}, each tensor(int64), are known"
            )
        return list(inputs)

    def _check_output(self, task: Task) -> None:
        output = self._output("text") if task == "embed" else self._output("text", "text")
        fits = output.ndim == 3 if task == "embed" else output.shape == (1, 1)
        if not fits:
            raise BackendError(
                f"{self._path} is no model to {task} with: its first output for one text has the "
                f"shape {list(output.shape)} instead of {_SHAPES[task]}"
            )

    def _finite(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        if not np.isfinite(values).all():
            raise BackendError(
                f"{self._path} computes what are no numbers: it is damaged; composer-lsp model "
                "verify NAME says so, and composer-lsp model pull NAME mends it"
            )
        return values


def _load_tokenizer(path: Path) -> Tokenizer:
    with _told(f"{path} is no tokenizer that can be read"):
        tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()  # One of ours pads every text to 512 tokens.
    tokenizer.enable_truncation(MAX_TOKENS)  # pyright: ignore[reportUnknownMemberType]
    return tokenizer


def _load_session(config: OnnxConfig) -> Any:
    try:
        onnxruntime: Any = importlib.import_module("onnxruntime")
    except ModuleNotFoundError as error:
        raise BackendError(
            f"{config.path} needs onnxruntime, which is not installed ({error}): "
            "pip install 'composer-lsp[onnx]'"
        ) from error
    onnxruntime.disable_telemetry_events()  # Its builds for Windows have them on.
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = config.compute_threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3  # Errors alone.
    with _told(f"onnxruntime cannot load {config.path}"):
        return onnxruntime.InferenceSession(
            str(config.path), options, providers=["CPUExecutionProvider"]
        )


@contextmanager
def _told(what: str) -> Generator[None]:
    """Around one call of a library: both of them raise classes with no base but Exception."""
    try:
        yield
    except Exception as error:
        raise BackendError(f"{what}: {error}") from error


def _give_way() -> None:
    # Elsewhere the niceness is not a thread's but the whole process's.
    if sys.platform == "linux":
        os.nice(NICENESS)
