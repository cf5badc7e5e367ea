"""Embedders and rerankers in ONNX files: what they compute, and what they say of broken ones."""

import asyncio
import math
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from composer_inference.backends.base import (
    BackendError,
    Capability,
    GenerateRequest,
    MissingCapabilityError,
    SamplingParams,
)
from composer_inference.backends.onnx import (
    MAX_TEXT_CHARS,
    NICENESS,
    OnnxBackend,
    OnnxConfig,
    Task,
)
from tests.support.onnx_files import WORDS, write_embedder, write_reranker, write_tokenizer

VECTORS = (
    (9.0, 9.0, 9.0),
    *[(0.0, 0.0, 0.0)] * 3,
    (1.0, 0.0, 0.0),
    (0.0, 1.0, 0.0),
    (0.0, 0.0, 1.0),
)
"""Of each word; padding, were there any, would be the loudest."""
WEIGHTS = (9.0, 0.0, 0.0, 0.0, 1.0, -1.0, 0.5)

Load = Callable[..., Awaitable[OnnxBackend]]


@pytest.fixture
async def load(tmp_path: Path) -> AsyncIterator[Load]:
    """`load(task)` loads the tiny model of that task, closed at the end; its files are in the
    folder unless the test has put others there."""
    loaded: list[OnnxBackend] = []

    async def load_task(task: Task, **config: Any) -> OnnxBackend:
        path, tokenizer = tmp_path / "model.onnx", tmp_path / "tokenizer.json"
        if not path.exists():
            if task == "embed":
                write_embedder(path, VECTORS)
            else:
                write_reranker(path, WEIGHTS)
        if not tokenizer.exists():
            write_tokenizer(tokenizer)
        values = {"path": path, "tokenizer_path": tokenizer, "task": task, "threads": 2, **config}
        backend = await OnnxBackend.load(OnnxConfig(**values))
        loaded.append(backend)
        return backend

    yield load_task
    for backend in loaded:
        await backend.close()


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


async def test_a_vector_is_the_first_tokens_and_has_the_length_1(load: Load):
    backend = await load("embed")
    first, second = await backend.embed(["red red green", "blue"])
    # The mean of the text's five tokens, [CLS] and [SEP] among them, scaled to length 1.
    assert first == pytest.approx([2 / math.sqrt(5), 1 / math.sqrt(5), 0])
    assert second == pytest.approx([0, 0, 1])


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("red " * 510 + "green", id="tokens"),
        pytest.param("red" + " " * MAX_TEXT_CHARS + "green", id="characters"),
    ],
)
async def test_of_a_long_text_the_beginning_counts(load: Load, text: str):
    backend = await load("embed")
    assert await backend.embed([text]) == [pytest.approx([1, 0, 0])]


async def test_a_score_is_the_sigmoid_of_the_pairs_logit(load: Load):
    backend = await load("rerank")
    scores = await backend.rerank("red red", ["blue", "green", "red blue"])
    assert scores == pytest.approx([sigmoid(0.5), sigmoid(-1), sigmoid(1.5)])


async def test_of_a_long_pair_the_longer_one_is_cut(load: Load):
    backend = await load("rerank")
    # 512 tokens less [CLS], two [SEP] and the question's word.
    assert await backend.rerank("red", ["blue " * 2 + "[SEP] " * 506 + "red"]) == pytest.approx(
        [sigmoid(1)]
    )


async def test_what_it_is_not_for_is_refused(load: Load):
    embedder = await load("embed")
    assert embedder.capabilities == frozenset({Capability.EMBED})
    assert (embedder.context_tokens, embedder.chat_template) == (512, None)
    request = GenerateRequest(prompt=("x",), sampling=SamplingParams())
    with pytest.raises(MissingCapabilityError, match="no generating model"):
        await anext(embedder.generate(request))
    with pytest.raises(MissingCapabilityError, match="no reranking model"):
        await embedder.rerank("x", ["y"])
    with pytest.raises(MissingCapabilityError):
        await embedder.tokenize("x")


async def test_a_reranker_does_not_embed(load: Load):
    reranker = await load("rerank")
    assert reranker.capabilities == frozenset({Capability.RERANK})
    with pytest.raises(MissingCapabilityError, match="no embedding model"):
        await reranker.embed(["x"])


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("break_it", "says"),
    [
        pytest.param(lambda path: write(path, b""), "cannot load .*model.onnx: ", id="empty"),
        pytest.param(lambda path: write(path, b"junk"), "cannot load .*model.onnx: ", id="junk"),
        pytest.param(
            lambda path: write(path, write_embedder(path, VECTORS).read_bytes()[:300]),
            "cannot load .*model.onnx: ",
            id="cut",
        ),
        pytest.param(
            lambda path: write_reranker(path, WEIGHTS),
            r"no model to embed with: .* shape \[1, 1\] instead of \[1, tokens, width\]",
            id="of-the-other-task",
        ),
        pytest.param(
            lambda path: write_embedder(path, VECTORS, inputs=("ids", "attention_mask")),
            r"no encoder of texts: its inputs are ids tensor\(int64\), attention_mask",
            id="other-inputs",
        ),
        pytest.param(
            lambda path: write_embedder(path, VECTORS[:2]), "model.onnx failed: ", id="few-words"
        ),
    ],
)
async def test_a_wrong_model_is_told(
    load: Load, tmp_path: Path, break_it: Callable[[Path], object], says: str
):
    break_it(tmp_path / "model.onnx")
    with pytest.raises(BackendError, match=says):
        await load("embed")


async def test_an_embedder_is_no_reranker(load: Load, tmp_path: Path):
    write_embedder(tmp_path / "model.onnx", VECTORS)
    with pytest.raises(BackendError, match="no model to rerank with"):
        await load("rerank")


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff"])
async def test_a_wrong_tokenizer_is_told(load: Load, tmp_path: Path, content: bytes):
    write(tmp_path / "tokenizer.json", content)
    with pytest.raises(BackendError, match=r"tokenizer\.json is no tokenizer that can be read: "):
        await load("embed")


async def test_without_the_extra_its_name_is_told(load: Load, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # What an import then finds is nothing.
    with pytest.raises(BackendError, match=r"pip install 'composer-lsp\[onnx\]'"):
        await load("embed")


async def test_a_word_that_the_model_does_not_know_costs_its_text_alone(load: Load, tmp_path: Path):
    write_embedder(tmp_path / "model.onnx", VECTORS[: WORDS.index("blue")])
    backend = await load("embed")
    with pytest.raises(BackendError, match="model.onnx failed: "):
        await backend.embed(["blue"])
    assert await backend.embed(["red"]) == [pytest.approx([1, 0, 0])]


@pytest.mark.parametrize("task", ["embed", "rerank"])
async def test_no_vector_and_no_score_is_no_number(load: Load, tmp_path: Path, task: Task):
    path = tmp_path / "model.onnx"
    broken = math.nan
    if task == "embed":
        write_embedder(path, [*VECTORS[:4], (broken, 0, 0)])
    else:
        write_reranker(path, [*WEIGHTS[:4], broken])
    backend = await load(task)
    with pytest.raises(BackendError, match="what are no numbers: it is damaged"):
        await (backend.embed(["red"]) if task == "embed" else backend.rerank("x", ["red"]))


@pytest.mark.parametrize(
    ("task", "threads", "expected"),
    [("embed", 1, 1), ("embed", 2, 1), ("embed", 8, 2), ("rerank", 1, 1), ("rerank", 8, 8)],
)
def test_embedding_takes_few_threads(task: Task, threads: int, expected: int):
    path = Path("x")
    config = OnnxConfig(path=path, tokenizer_path=path, task=task, threads=threads)
    assert config.compute_threads == expected


@pytest.mark.skipif(sys.platform != "linux", reason="only there a thread has a niceness")
async def test_embedding_alone_gives_way_to_everything_else(load: Load):
    def niceness() -> list[int]:
        tasks = Path("/proc/self/task").iterdir()
        return [os.getpriority(os.PRIO_PROCESS, int(task.name)) for task in tasks]

    before = niceness()
    await load("embed")
    after = niceness()
    for value in before:
        after.remove(value)
    assert after and set(after) == {before[0] + NICENESS}
    assert os.getpriority(os.PRIO_PROCESS, 0) == before[0]


async def test_closing_waits_for_the_text_under_way(load: Load):
    backend = await load("embed")
    embedding = asyncio.create_task(backend.embed(["red"]))
    await asyncio.sleep(0)
    await backend.close()
    assert await embedding == [pytest.approx([1, 0, 0])]
