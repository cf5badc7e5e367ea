"""Vectors by a server: what it is sent, what of its answers is taken, what is told when it fails."""

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from io import BufferedIOBase
from typing import Any

import numpy as np
import pytest

from composer_index.embedding.served import MAX_CHARS, ServedEmbedder
from composer_index.embedding.server import (
    FIRST_WAIT_S,
    EngineAwayError,
    ModelServer,
    ModelServerError,
    ServedModel,
)
from tests.support.model_server import FakeModels, model_server

LIMIT_S = 60
HEADERS = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n"


@pytest.fixture
def models() -> Iterator[FakeModels]:
    with model_server() as models:
        yield models


def with_data(**fields: Any) -> Callable[[Any], Any]:
    """Changes each of an answer's items."""
    return lambda answer: {"data": [{**item, **fields} for item in answer["data"]]}


def ask(server: ModelServer) -> Mapping[str, Any]:
    return server.post("embeddings", {"input": ["a"]}, lambda answer: answer, max_bytes=100_000)


def served(models: FakeModels, model: str = "tiny", **fields: Any) -> ServedEmbedder:
    at = ServedModel(model=model, origin=models.url, url=models.url, **fields)
    return ServedEmbedder(ModelServer(at))


def test_vectors_come_in_the_order_of_the_texts_and_of_length_one(models: FakeModels):
    embedder = served(models)
    vectors = embedder.embed(["what a price", "the weather", "cost and cost"])
    assert vectors.dtype == np.float32
    assert vectors.shape == (3, models.dim)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)
    expected = models.vector("the weather") / np.linalg.norm(models.vector("the weather"))
    np.testing.assert_allclose(vectors[1], expected, rtol=1e-6)
    assert embedder.embed([]).shape == (0, models.dim)


def test_the_name_tells_the_model_the_server_and_the_dimensions(models: FakeModels):
    embedder = served(models)
    assert not embedder.made(embedder.name)
    embedder.connect()
    other = served(models)
    assert other.made(embedder.name)  # as far as is known
    models.dim = 32
    other.connect()
    assert not other.made(embedder.name)
    assert not served(models, model="small").made(embedder.name)


@pytest.mark.parametrize(
    ("model", "query_prefix", "prefix"),
    [
        ("bge-small-en", "Represent this sentence for searching relevant passages: ", ""),
        ("BAAI/bge-m3", "", ""),
        ("nomic-embed-text", "search_query: ", "search_document: "),
        ("multilingual-e5-small", "query: ", "passage: "),
        ("text-embedding-3-small", "", ""),
    ],
)
def test_a_query_is_not_embedded_as_a_passage(
    models: FakeModels, model: str, query_prefix: str, prefix: str
):
    embedder = served(models, model=model)
    embedder.embed_query("what it costs")
    embedder.embed(["def price(): ..."])
    assert models.texts[0] == f"{query_prefix}what it costs"
    assert models.texts[-1] == f"{prefix}def price(): ..."
    assert {body["model"] for body in models.requests} == {model}
    assert models.priorities[0] == "agent"
    assert models.priorities[-1] == "background"


def test_the_key_is_sent_and_not_shown(models: FakeModels):
    embedder = served(models, api_key="abc-123")
    embedder.connect()
    assert models.keys == ["Bearer abc-123"]
    assert "abc-123" not in repr(embedder.server.served)


def test_texts_are_bounded(models: FakeModels):
    served(models).embed(["word " * MAX_CHARS])
    assert len(models.texts[-1]) == MAX_CHARS


def test_what_is_refused_for_its_length_is_shortened_and_costs_the_others_nothing(
    models: FakeModels,
):
    def too_long(body: dict[str, Any]) -> tuple[int, str] | None:
        is_long = any(len(text) > 300 for text in body["input"])
        return (400, "input is too large") if is_long else None

    models.fails = too_long
    texts = ["a price", "weather " * 100, "another price"]
    vectors = served(models).embed(texts)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(vectors[1] @ vectors[0], 0, atol=1e-6)


def test_a_text_that_is_refused_however_short_has_no_vector(models: FakeModels):
    models.fails = lambda body: (400, "no") if "poison" in str(body["input"]) else None
    vectors = served(models).embed(["fine", "poison " * 200])
    assert [bool(row.any()) for row in vectors] == [True, False]


def refusing(status: int, message: str):
    return lambda body: (status, message)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fails": refusing(404, "model 'tiny' is not installed")}, "404: model 'tiny' is not"),
        ({"fails": refusing(401, "who are you")}, "who are you. Its key is named by the setting"),
        ({"fails": refusing(501, "start it with --embeddings")}, "start it with --embeddings"),
        ({"fails": refusing(400, "no such thing")}, "no such thing. Is it an embedding model?"),
        ({"fails": refusing(503, "loading")}, "503: loading"),
        ({"fails": refusing(500, "model.onnx is damaged")}, "500: model.onnx is damaged$"),
        ({"spoil": lambda vector: [math.nan] * 64}, "not finite"),
        ({"spoil": lambda vector: [None] * 64}, "not finite"),
        ({"spoil": lambda vector: [vector]}, "other than one vector a text"),
        ({"spoil": lambda vector: "abc"}, "other than one vector a text"),
        ({"spoil": lambda vector: []}, "other than one vector a text"),
        ({"spoil": lambda vector: [True, False] * 4}, "other than one vector a text"),
        ({"spoil": lambda vector: ["1"] * 8}, "other than one vector a text"),
        ({"spoil": lambda vector: [10**400] * 8}, "not finite"),
        ({"spoil": lambda vector: [1e38] * 8}, "a vector of length 3e\\+38"),
        ({"spoil": lambda vector: [1e308] * 8}, "a vector of length inf"),
        ({"spoil": lambda vector: [0] * 8}, "a vector of zeros"),
        ({"spoil": lambda vector: [0.5]}, "vectors of 1 numbers.* Is it an embedding model"),
        ({"spoil": lambda vector: [0.5] * 8193}, "vectors of 8,193 numbers"),
        ({"spoil_answer": with_data(index=[0])}, "which text each is for"),
        ({"spoil_answer": with_data(index=False)}, "which text each is for"),
        ({"spoil_answer": with_data(index=0.0)}, "which text each is for"),
        ({"spoil_answer": with_data(index=1)}, "which text each is for"),
        ({"spoil_answer": lambda answer: {"data": []}}, "gave 0 vectors for 1 texts"),
        ({"spoil_answer": lambda answer: {"data": answer["data"] * 2}}, "gave 2 vectors"),
        ({"spoil_answer": lambda answer: {"data": ["a"]}}, "without a list of data"),
        ({"spoil_answer": lambda answer: {"data": {"a": 1}}}, "without a list of data"),
        ({"spoil_answer": lambda answer: answer["data"]}, "other than a JSON object"),
        (
            {"fails": refusing(503, "\x1b]0;mine\x07\x1b[31mred")},
            r"\\x1b]0;mine\\x07\\x1b\[31mred$",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_answer_that_cannot_be_used_is_told(
    models: FakeModels, change: dict[str, Any], message: str
):
    for name, value in change.items():
        setattr(models, name, value)
    embedder = served(models)
    with pytest.raises(ModelServerError, match=message) as caught:
        embedder.embed(["text"])
    assert models.url in str(caught.value)
    assert embedder.server.problem == str(caught.value)
    assert embedder.server.wait_s > 0


def test_a_server_that_fails_is_left_alone_for_growing_spells(models: FakeModels):
    models.fails = lambda body: (503, "loading")
    server = served(models).server
    waits: list[float] = []
    for _ in range(3):
        server._ready_at = 0.0  # pyright: ignore[reportPrivateUsage] - the spell is over
        with pytest.raises(ModelServerError):
            ask(server)
        waits.append(server.wait_s)
    assert waits[0] < waits[1] < waits[2]
    with pytest.raises(ModelServerError, match="loading"):
        ask(server)
    assert len(models.requests) == 3
    server._ready_at = 0.0  # pyright: ignore[reportPrivateUsage]
    models.fails = lambda body: None
    ask(server)
    assert (server.wait_s, server.problem) == (0, "")


def test_other_dimensions_under_the_same_name_are_another_model(models: FakeModels):
    embedder = served(models)
    embedder.connect()
    before = embedder.name
    models.dim = 32
    with pytest.raises(ModelServerError, match="gave 32 dimensions after 64"):
        embedder.embed(["text"])
    embedder.server._ready_at = 0.0  # pyright: ignore[reportPrivateUsage]
    assert embedder.embed(["text"]).shape == (1, 32)
    assert embedder.name != before


@pytest.mark.parametrize("url", ["", "http://127.0.0.1:9/v1/"])
def test_the_engine_is_woken_where_it_is_not_there_and_others_are_not(url: str):
    woken: list[str] = []
    for is_engine in (True, False):
        at = ServedModel(model="tiny", origin="fake", url=url, is_engine=is_engine)
        embedder = ServedEmbedder(ModelServer(at, lambda: woken.append("woken")))
        for _ in range(2):  # The second time it is told again without a try.
            with pytest.raises(ModelServerError, match="fake cannot be reached") as caught:
                embedder.connect()
            assert isinstance(caught.value, EngineAwayError) == is_engine
    assert woken == ["woken"]


def test_an_answer_that_numbers_nothing_is_in_the_order_of_the_texts(models: FakeModels):
    texts = ["what a price", "the weather"]
    expected = served(models).embed(texts)
    models.spoil_answer = lambda answer: {
        "data": [{"embedding": item["embedding"]} for item in answer["data"][::-1]]
    }
    np.testing.assert_array_equal(served(models).embed(texts), expected)


def test_a_text_that_the_model_has_zeros_for_has_no_vector(models: FakeModels):
    vectors = served(models).embed(["fine", "1 + 1"])  # where the fake model knows no word
    assert [bool(row.any()) for row in vectors] == [True, False]


def test_a_server_that_comes_to_give_zeros_is_told(models: FakeModels):
    embedder = served(models)
    embedder.connect()
    models.spoil = lambda vector: [0.0] * len(vector)
    with pytest.raises(ModelServerError, match="a vector of zeros"):
        embedder.embed(["text"])


def test_a_server_whose_answers_cannot_be_used_is_left_alone_for_growing_spells(
    models: FakeModels,
):
    models.spoil = lambda vector: [None] * 64
    embedder = served(models)
    waits: list[float] = []
    for _ in range(3):
        embedder.server._ready_at = 0.0  # pyright: ignore[reportPrivateUsage] - the spell is over
        with pytest.raises(ModelServerError):
            embedder.connect()
        waits.append(embedder.server.wait_s)
    assert waits[0] <= FIRST_WAIT_S < waits[1] < waits[2]


@pytest.mark.parametrize("start", [HEADERS + b"X-Slow: ", HEADERS + b"\r\n"], ids=["head", "body"])
def test_a_server_that_drips_bytes_is_cut_off(models: FakeModels, start: bytes):
    is_cut_off = threading.Event()

    def drip(connection: BufferedIOBase) -> None:
        try:
            connection.write(start)
            for _ in range(500):
                connection.write(b" ")
                connection.flush()
                is_cut_off.wait(0.02)
        except ConnectionError:
            is_cut_off.set()

    models.write = drip
    with pytest.raises(ModelServerError, match="did not answer within 0.2 s"):
        served(models, timeout_s=0.2).connect()
    assert is_cut_off.wait(LIMIT_S)


def test_an_answer_without_end_is_cut_off(models: FakeModels):
    is_cut_off = threading.Event()

    def write(connection: BufferedIOBase) -> None:
        try:
            connection.write(HEADERS + b"\r\n")
            for _ in range(300):
                connection.write(b" " * 1_000_000)
        except ConnectionError:
            is_cut_off.set()

    models.write = write
    with pytest.raises(ModelServerError, match="more than an answer needs"):
        served(models).connect()
    assert is_cut_off.wait(LIMIT_S)


def test_an_answer_that_is_packed_unasked_is_not_unpacked(models: FakeModels):
    def write(connection: BufferedIOBase) -> None:
        headers = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n"
        connection.write(headers + b"{}")

    models.write = write
    with pytest.raises(ModelServerError, match="packed, by gzip"):
        served(models).connect()


def test_the_largest_answers_that_are_asked_for_have_room(models: FakeModels):
    models.spoil = lambda vector: [-1.2345678901234567e-05] * 8192
    assert served(models).embed(["text"] * 8).shape == (8, 8192)
