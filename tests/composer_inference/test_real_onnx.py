"""The catalogue's embedder and reranker, where they are installed: `composer-lsp model pull NAME`."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from composer_inference.backends.onnx import OnnxBackend, OnnxConfig, Task
from composer_inference.models.catalog import BGE_SMALL_EN, MS_MARCO_MINILM_L12, ModelSpec
from tests.support.models import model_path

pytestmark = pytest.mark.model

SNIPPETS = {
    "add two numbers": "def add(a, b):\n    return a + b",
    "retry a failed HTTP request with growing pauses": (
        "def fetch(url, tries=3):\n    for attempt in range(tries):\n        try:\n"
        "            return client.get(url)\n        except ConnectionError:\n"
        "            time.sleep(2 ** attempt)"
    ),
    "remove a directory and everything in it": "func wipe(dir string) error { return os.RemoveAll(dir) }",
    "list users sorted by age": "SELECT name FROM users ORDER BY age",
    "read a JSON configuration file": "with open(path) as file:\n    settings = json.load(file)",
}

Load = Callable[[ModelSpec, Task], Awaitable[OnnxBackend]]


@pytest.fixture
async def load() -> AsyncIterator[Load]:
    loaded: list[OnnxBackend] = []

    async def load_spec(spec: ModelSpec, task: Task) -> OnnxBackend:
        path = model_path(spec.name)
        tokenizer = path.with_name("tokenizer.json")
        backend = await OnnxBackend.load(
            OnnxConfig(path=path, tokenizer_path=tokenizer, task=task, threads=2)
        )
        loaded.append(backend)
        return backend

    yield load_spec
    for backend in loaded:
        await backend.close()


async def test_a_question_is_nearest_to_the_code_that_answers_it(load: Load):
    backend = await load(BGE_SMALL_EN, "embed")
    codes = await backend.embed(list(SNIPPETS.values()))
    questions = await backend.embed(list(SNIPPETS))
    assert {len(vector) for vector in codes} == {384}
    for index, question in enumerate(questions):
        nearness = [sum(a * b for a, b in zip(question, code, strict=True)) for code in codes]
        assert nearness.index(max(nearness)) == index


async def test_a_vector_depends_on_its_text_alone(load: Load):
    backend = await load(BGE_SMALL_EN, "embed")
    together = await backend.embed([*SNIPPETS.values(), "x = 1\n" * 300])
    for text, vector in zip(SNIPPETS.values(), together, strict=False):
        assert await backend.embed([text]) == [vector]


async def test_the_right_passage_ranks_first(load: Load):
    """Of code without a word of English it has nothing to say: it was trained on passages."""
    backend = await load(MS_MARCO_MINILM_L12, "rerank")
    passages = {
        "how are two numbers added": "def add(a, b): return a + b  # the sum of two numbers",
        "retry a failed request": "# Try the request again when it failed\ndef fetch(url, tries=3):",
        "delete a folder": "// wipe deletes the directory and every file in it",
        "read the settings file": '"""Reads the settings from a JSON file."""',
    }
    for index, question in enumerate(passages):
        scores = await backend.rerank(question, list(passages.values()))
        assert scores.index(max(scores)) == index
        assert 1 > max(scores) > 100 * sorted(scores)[-2] > 0
