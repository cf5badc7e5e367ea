"""Bodies, routes and failures that no single endpoint owns; the application in-process."""

import json
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.types import Message

from composer_inference.api.app import create_app
from composer_inference.engine import Engine
from tests.support.played import PlayedBackend, PlayedLoader


@pytest.fixture
def engine() -> Engine:
    return Engine(PlayedLoader(PlayedBackend("abc")), on_drain=lambda: None)


@pytest.fixture
async def http(engine: Engine) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_app(engine, token=None), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
        yield client


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(b"", "no JSON", id="empty"),
        pytest.param(b'{"prompt": "x"', "no JSON", id="cut"),
        pytest.param(b'"x"', "no JSON object", id="text"),
        pytest.param(b'\xff\xfe{"a"', "no JSON", id="no-utf8"),
        pytest.param(b'{"prompt": "x", "temperature": NaN}', "NaN is no number", id="nan"),
        pytest.param(b'{"prompt": "x", "top_p": Infinity}', "Infinity is no number", id="infinity"),
        pytest.param(b'{"prompt": "\\ud83d"}', "half of a surrogate pair", id="surrogate"),
        pytest.param(b'{"x": [{"\\uDC00": 1}], "prompt": "x"}', "surrogate", id="surrogate-key"),
        pytest.param(b'{"x": ' + b"[" * 100_000, "nested too deeply", id="deep"),
    ],
)
async def test_a_body_that_is_none(http: httpx.AsyncClient, content: bytes, says: str):
    answer = await http.post("/v1/completions", content=content)
    assert answer.status_code == 400
    assert says in answer.json()["error"]["message"]


async def test_a_whole_surrogate_pair_is_a_character(http: httpx.AsyncClient):
    answer = await http.post("/v1/completions", content=b'{"prompt": "\\ud83d\\ude00"}')
    assert answer.json()["choices"][0]["text"] == "abc"


async def test_a_body_without_a_length_is_limited_as_well(http: httpx.AsyncClient):
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(17):
            yield b"x" * 2**20

    answer = await http.post("/v1/completions", content=endless())
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nothing", 404, "not_found"),
        ("GET", "/v1/completions", 405, "method_not_allowed"),
        ("POST", "/health", 405, "method_not_allowed"),
        ("GET", "/v1/models/gone", 404, "model_not_found"),
    ],
)
async def test_routes_that_are_none(http: httpx.AsyncClient, method, path, status, code):
    answer = await http.request(method, path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("model", "status", "code", "says"),
    [
        ("gone", 404, "model_not_found", "composer-lsp model pull gone"),
        ("broken", 500, "model_load_failed", "broken.gguf is cut short"),
    ],
)
async def test_models_that_do_not_answer(http, model, status, code, says, stream):
    body = {"model": model, "prompt": "x", "stream": stream}
    answer = await http.post("/v1/completions", json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (status, code, "model")
    assert says in error["message"]
    assert (await http.post("/composer/load", json={"model": model})).status_code == status


async def test_one_model(http: httpx.AsyncClient):
    model = (await http.get("/v1/models/played")).json()
    assert model["id"] == "played"
    assert model["composer"]["size_bytes"] == 7
    listed = (await http.get("/v1/models")).json()["data"]
    assert model in listed


async def test_an_error_in_the_middle_of_a_stream_is_an_event_and_the_last():
    backend = PlayedBackend(lambda request: "no" if request.json_schema else "Well <tool_call>")
    transport = httpx.ASGITransport(
        create_app(Engine(PlayedLoader(backend), on_drain=lambda: None), token=None)
    )
    body = {
        "messages": [{"role": "user", "content": "x"}],
        "tools": [{"type": "function", "function": {"name": "f"}}],
        "stream": True,
    }
    async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
        answer = await client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200
    events = answer.text.strip().split("\n\n")
    assert "[DONE]" not in answer.text
    error = json.loads(events[-1].removeprefix("data: "))["error"]
    assert error["type"] == "invalid_request_error"
    assert "was not enforced" in error["message"]
    assert json.loads(events[0].removeprefix("data: "))["choices"][0]["delta"]["content"] == "W"


async def test_our_own_fault_is_told_without_its_text(http: httpx.AsyncClient):
    def fail(_: object) -> str:
        raise RuntimeError("secret")

    backend = PlayedBackend(fail)
    app = create_app(Engine(PlayedLoader(backend), on_drain=lambda: None), token=None)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
        answer = await client.post("/v1/completions", json={"prompt": "x"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal_error")
    assert "secret" not in answer.text


async def test_usage_in_an_event_of_its_own(http: httpx.AsyncClient):
    body = {"prompt": "xy", "stream": True, "stream_options": {"include_usage": True}}
    answer = await http.post("/v1/completions", json=body)
    *events, done = answer.text.strip().split("\n\n")
    assert done == "data: [DONE]"
    parsed = [json.loads(event.removeprefix("data: ")) for event in events]
    assert parsed[-1]["choices"] == []
    assert parsed[-1]["usage"] == {
        "prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 0},
    }  # fmt: skip
    assert all("usage" not in event for event in parsed[:-1])


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("num", [0, 2])
async def test_log_probabilities_of_a_completion(http: httpx.AsyncClient, num: int, stream: bool):
    body = {"prompt": "x", "logprobs": num, "stream": stream}
    answer = await http.post("/v1/completions", json=body)
    if stream:
        events = answer.text.strip().split("\n\n")[:-1]
        found = [json.loads(event[6:])["choices"][0]["logprobs"] for event in events]
        whole = {name: [item for part in found for item in part[name]] for name in found[0]}
    else:
        whole = answer.json()["choices"][0]["logprobs"]
    assert whole["tokens"] == ["a", "b", "c"]
    assert whole["token_logprobs"] == [-0.5] * 3
    assert whole["text_offset"] == [0, 1, 2]
    assert [len(top) for top in whole["top_logprobs"]] == [num] * 3


async def test_a_text_has_one_grammar(http: httpx.AsyncClient):
    body = {"prompt": "x", "grammar": 'root ::= "a"', "json_schema": {}}
    answer = await http.post("/v1/completions", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "grammar")
    assert "json_schema" in answer.json()["error"]["message"]


async def test_a_client_that_leaves_amid_its_body_is_no_failure(engine: Engine):
    arriving: list[Message] = [
        {"type": "http.request", "body": b'{"prompt"', "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        return arriving.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    path = "/v1/completions"
    scope = {"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b""}
    await create_app(engine, token=None)(scope, receive, send)
    assert sent[0]["status"] == 499
