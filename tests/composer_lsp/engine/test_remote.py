"""A server behind a URL, over real connections."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
from starlette.responses import Response

from composer_lsp.completion.repository import RepositoryContext, Snippet
from composer_lsp.completion.templates import FimPrompt
from composer_lsp.config import TabSettings
from composer_lsp.engine.backoff import Backoff
from composer_lsp.engine.chunks import chunk_of, tokens_of
from composer_lsp.engine.client import api_base
from composer_lsp.engine.errors import (
    AuthenticationError,
    BackingOffError,
    ConfigurationError,
    EngineError,
    EngineTimeoutError,
    ModelNotFoundError,
    NotAnEngineError,
    OverloadedError,
    RequestRefusedError,
    ServerFailureError,
    TruncatedStreamError,
    UnreachableError,
)
from composer_lsp.engine.remote import RemoteTabEngine
from composer_lsp.engine.sse import read_events
from tests.composer_lsp.engine.servers import (
    Answer,
    FakeServer,
    endless,
    on_port,
    refused,
    streamed,
    text_event,
)

PROMPT = FimPrompt(prefix="x = 1", suffix="\ny = 2\n")


def undecodable(server: FakeServer, body: dict[str, Any]) -> Response:
    headers = {"content-encoding": "gzip", "content-type": "text/event-stream"}
    return Response(b"no gzip", headers=headers)


def no_backoff() -> Backoff:
    return Backoff(first_s=0, longest_s=0)


async def ask(engine: RemoteTabEngine, *, invoked: bool = False) -> str:
    chunks = engine.complete(PROMPT, max_tokens=8, stop=(), invoked=invoked)
    async with aclosing(chunks):
        return "".join([chunk.text async for chunk in chunks])


async def pieces(text: bytes, *, size: int) -> AsyncGenerator[bytes, None]:
    for at in range(0, len(text), size):
        yield text[at : at + size]


async def ask_once(url: str, **settings: object) -> str:
    engine = RemoteTabEngine(TabSettings(url=url, **settings), no_backoff())  # type: ignore[arg-type]
    try:
        return await ask(engine)
    finally:
        await engine.aclose()


@pytest.mark.parametrize(
    ("given", "base"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1/"),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/v1/"),
        ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1/"),
        (" https://a.example/api/v1/ ", "https://a.example/api/v1/"),
        ("https://a.example/v1/chat/completions", "https://a.example/v1/"),
        ("https://a.example/v1/completions", "https://a.example/v1/"),
        ("https://a.example/v1beta/openai", "https://a.example/v1beta/openai/"),
        ("https://a.example/openai", "https://a.example/openai/v1/"),
    ],
)
def test_base_url_is_understood_with_and_without_version(given: str, base: str) -> None:
    assert api_base(given) == base


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8080",
        "localhost",
        "ftp://a.example",
        "http://",
        "http://[",
        "http://localhost:notaport/v1",
        "http://127.0.0.1:99999/v1",
        "http://127.0.0.1:0/v1",
        "http://a\x00b/v1",
    ],
)
def test_url_that_is_none_is_named(url: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(repr(url))):
        RemoteTabEngine(TabSettings(url=url))


@pytest.mark.parametrize("key", ["clé", "a\nb", "a\x7f"])
def test_key_that_no_header_can_carry_is_named(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("A_KEY", key)
    with pytest.raises(ConfigurationError, match="variable A_KEY holds characters") as raised:
        RemoteTabEngine(TabSettings(url="http://127.0.0.1:1", api_key_env="A_KEY"))
    assert key not in str(raised.value)


async def test_template_is_rendered_for_the_first_listed_model() -> None:
    server = FakeServer(streamed(text_event("1"), text_event("", "stop")))
    async with on_port(server) as url:
        assert await ask_once(url) == "1"
    seen = server.seen[0]
    assert seen.path == "/v1/completions"
    assert seen.body["model"] == "first-qwen"
    assert seen.body["prompt"] == "<|fim_prefix|><|fim_suffix|>\ny = 2\n<|fim_middle|>x = 1"
    assert seen.body["max_tokens"] == 8
    assert seen.body["stream"] is True
    assert "suffix" not in seen.body
    assert len(seen.body["stop"]) <= 4
    assert seen.headers["x-composer-priority"] == "tab"
    assert "authorization" not in seen.headers


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ((" f", "oo", "(1)"), "o(1)"),
        (("foo(1)",), "o(1)"),
        ((" bar", "(1)"), ""),
        ((" ",), ""),
    ],
    ids=["split", "no-blank", "another-word", "too-short"],
)
async def test_answer_has_to_begin_with_the_word_at_the_cursor(
    pieces: tuple[str, ...], text: str
) -> None:
    server = FakeServer(streamed(*map(text_event, pieces), text_event("", "stop")))
    async with on_port(server) as url:
        engine = RemoteTabEngine(TabSettings(url=url, model="qwen"))
        chunks = [
            chunk
            async for chunk in engine.complete(
                FimPrompt(prefix="x = fo", suffix=""), max_tokens=8, stop=(), invoked=False
            )
        ]
        await engine.aclose()
    assert server.seen[0].body["prompt"].endswith("<|fim_middle|>x =")
    assert "grammar" not in server.seen[0].body
    assert "".join(chunk.text for chunk in chunks) == text
    assert chunks[-1].finish_reason == "stop"


async def test_suffix_field() -> None:
    server = FakeServer(streamed(text_event("1", "stop")))
    async with on_port(server) as url:
        await ask_once(url + "/v1", fim_template="suffix", model="m")
    assert server.seen[0].body["prompt"] == PROMPT.prefix
    assert server.seen[0].body["suffix"] == PROMPT.suffix


async def test_other_files_reach_servers_that_render_themselves() -> None:
    server = FakeServer(streamed(text_event("1", "stop")))
    snippets = (Snippet(path="w/b.py", text="B = 1"),)
    prompt = replace(
        PROMPT, path="w/a.py", context=RepositoryContext(snippets=snippets), line_comment="#"
    )
    async with on_port(server) as url:
        for template in ("suffix", "infill"):
            engine = RemoteTabEngine(TabSettings(url=url + "/v1", fim_template=template, model="m"))
            chunks = engine.complete(prompt, max_tokens=8, stop=(), invoked=False)
            async with aclosing(chunks):
                [_ async for _ in chunks]
            await engine.aclose()
    by_suffix, by_infill = (seen.body for seen in server.seen)
    assert by_suffix["prompt"] == "# w/b.py\n# B = 1\n#\n# w/a.py\n" + PROMPT.prefix
    assert by_infill["input_prefix"] == PROMPT.prefix
    assert by_infill["input_extra"] == [{"filename": "w/b.py", "text": "B = 1"}]


async def test_infill_of_llama_cpp() -> None:
    server = FakeServer(
        streamed(
            {"content": "1", "stop": False},
            {
                "content": "",
                "stop": True,
                "stop_type": "limit",
                "timings": {
                    "cache_n": 40,
                    "prompt_n": 7,
                    "prompt_ms": 12.5,
                    "predicted_n": 1,
                    "predicted_ms": 3,
                },
            },
            done=False,
        )
    )
    async with on_port(server) as url:
        engine = RemoteTabEngine(TabSettings(url=url, fim_template="infill", model="m"))
        chunks = [
            chunk
            async for chunk in engine.complete(PROMPT, max_tokens=8, stop=("\n",), invoked=False)
        ]
        await engine.aclose()
    seen = server.seen[0]
    assert seen.path == "/infill"
    assert seen.body["input_prefix"] == PROMPT.prefix
    assert seen.body["input_suffix"] == PROMPT.suffix
    assert seen.body["n_predict"] == 8
    assert chunks[-1].finish_reason == "length"
    assert chunks[-1].timings == {
        "num_cached_tokens": 40,
        "num_prefill_tokens": 7,
        "prefill_ms": 12.5,
        "num_decoded_tokens": 1,
        "decode_ms": 3.0,
    }


async def test_key_comes_from_the_named_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "secret")
    server = FakeServer(streamed(text_event("1", "stop")))
    async with on_port(server) as url:
        await ask_once(url, api_key_env="MY_KEY")
    assert server.seen[0].headers["authorization"] == "Bearer secret"


def test_missing_key_names_its_variable() -> None:
    with pytest.raises(ConfigurationError, match="NO_SUCH_KEY"):
        RemoteTabEngine(TabSettings(url="http://127.0.0.1:1", api_key_env="NO_SUCH_KEY"))


async def test_proxy_of_the_environment_does_not_see_local_requests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    async with on_port(FakeServer(streamed(text_event("1", "stop")))) as url:
        assert await ask_once(url) == "1"


async def test_json_in_one_piece_is_understood() -> None:
    async with on_port(FakeServer(refused(200, text_event("1", "stop")))) as url:
        assert await ask_once(url) == "1"


async def test_line_separators_inside_json_and_comments() -> None:
    server = FakeServer(
        streamed(": keep-alive\n", "event: x", text_event("a\u2028b\x85\x0c", "stop"))
    )
    async with on_port(server) as url:
        assert await ask_once(url) == "a\u2028b\x85\x0c"


HTML = "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body><h1>no</h1></body></html>"


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (refused(401, {"error": {"message": "bad key"}}), AuthenticationError, "bad key.*apiKeyEnv"),
        (refused(403, "no"), AuthenticationError, "403"),
        (
            refused(404, {"error": {"message": "The model `m` does not exist"}}),
            ModelNotFoundError,
            "does not exist.*first-qwen, second",
        ),
        (
            refused(400, {"error": {"message": "unknown", "code": "model_not_found"}}),
            ModelNotFoundError,
            "first-qwen",
        ),
        (refused(404, {"detail": "Not Found"}), NotAnEngineError, "base URL"),
        (refused(429, {"error": "slow down"}), OverloadedError, "slow down"),
        (refused(503, "", "text/plain"), OverloadedError, "503"),
        (refused(502, HTML, "text/html"), ServerFailureError, "502: 502 Bad Gateway$"),
        (
            refused(400, {"error": {"message": "too long", "code": "context_length_exceeded"}}),
            RequestRefusedError,
            "too long",
        ),
        (refused(200, "<html>Log in</html>", "text/html"), NotAnEngineError, "JSON object: an HTML page$"),
        (refused(200, "hello", "text/plain"), NotAnEngineError, "hello"),
        (refused(500, "x" * 5000, "text/plain"), ServerFailureError, "x…$"),
        (streamed(text_event("1"), done=False), TruncatedStreamError, "middle"),
        (refused(200, 'data: {"cho', "text/event-stream"), TruncatedStreamError, "middle"),
        (streamed("data: {broken"), NotAnEngineError, "broken"),
        (streamed({"error": {"message": "out of memory"}}), ServerFailureError, "out of memory"),
        (streamed({"error": {"message": "x" * 9999}}), ServerFailureError, "xxx"),
        (refused(400, {"error": {"message": "x" * 9999}}), RequestRefusedError, "xxx"),
        (refused(200, "[" * 100_000), NotAnEngineError, "other than a JSON object"),
        (refused(400, "[" * 100_000, "text/plain"), RequestRefusedError, "answered 400"),
        (streamed("data: " + "[" * 100_000), NotAnEngineError, "other than a JSON object"),
        (streamed("x" * 5_000_000), NotAnEngineError, "a line of more than"),
        (undecodable, NotAnEngineError, "cannot be read"),
    ],
    ids=[
        "401",
        "403",
        "404-model",
        "400-model",
        "404-path",
        "429",
        "503",
        "502-html",
        "400",
        "200-html",
        "200-text",
        "500-long",
        "truncated",
        "truncated-event",
        "broken-json",
        "error-in-stream",
        "long-error-in-stream",
        "400-long",
        "200-deep",
        "400-deep",
        "deep-event",
        "endless-line",
        "bad-gzip",
    ],
)  # fmt: skip
async def test_failures_are_told_clearly(
    answer: Answer, error: type[EngineError], text: str
) -> None:
    async with on_port(FakeServer(answer)) as url:
        with pytest.raises(error, match=text) as raised:
            await ask_once(url, model="m")
    message = str(raised.value)
    assert message.startswith(url)
    assert "<" not in message and len(message) < 500


@pytest.mark.parametrize(
    "listed", [[1, 2], [None], ["id"], [{"id": 1}], [{"name": "m"}], [[]]], ids=str
)
async def test_model_list_of_something_else(listed: list[object]) -> None:
    server = FakeServer(streamed(text_event("1", "stop")))
    async with on_port(server) as url:
        server.list_data = listed
        with pytest.raises(ModelNotFoundError, match="lists no model"):
            await ask_once(url)


@pytest.mark.parametrize(
    ("event", "text"),
    [
        ({"choices": None}, ""),
        ({"choices": [1]}, ""),
        (text_event("x", "stop") | {"timings": [1]}, "x"),
        (text_event("x", "stop") | {"timings": {"prompt_ms": 10**400, "n": True, "s": "x"}}, "x"),
        ({"choices": [{"text": ["a"], "finish_reason": ["stop"], "logprobs": 5}]}, ""),
        ({"choices": [{"text": "x", "finish_reason": "stop", "logprobs": {"tokens": 5}}]}, "x"),
        (
            {
                "choices": [
                    {
                        "text": "x",
                        "finish_reason": "stop",
                        "logprobs": {"tokens": [1, "x", None], "token_logprobs": ["y", None, 2]},
                    }
                ]
            },
            "x",
        ),
    ],
    ids=range(7),
)
async def test_odd_events_do_no_harm(event: dict[str, Any], text: str) -> None:
    assert tokens_of(event) == []
    async with on_port(FakeServer(streamed(event))) as url:
        assert await ask_once(url, model="m") == text


async def test_half_a_surrogate_pair_is_no_text() -> None:
    line = 'data: {"choices": [{"text": "a\\ud800b", "finish_reason": "stop"}]}\n'
    async with on_port(FakeServer(streamed(line))) as url:
        assert (await ask_once(url, model="m")).isascii()


async def test_infinity_in_timings_is_left_out() -> None:
    line = 'data: {"choices": [{"text": "a"}], "timings": {"prompt_ms": 1e999, "n": 2}}'
    async with aclosing(read_events("it", pieces(line.encode() + b"\n", size=7))) as events:
        assert chunk_of(await anext(events)).timings == {"n": 2.0}


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
async def test_lines_are_put_together(size: int) -> None:
    text = b': note\r\n\ndata: {"a": 1}\r\n\r\ndata:{"stop": true}'
    async with aclosing(read_events("it", pieces(text, size=size))) as events:
        assert [event async for event in events] == [{"a": 1}, {"stop": True}]


async def test_model_list_that_fails_does_not_hide_the_error() -> None:
    server = FakeServer(
        refused(404, {"error": {"message": "no model m", "code": "model_not_found"}})
    )
    server.models = ()
    async with on_port(server) as url:
        with pytest.raises(ModelNotFoundError, match="It offers: none"):
            await ask_once(url, model="m")


async def test_nothing_listens() -> None:
    async with on_port(FakeServer(streamed())) as url:
        pass
    with pytest.raises(UnreachableError, match="cannot be reached"):
        await ask_once(url, model="m")


async def test_silence_ends_after_the_timeout() -> None:
    silent = asyncio.Event()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await silent.wait()
        writer.close()

    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    with pytest.raises(EngineTimeoutError, match=r"silent for 0\.2 s"):
        await ask_once(f"http://127.0.0.1:{port}", model="m", timeout_s=0.2)
    silent.set()
    listener.close()


async def test_closing_the_stream_cancels() -> None:
    server = FakeServer(endless)
    async with on_port(server) as url:
        engine = RemoteTabEngine(TabSettings(url=url, model="m"))
        async with aclosing(
            engine.complete(PROMPT, max_tokens=8, stop=(), invoked=False)
        ) as chunks:
            async for _ in chunks:
                break
        async with asyncio.timeout(30):
            await server.closed_by_client.wait()
        await engine.aclose()


async def test_failing_server_is_left_alone_except_on_request() -> None:
    server = FakeServer(refused(500, {"error": {"message": "boom"}}))
    now = [0.0]
    backoff = Backoff(first_s=1, longest_s=8, clock=lambda: now[0], jitter=lambda: 0.0)
    async with on_port(server) as url:
        engine = RemoteTabEngine(TabSettings(url=url, model="m"), backoff)
        with pytest.raises(ServerFailureError):
            await ask(engine)
        for _ in range(5):
            with pytest.raises(BackingOffError, match=r"boom.*next try in 1 s"):
                await ask(engine)
        assert len(server.seen) == 1
        with pytest.raises(ServerFailureError):
            await ask(engine, invoked=True)
        assert len(server.seen) == 2
        now[0] += 2
        server.answer = streamed(text_event("1", "stop"))
        assert await ask(engine) == "1"
        server.answer = refused(500, "")
        with pytest.raises(ServerFailureError):
            await ask(engine)
        assert backoff.remaining_s == 1
        await engine.aclose()


async def test_refused_request_does_not_stop_the_next() -> None:
    server = FakeServer(refused(400, {"error": {"message": "too long"}}))
    async with on_port(server) as url:
        engine = RemoteTabEngine(TabSettings(url=url, model="m"))
        with pytest.raises(RequestRefusedError):
            await ask(engine)
        server.answer = streamed(text_event("1", "stop"))
        assert await ask(engine) == "1"
        await engine.aclose()
