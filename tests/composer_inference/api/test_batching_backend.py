"""What only some backends can do: drafts, weights that are replaced, token ids, what a model takes."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from composer_inference.api.app import create_app
from composer_inference.backends.base import Capability, GenerateRequest
from composer_inference.engine import Engine
from tests.composer_inference.api.batching_backend import BatchingBackend
from tests.support.played import PlayedBackend, PlayedLoader

CHAT = {"messages": [{"role": "user", "content": "xy"}]}
PATHS = {"/v1/completions": {"prompt": "xy"}, "/v1/chat/completions": CHAT}
OLD = {"type": "content", "content": "the old text"}
LS = {"type": "function", "function": {"name": "ls"}}


def client_of(backend: PlayedBackend) -> httpx.AsyncClient:
    app = create_app(Engine(PlayedLoader(backend), on_drain=lambda: None), token=None)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://engine")


@pytest.fixture
def backend() -> BatchingBackend:
    return BatchingBackend("abc")


@pytest.fixture
async def http(backend: BatchingBackend) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(backend) as client:
        yield client


async def ask(http: httpx.AsyncClient, path: str, **body: Any) -> dict[str, Any]:
    answer = await http.post(path, json={**PATHS[path], **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def stream(http: httpx.AsyncClient, path: str, **body: Any) -> list[dict[str, Any]]:
    answer = await http.post(path, json={**PATHS[path], **body, "stream": True})
    *events, _ = answer.text.strip().split("\n\n")
    return [json.loads(event.removeprefix("data: ")) for event in events]


@pytest.mark.parametrize("path", PATHS)
async def test_a_prediction_is_the_draft(
    http: httpx.AsyncClient, backend: BatchingBackend, path: str
):
    body = await ask(http, path, prediction=OLD, n=2)
    assert [request.draft_text for request in backend.requests] == ["the old text"] * 2
    assert body["usage"]["completion_tokens_details"] == {
        "accepted_prediction_tokens": 6,
        "rejected_prediction_tokens": 4,
    }
    assert (body["timings"]["num_drafted"], body["timings"]["num_draft_accepted"]) == (10, 6)
    *_, last = await stream(http, path, prediction=OLD)
    assert last["usage"]["completion_tokens_details"]["accepted_prediction_tokens"] == 3


@pytest.mark.parametrize("path", PATHS)
async def test_a_prediction_that_nobody_can_use(path: str):
    backend = PlayedBackend("abc")
    async with client_of(backend) as http:
        usage = (await ask(http, path, prediction=OLD))["usage"]
        *_, last = await stream(http, path, prediction=OLD)
    assert usage["composer"] == last["usage"]["composer"] == {"prediction": "unsupported"}
    assert "completion_tokens_details" not in usage
    assert backend.requests[0].draft_text is None


@pytest.mark.parametrize("path", PATHS)
async def test_the_tokens_ids(http: httpx.AsyncClient, path: str):
    [choice] = (await ask(http, path, return_token_ids=True))["choices"]
    assert choice["token_ids"] == [97, 98, 99]
    events = await stream(http, path, return_token_ids=True)
    ids = [event["choices"][0]["token_ids"] for event in events]
    assert [token for part in ids for token in part] == [97, 98, 99]
    assert "token_ids" not in (await ask(http, path))["choices"][0]


@pytest.mark.parametrize("capabilities", [[Capability.GRAMMAR], []], ids=["grammar", "none"])
async def test_the_token_ids_of_a_call(capabilities: list[Capability]):
    call = '{"name": "ls", "arguments": {}}'

    def answer(request: GenerateRequest) -> str:
        if not capabilities:
            return f"hi<tool_call>{call}</tool_call>"
        return call if request.json_schema is not None else "hi<tool_call>"

    async with client_of(PlayedBackend(answer, capabilities=capabilities)) as http:
        body = await ask(
            http,
            "/v1/chat/completions",
            return_token_ids=True,
            tools=[LS],
            parallel_tool_calls=False,
        )
    [choice] = body["choices"]
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "ls"
    assert call in "".join(map(chr, choice["token_ids"]))
    assert "".join(map(chr, choice["token_ids"])).startswith("hi")


@pytest.mark.parametrize("path", PATHS)
async def test_the_version_of_the_weights(
    http: httpx.AsyncClient, backend: BatchingBackend, path: str
):
    assert (await ask(http, path))["composer"] == {"weights_version": 4}
    *before, last = await stream(http, path)
    assert last["composer"] == {"weights_version": 4}
    assert not any("composer" in event for event in before)
    tools = {"tools": [LS]} if "chat" in path else {}
    assert (await ask(http, path, **tools))["composer"] == {"weights_version": 4}


async def test_the_oldest_version_counts_of_an_answer_in_parts():
    def answer(request: GenerateRequest) -> str:
        if request.json_schema is None:
            return "<tool_call>"
        backend.weights_version += 1
        return '{"name": "ls", "arguments": {}}'

    backend = BatchingBackend(answer)
    async with client_of(backend) as http:
        body = await ask(http, "/v1/chat/completions", tools=[LS], parallel_tool_calls=False)
    assert (backend.weights_version, body["composer"]) == (5, {"weights_version": 4})


async def test_other_weights_in_place(http: httpx.AsyncClient, tmp_path: Path):
    (tmp_path / "config.json").write_text("{}")
    answer = await http.post("/v1/composer/reload", json={"model": "played", "path": str(tmp_path)})
    assert (answer.status_code, answer.json()) == (200, {"weights_version": 5})
    assert (await ask(http, "/v1/completions"))["composer"] == {"weights_version": 5}


@pytest.mark.parametrize(
    ("path", "says"),
    [
        pytest.param(None, "path is null", id="none"),
        pytest.param("some/folder", "must be absolute", id="relative"),
        pytest.param("/nonesuch", "there is no /nonesuch", id="missing"),
        pytest.param("/", "/ holds no model", id="other"),
    ],
)
async def test_weights_that_cannot_be_used(http: httpx.AsyncClient, path: str | None, says: str):
    answer = await http.post("/v1/composer/reload", json={"path": path})
    assert answer.status_code == 400
    assert says in answer.json()["error"]["message"]
    assert (await ask(http, "/v1/completions"))["composer"] == {"weights_version": 4}


async def test_a_backend_that_keeps_its_weights(tmp_path: Path):
    async with client_of(PlayedBackend("abc")) as http:
        answer = await http.post("/v1/composer/reload", json={"path": str(tmp_path)})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unsupported")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("field", ["frequency_penalty", "presence_penalty"])
async def test_penalties_go_to_a_backend_that_counts(path: str, field: str):
    backend = PlayedBackend("abc", capabilities=[Capability.COUNT_PENALTIES])
    async with client_of(backend) as http:
        await ask(http, path, **{field: -1.5})
    assert getattr(backend.requests[0].sampling, field) == -1.5


async def test_router_choices_of_a_call_are_refused(http: httpx.AsyncClient):
    body = {**CHAT, "tools": [LS], "return_router_choices": True}
    answer = await http.post("/v1/chat/completions", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "return_router_choices")


async def test_what_a_model_takes_is_measured(http: httpx.AsyncClient):
    assert "composer_model_" not in (await http.get("/metrics")).text
    await ask(http, "/v1/completions")
    text = (await http.get("/metrics")).text
    values = dict(re.findall(r'^composer_model_(\w+)\{model="played"\} (\d+)$', text, re.M))
    assert values == {
        "weights_bytes": "1000",
        "kv_cache_bytes": "2000",
        "running_requests": "0",
        "waiting_requests": "6",
        "steps_total": "11",
        "computed_tokens_total": "120",
        "drafted_tokens_total": "5",
        "accepted_tokens_total": "3",
    }
    blocks = re.findall(r'composer_model_kv_blocks\{model="played",state="(\w+)"\} (\d+)', text)
    assert blocks == [("free", "7"), ("cached", "2"), ("held", "3")]
    assert text.count("# TYPE composer_model_kv_blocks gauge") == 1
    assert "# TYPE composer_model_steps_total counter" in text
    assert "composer_waiting_requests 6" in text, "a backend's own queue counts"
