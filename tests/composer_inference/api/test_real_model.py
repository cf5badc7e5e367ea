"""Tool calls and JSON schemas with a real model: what no played answer can show."""

import asyncio
import json
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest

from composer_inference.api.app import create_app
from composer_inference.backends.base import Backend
from composer_inference.backends.llama_cpp import LlamaCppBackend, LlamaCppConfig
from composer_inference.backends.torch_config import DecoderOptions, TorchDecoderConfig
from composer_inference.backends.torch_decoder import TorchDecoderBackend
from composer_inference.engine import Engine
from tests.support.models import model_path
from tests.support.played import PlayedLoader

pytestmark = pytest.mark.model

READ_FILE = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Read a file of the workspace",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "mode": {"$ref": "#/$defs/Mode"}},
            "required": ["path", "mode"],
            "additionalProperties": False,
            "$defs": {"Mode": {"enum": ["text", "binary"]}},
        },
    },
}
GREP = {
    "type": "function",
    "function": {
        "name": "grep",
        "description": "Search the workspace with a regular expression",
        "parameters": {
            "type": "object",
            "properties": {"pattern": {"type": "string"}, "max_hits": {"type": "integer"}},
            "required": ["pattern"],
        },
    },
}


class _Kept(TorchDecoderBackend):
    """Loaded once for all tests, whose engines come and go."""

    async def close(self) -> None:
        return


@cache
def _torch_backend(path: Path) -> TorchDecoderBackend:
    return _Kept(
        TorchDecoderConfig(
            path=path,
            threads=2,
            context_tokens=2048,
            options=DecoderOptions(cache_bytes=256 << 20),
        )
    )


class _OneFile(PlayedLoader):
    """The Qwen model's file under the name `played`, without the user's own store of models."""

    def __init__(self, path: Path, backend: str) -> None:
        self._path = path
        self._backend = backend

    async def load(self, name: str) -> Backend:
        if self._backend == "torch":
            return await asyncio.to_thread(_torch_backend, self._path)
        return await LlamaCppBackend.load(
            LlamaCppConfig(path=self._path, threads=2, context_tokens=2048, prefill_slice_tokens=16)
        )


@pytest.fixture(params=["llama.cpp", "torch"])
async def http(
    request: pytest.FixtureRequest, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[httpx.AsyncClient]:
    path = model_path("qwen2.5-coder-0.5b")
    monkeypatch.setenv("COMPOSER_RUNTIME_DIR", str(short_dir / "run"))
    engine = Engine(_OneFile(path, request.param), on_drain=lambda: None)
    transport = httpx.ASGITransport(create_app(engine, token=None))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://engine", timeout=300
    ) as client:
        yield client
    await engine.close()


async def ask(http: httpx.AsyncClient, text: str, **body: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    answer = await http.post(
        "/v1/chat/completions", json={"messages": messages, "max_tokens": 300, **body}
    )
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]


async def test_tools_and_schemas(http: httpx.AsyncClient):
    tools = [READ_FILE, GREP]
    asked = "What is in src/main.py? Use a tool."
    choice = await ask(http, asked, tools=tools)
    assert choice["finish_reason"] == "tool_calls"
    assert "```" not in (choice["message"]["content"] or "")
    [call] = choice["message"]["tool_calls"]
    arguments = json.loads(call["function"]["arguments"])
    assert call["function"]["name"] == "read_file"
    assert arguments.keys() == {"path", "mode"}
    assert arguments["mode"] in ("text", "binary")

    for wanted in ("required", {"type": "function", "function": {"name": "grep"}}):
        choice = await ask(http, "Hello", tools=tools, tool_choice=wanted)
        function = choice["message"]["tool_calls"][0]["function"]
        assert json.loads(function["arguments"]).keys() & {"path", "pattern"}

    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": schema}}
    choice = await ask(http, "A person: Ann, 31 years old", response_format=form)
    assert json.loads(choice["message"]["content"]) == {"name": "Ann", "age": 31}


async def test_control_tokens_in_a_message_end_no_turn(http: httpx.AsyncClient):
    choice = await ask(http, "Repeat exactly: a<|im_end|>b", max_tokens=20)
    assert "<|im_end|>" in choice["message"]["content"]


async def test_several_pieces_are_one_prompt(http: httpx.AsyncClient):
    whole = {"prompt": "def add(a, b):\n    return", "max_tokens": 4}
    pieces = {**whole, "prompt": ["def add(a, b):\n", "    return"]}
    texts = [
        (await http.post("/v1/completions", json=body)).json()["choices"][0]["text"]
        for body in (whole, pieces)
    ]
    assert texts[0] == texts[1]


async def test_what_the_backend_refuses_is_the_clients_fault(http: httpx.AsyncClient):
    for body in ({"prompt": "x", "grammar": "root ::= nothing"}, {"prompt": [99_999_999]}):
        answer = await http.post("/v1/completions", json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")
    answer = await http.post("/v1/completions", json={"prompt": "x " * 3000})
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert "2048" in answer.json()["error"]["message"].replace(",", "")
