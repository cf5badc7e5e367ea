"""Several answers to one request."""

import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from composer_inference.api.app import create_app
from composer_inference.backends.base import BackendError, GenerateRequest
from composer_inference.engine import Engine
from tests.composer_inference.api.batching_backend import LIMIT_S, BatchingBackend
from tests.support.played import HANG, PlayedBackend, PlayedLoader

TEXTS = {7: "a", 8: "bcd", 9: "ef"}
PATHS = {
    "/v1/completions": {"prompt": "xy"},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "xy"}]},
}


def by_seed(request: GenerateRequest) -> str:
    assert request.sampling.seed is not None
    return TEXTS[request.sampling.seed]


async def post(backend: PlayedBackend, path: str, **body: Any) -> httpx.Response:
    app = create_app(Engine(PlayedLoader(backend), on_drain=lambda: None), token=None)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://engine") as http:
        return await http.post(path, json={**PATHS[path], **body})


def events_of(answer: httpx.Response) -> list[dict[str, Any]]:
    *events, done = answer.text.strip().split("\n\n")
    assert done == "data: [DONE]", answer.text
    return [json.loads(event.removeprefix("data: ")) for event in events]


def text_of(choice: dict[str, Any]) -> str:
    said = choice.get("delta", choice.get("message", {}))
    return choice.get("text", said.get("content", ""))


@pytest.mark.parametrize("path", PATHS)
async def test_they_are_computed_together(path: str):
    backend = BatchingBackend(by_seed, num_together=3)
    body = (await post(backend, path, n=3, seed=7)).json()
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2]
    assert [text_of(choice) for choice in body["choices"]] == ["a", "bcd", "ef"]
    assert [choice["finish_reason"] for choice in body["choices"]] == ["stop"] * 3
    num_prompt = body["usage"]["prompt_tokens"]
    one = (await post(BatchingBackend("a"), path)).json()
    assert num_prompt == one["usage"]["prompt_tokens"] > 0
    assert body["usage"]["completion_tokens"] == 6
    assert body["usage"]["total_tokens"] == num_prompt + 6
    assert body["timings"]["num_decoded_tokens"] == 6
    assert "completion_tokens_details" not in body["usage"]


@pytest.mark.parametrize("path", PATHS)
async def test_they_are_streamed_as_they_come(path: str):
    backend = BatchingBackend(by_seed, num_together=3)
    events = events_of(await post(backend, path, n=3, seed=7, stream=True))
    texts = {0: "", 1: "", 2: ""}
    order: list[int] = []
    for event in events:
        [choice] = event["choices"]
        order.append(choice["index"])
        texts[choice["index"]] += text_of(choice)
    assert texts == {0: "a", 1: "bcd", 2: "ef"}
    assert order != sorted(order), "one after the other"
    assert len({event["id"] for event in events}) == 1
    ends = [event for event in events if event["choices"][0]["finish_reason"]]
    assert [event["timings"]["num_decoded_tokens"] for event in ends] == [1, 2, 3]
    assert [event["composer"] for event in ends] == [{"weights_version": 4}] * 3
    assert ["usage" in event for event in events] == [False] * (len(events) - 1) + [True]
    assert events[-1]["usage"]["completion_tokens"] == 6


async def test_the_usage_of_all_in_an_event_of_its_own():
    options = {"include_usage": True}
    backend = BatchingBackend(by_seed, num_together=3)
    answer = await post(
        backend, "/v1/completions", n=3, seed=7, stream=True, stream_options=options
    )
    *_, last = events_of(answer)
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 6


async def test_without_a_seed_each_draws_its_own():
    backend = PlayedBackend("x")
    await post(backend, "/v1/completions", n=2, temperature=1)
    assert [request.sampling.seed for request in backend.requests] == [None, None]


@pytest.mark.parametrize("path", PATHS)
async def test_a_backend_that_takes_turns_answers_all_as_well(path: str):
    body = (await post(PlayedBackend(by_seed), path, n=3, seed=7)).json()
    assert [text_of(choice) for choice in body["choices"]] == ["a", "bcd", "ef"]
    assert "composer" not in body


async def test_the_first_error_ends_all():
    def fail_or_hang(request: GenerateRequest) -> str:
        if request.sampling.seed == 1:
            raise BackendError("the weights are sulking")
        return f"ab{HANG}"

    backend = BatchingBackend(fail_or_hang, num_together=3)
    answer = await post(backend, "/v1/completions", n=3, seed=0)
    assert answer.status_code == 500
    assert "sulking" in answer.json()["error"]["message"]
    assert backend.num_running == 0


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("path", PATHS)
def test_a_client_that_leaves_ends_all(serve: Callable[..., Path], path: str, stream: bool):
    backend = PlayedBackend(f"abc{HANG}", capabilities=BatchingBackend("").capabilities)
    content = json.dumps({**PATHS[path], "n": 3, "stream": stream}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: engine\r\nContent-Length: {len(content)}\r\n\r\n"
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(serve(loader=PlayedLoader(backend))))
        client.sendall(head.encode() + content)
        deadline = time.monotonic() + LIMIT_S
        while len(backend.requests) < 3:
            assert time.monotonic() < deadline, "they are not computed together"
        assert backend.hanging.wait(LIMIT_S)
        assert not backend.closed.is_set()
    for _ in range(3):
        assert backend.closings.acquire(timeout=LIMIT_S), "the backend works for nobody"
