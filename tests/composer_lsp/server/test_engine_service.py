"""The server with its real service: a server behind a URL, and the engine of this machine."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from composer_inference.endpoint import UnixEndpoint, is_listening
from tests.composer_lsp.engine.servers import (
    FakeServer,
    endless,
    on_port,
    refused,
    streamed,
    text_event,
)
from tests.support.lsp import (
    AUTOMATIC,
    INVOKED,
    LIMIT_S,
    LspClient,
    LspError,
    drawn,
    server_environment,
    start_server,
)

URI = "file:///w/a.py"

RULES = {
    "rules": [
        {"match": "slow", "text": "word " * 500, "token_delay_ms": 50},
        {"match": "total", "text": "sum(values)"},
        {"match": "choice", "text": "one", "sampled": ["zero", "one", "two", "three"]},
    ],
    "default": {"text": "42"},
}


@asynccontextmanager
async def composer(directory: Path, **options: object) -> AsyncIterator[LspClient]:
    async with start_server(directory) as client:
        await client.initialize(initializationOptions=options)
        yield client


@asynccontextmanager
async def scripted_engine(directory: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """A deterministic engine where the server looks for one."""
    environment = server_environment(directory)
    script = directory / "script.json"
    script.write_text(json.dumps(RULES))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "composer_lsp", "engine", "--backend", "scripted"),
        *("--script", str(script), "--idle-exit-s", "0"),
        env={**os.environ, **environment},
        stdin=asyncio.subprocess.DEVNULL,
    )
    endpoint = UnixEndpoint(Path(environment["COMPOSER_RUNTIME_DIR"]) / "engine.sock")
    try:
        async with asyncio.timeout(LIMIT_S):
            while not is_listening(endpoint):
                assert process.returncode is None, "the engine ended"
                await asyncio.sleep(0.02)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.fixture
def no_engine_left(directory: Path):
    """Ends the engines that a server started."""
    yield
    for process in psutil.process_iter():
        try:
            runtime_dir = process.environ().get("COMPOSER_RUNTIME_DIR", "")
            if runtime_dir.startswith(str(directory)) and "engine" in process.cmdline():
                process.kill()
        except psutil.Error:
            continue


async def suggest(client: LspClient, text: str, **kwargs):
    place = drawn(text)
    client.open(URI, place.text)
    items = await client.inline_completion(URI, place.position(), **kwargs)
    return None if items is None else [item["insertText"] for item in items]


async def streaming(server: FakeServer) -> None:
    """Wait until the server is in the middle of an answer."""
    async with asyncio.timeout(LIMIT_S):
        while not server.num_sent:
            await asyncio.sleep(0.005)


# A server behind a URL --------------------------------------------------------------------------


async def test_a_url_answers(directory):
    server = FakeServer(streamed(text_event("x + y", "stop")))
    async with on_port(server) as url, composer(directory, tab={"url": url}) as client:
        assert await suggest(client, "def add(x, y):\n    return ˇ\n") == ["x + y"]
        assert (await client.command("composer.status"))["state"] == "idle"
    # Nothing was started on this machine.
    assert not (directory / "r" / "engine.sock").exists()


async def test_the_text_of_another_open_document_comes_into_the_prompt(directory):
    server = FakeServer(streamed(text_event("x + y", "stop")))
    text = "def total_of(prices, taxes):\n    return sum(prices) + taxes\n"
    place = drawn("import shop\n\nprices, taxes = [1], 2\nshown = total_of(prices, taxes) + ˇ\n")
    async with on_port(server) as url, composer(directory, tab={"url": url}) as client:
        client.open("file:///w/shop.py", text)
        client.open(URI, place.text)
        position = place.position()
        await client.inline_completion(URI, position, trigger=INVOKED)  # tells how fast it is
        here = {"uri": URI, "range": {"start": position, "end": position}}
        assert await client.command("composer.prepare", here) == {"prepared": True}
        client.change(URI, 2, {"text": f"{place.text}# not in memory\n"})
        await client.inline_completion(URI, position, trigger=INVOKED)
        assert text.strip() in server.seen[-1].body["prompt"]
        assert "<|file_sep|>shop.py\n" in server.seen[-1].body["prompt"]


async def test_a_cancel_closes_the_stream(directory):
    server = FakeServer(endless)
    async with on_port(server) as url, composer(directory, tab={"url": url}) as client:
        client.open(URI, "x = ")
        msg_id = client.begin_inline_completion(URI, {"line": 0, "character": 4}, trigger=INVOKED)
        await streaming(server)
        client.cancel(msg_id)
        with pytest.raises(LspError):
            await client.answer(msg_id)
        async with asyncio.timeout(LIMIT_S):
            await server.closed_by_client.wait()


async def test_a_newer_request_closes_the_stream(directory):
    server = FakeServer(endless)
    async with on_port(server) as url, composer(directory, tab={"url": url}) as client:
        client.open(URI, "x = ")
        first = client.begin_inline_completion(URI, {"line": 0, "character": 4}, trigger=INVOKED)
        await streaming(server)
        client.begin_inline_completion(URI, {"line": 0, "character": 4}, trigger=INVOKED)
        assert await client.answer(first) is None
        async with asyncio.timeout(LIMIT_S):
            await server.closed_by_client.wait()


@pytest.mark.parametrize(
    ("answer", "state", "told"),
    [
        (refused(401, {"error": {"message": "bad key"}}), "error", "bad key"),
        (refused(404, {"error": {"message": "no", "code": "model_not_found"}}), "error", "first-qwen"),
        (refused(502, "<html><h1>Bad Gateway</h1></html>", "text/html"), "offline", "502"),
    ],
    ids=["401", "404", "HTML"],
)  # fmt: skip
async def test_what_a_url_refuses_is_told_once(directory, answer, state, told):
    async with on_port(FakeServer(answer)) as url, composer(directory, tab={"url": url}) as client:
        for _ in range(3):
            assert await suggest(client, "x = ˇ", trigger=INVOKED) == []
        status = await client.state(state)
        assert told in status["message"]
        assert len(client.all("window/showMessage")) == 1
        assert client.all("window/showMessageRequest") == []


async def test_nothing_listens_at_the_url(directory):
    async with composer(directory, tab={"url": "http://127.0.0.1:9"}) as client:
        for _ in range(3):
            assert await suggest(client, "x = ˇ", trigger=INVOKED) == []
        assert "127.0.0.1:9" in (await client.state("offline"))["message"]
        assert len(client.all("window/showMessage")) == 1


async def test_a_url_that_comes_with_new_settings(directory):
    server = FakeServer(streamed(text_event("x + y", "stop")))
    async with on_port(server) as url, composer(directory, tab={"url": "http://[::1]:9"}) as client:
        assert await suggest(client, "return ˇ", trigger=INVOKED) == []
        await client.state("offline")
        settings = {"composer": {"tab": {"url": url}}}
        client.notify("workspace/didChangeConfiguration", {"settings": settings})
        assert await suggest(client, "return ˇ", trigger=INVOKED) == ["x + y"]
        assert (await client.command("composer.status"))["state"] == "idle"


@pytest.mark.parametrize("is_told", [True, False], ids=["watched", "unwatched"])
async def test_composerignore_counts_at_once(directory, is_told):
    """For explicit requests too, and whether or not the client watches files."""
    rules = directory / ".composerignore"
    source = directory / "a.py"
    server = FakeServer(streamed(text_event("x + y", "stop")))
    async with on_port(server) as url, composer(directory, tab={"url": url}) as client:

        async def suggestions(version: int, trigger: int) -> list[str]:
            if is_told:
                changes = [{"uri": rules.as_uri(), "type": 2}, {"uri": "no uri at all", "type": 1}]
                client.notify("workspace/didChangeWatchedFiles", {"changes": changes})
            text = f"x{version} = "
            client.change(source.as_uri(), version, {"text": text})
            place = {"line": 0, "character": len(text)}
            items = await client.inline_completion(source.as_uri(), place, trigger=trigger)
            return [item["insertText"] for item in items or ()]

        client.open(source.as_uri(), "", version=0)
        assert await suggestions(1, AUTOMATIC) == ["x + y"]
        num_prompts = len(server.seen)
        rules.write_text("*.py\n[")
        assert await suggestions(2, AUTOMATIC) == []
        assert await suggestions(3, INVOKED) == []
        assert len(server.seen) == num_prompts
        told = await client.notification(
            "window/logMessage", lambda params: str(rules) in params["message"]
        )
        assert "[" in told["message"]
        rules.write_text("*.pyc")
        assert await suggestions(4, AUTOMATIC) == ["x + y"]
        rules.write_text("*.py")
        assert await suggestions(5, AUTOMATIC) == []
        rules.unlink()
        assert await suggestions(6, AUTOMATIC) == ["x + y"]
        assert client.all("window/showMessage") == []


async def test_a_suggestion_in_memory_is_hidden_too(directory):
    source = (directory / "a.py").as_uri()
    server = FakeServer(streamed(text_event("x + y", "stop")))
    async with on_port(server) as url, composer(directory, tab={"url": url}) as client:
        client.open(source, "z = ")
        place = {"line": 0, "character": 4}
        assert await client.inline_completion(source, place)
        (directory / ".composerignore").write_text("a.py")
        assert await client.inline_completion(source, place) == []


# The engine of this machine ---------------------------------------------------------------------


async def test_the_engine_answers(directory):
    async with scripted_engine(directory), composer(directory) as client:
        await client.state("loading")
        await client.state("idle", after=1)
        assert await suggest(client, "total = ˇ\n") == ["sum(values)"]
        status = await client.command("composer.status")
        assert status["state"] == "idle"
        last = status["lastCompletion"]
        assert {"debounce", "prefill", "first_token", "total"} <= set(last)
        assert last["num_prefill_tokens"] > 0 == last["num_cached_tokens"]


async def test_the_model_is_told_anew_after_it_was_changed(directory):
    async with scripted_engine(directory), composer(directory) as client:
        await client.state("idle")
        assert await suggest(client, "total = ˇ\n") == ["sum(values)"]
        told = len(client.received)
        settings = {"composer": {"tab": {"model": "another"}}}
        client.notify("workspace/didChangeConfiguration", {"settings": settings})
        await client.notification(
            "composer/status", lambda params: params.get("model") == "scripted", after=told
        )


async def test_an_explicit_request_gets_several(directory):
    async with scripted_engine(directory), composer(directory) as client:
        # Seed 1 brings the likeliest once more.
        assert await suggest(client, "choice = ˇ\n", trigger=INVOKED) == ["one", "two", "three"]
        client.change(URI, 2, {"text": "choice = tw\n"})
        place = {"line": 0, "character": 11}
        items = await client.inline_completion(URI, place)
        assert [item["insertText"] for item in items] == ["o"]
        last = (await client.command("composer.status"))["lastCompletion"]
        assert set(last) == {"total"}, "it came from memory"


async def test_a_url_that_refuses_seeds_answers_with_one(directory):
    def answer(server: FakeServer, body: dict):
        if "seed" in body:
            return refused(400, {"error": {"message": "unknown field seed"}})(server, body)
        return streamed(text_event("x + y", "stop"))(server, body)

    server = FakeServer(answer)
    async with on_port(server) as url, composer(directory, tab={"url": url}) as client:
        assert await suggest(client, "return ˇ", trigger=INVOKED) == ["x + y"]
        assert len(server.seen) == 2
        assert (await client.command("composer.status"))["state"] == "idle"
        assert client.all("window/showMessage") == []


async def test_typing_through_a_suggestion(directory):
    async with scripted_engine(directory), composer(directory) as client:
        assert await suggest(client, "total = ˇ\n") == ["sum(values)"]
        line = "total = "
        for version, char in enumerate("sum(v", start=2):
            place = {"line": 0, "character": len(line)}
            client.change(URI, version, {"range": {"start": place, "end": place}, "text": char})
            line += char
            items = await client.inline_completion(URI, {"line": 0, "character": len(line)})
            assert [item["insertText"] for item in items] == ["sum(values)"[version - 1 :]]


async def test_the_engine_dies_in_the_middle(directory, no_engine_left):
    async with scripted_engine(directory) as engine, composer(directory) as client:
        assert await suggest(client, "total = ˇ\n") == ["sum(values)"]
        client.change(URI, 2, {"text": "slow = "})
        msg_id = client.begin_inline_completion(URI, {"line": 0, "character": 7})
        await client.state("thinking")
        engine.kill()
        assert (await client.answer(msg_id) or {"items": []})["items"] == []
        await engine.wait()
        assert client.all("window/showMessage") == []
        assert await client.command("composer.status")


@pytest.fixture
def socket_in_the_way(directory: Path) -> None:
    runtime = Path(server_environment(directory)["COMPOSER_RUNTIME_DIR"])
    (runtime / "engine.sock").mkdir(parents=True)
    runtime.chmod(0o700)


@pytest.fixture
def models_in_the_way(directory: Path) -> Path:
    data = Path(server_environment(directory)["COMPOSER_DATA_DIR"])
    data.mkdir(parents=True, exist_ok=True)
    (data / "models").touch()
    return data / "models"


@pytest.mark.usefixtures("socket_in_the_way")
async def test_an_engine_that_cannot_start_is_told_once(directory):
    async with composer(directory) as client:
        client.open(URI, "x = ")
        message = (await client.state("error"))["message"]
        assert "rmdir" in message and "Traceback" not in message
        # Two failures: the next try is some time away.
        await suggest(client, "x = ˇ", trigger=INVOKED)
        await suggest(client, "x = ˇ", trigger=INVOKED)
        await client.state("error", after=2)
        num_sent = len(client.all("composer/status"))
        for version in range(2, 12):
            client.change(URI, version, {"text": f"x{version} = "})
            place = {"line": 0, "character": len(f"x{version} = ")}
            assert await client.inline_completion(URI, place, trigger=AUTOMATIC) == []
        states = [status["state"] for status in client.all("composer/status")[num_sent:]]
        assert states.count("starting") <= 1
        assert len(client.all("window/showMessage")) == 1


async def test_a_folder_of_models_that_cannot_be_read_is_told(
    directory, no_engine_left, models_in_the_way
):
    async with composer(directory) as client:
        assert await suggest(client, "x = ˇ", trigger=INVOKED) == []
        message = (await client.state("error"))["message"]
        assert str(models_in_the_way) in message and "COMPOSER_DATA_DIR" in message


@pytest.mark.parametrize("url", ["http://[", "http://127.0.0.1:99999/v1"])
async def test_a_malformed_url_is_told_once(directory, url):
    async with composer(directory, tab={"url": url}) as client:
        for _ in range(3):
            assert await suggest(client, "x = ˇ", trigger=INVOKED) == []
        assert url in (await client.state("error"))["message"]
        assert len(client.all("window/showMessage")) == 1


async def test_without_a_model_the_user_is_asked(directory, no_engine_left):
    async with composer(directory) as client:
        asked = await client.notification("window/showMessageRequest")
        assert asked["message"].startswith("Download qwen2.5-coder-")
        status = await client.state("error")
        assert "composer-lsp model pull qwen2.5-coder-" in status["message"]


async def test_restarting_the_engine(directory, no_engine_left):
    async with scripted_engine(directory) as engine, composer(directory) as client:
        assert await suggest(client, "total = ˇ\n") == ["sum(values)"]
        # The engine that comes has no models: the one that was there is gone all the same.
        client.begin(
            "workspace/executeCommand", {"command": "composer.restartEngine", "arguments": []}
        )
        async with asyncio.timeout(LIMIT_S):
            assert await engine.wait() == 0
