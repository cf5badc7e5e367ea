"""POST /v1/embeddings, /v1/rerank and /tokenize."""

import httpx
import openai
import pytest

from composer_inference.backends.base import Capability
from tests.support.played import PlayedBackend, PlayedLoader

ALL = (Capability.EMBED, Capability.RERANK, Capability.TOKENIZE)


@pytest.fixture
def engine(serve, client):
    return client(serve(loader=PlayedLoader(PlayedBackend(capabilities=ALL))))


@pytest.mark.parametrize(("given", "num"), [("ab", 1), (["ab", "c"], 2)])
def test_embeddings(engine, given, num):
    answer = engine.post("/v1/embeddings", json={"model": "played", "input": given}).json()
    assert answer["object"] == "list"
    assert len(answer["data"]) == num
    assert answer["data"][0] == {"object": "embedding", "index": 0, "embedding": [2.0, 0.5]}
    assert answer["usage"]["prompt_tokens"] == (2 if num == 1 else 3)


def test_openais_client_gets_embeddings(serve):
    path = serve(loader=PlayedLoader(PlayedBackend(capabilities=ALL)))
    http = httpx.Client(transport=httpx.HTTPTransport(uds=str(path)))
    with openai.OpenAI(base_url="http://engine/v1", api_key="none", http_client=http) as api:
        answer = api.embeddings.create(model="played", input=["ab"])
        assert answer.data[0].embedding == [2.0, 0.5]
        answer = api.embeddings.create(model="played", input=["ab"], encoding_format="float")
        assert answer.data[0].embedding == [2.0, 0.5]


def test_a_model_that_cannot_count_reports_no_usage(serve, client):
    engine = client(serve(loader=PlayedLoader(PlayedBackend(capabilities=[Capability.EMBED]))))
    assert engine.post("/v1/embeddings", json={"input": "ab"}).json()["usage"] is None


def test_rerank(engine):
    body = {"query": "a", "documents": ["b", "aa", "ab"], "top_n": 2}
    results = engine.post("/v1/rerank", json=body).json()["results"]
    assert results == [
        {"index": 1, "relevance_score": 2.0},
        {"index": 2, "relevance_score": 1.0},
    ]
    assert len(engine.post("/v1/rerank", json={**body, "top_n": None}).json()["results"]) == 3


def test_tokenize(engine):
    assert engine.post("/tokenize", json={"content": "ab"}).json() == {"tokens": [97, 98]}


@pytest.mark.parametrize(
    ("path", "body", "names"),
    [
        ("/v1/embeddings", {}, "input"),
        ("/v1/embeddings", {"input": [1, 2]}, "input is [1, 2]"),
        ("/v1/embeddings", {"input": "x", "dimensions": 5}, "dimensions"),
        ("/v1/embeddings", {"input": "x", "encoding_format": "int8"}, "encoding_format"),
        ("/v1/rerank", {"documents": ["x"]}, "query"),
        ("/v1/rerank", {"query": "x"}, "documents"),
        ("/v1/rerank", {"query": "x", "documents": ["y"], "top_n": 0}, "top_n is 0"),
        ("/tokenize", {"content": ["x"]}, "content"),
    ],
)
def test_a_bad_field_is_named(engine, path, body, names):
    answer = engine.post(path, json=body)
    assert answer.status_code == 400
    assert names in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"input": "x"}),
        ("/v1/rerank", {"query": "x", "documents": ["y"]}),
        ("/tokenize", {"content": "x"}),
    ],
)
def test_a_model_that_cannot_is_told(serve, client, path, body):
    engine = client(serve(loader=PlayedLoader(PlayedBackend(capabilities=()))))
    answer = engine.post(path, json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unsupported")
