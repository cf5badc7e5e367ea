"""Clients that do not keep to the protocol: an error answer, and never a dead server."""

import pytest

from tests.support.lsp import LspError, frame

SHARED = pytest.mark.asyncio(loop_scope="module")

URI = "file:///w/a.py"
PLACE = {"line": 0, "character": 0}


async def refused(client, method, params=None) -> LspError:
    with pytest.raises(LspError) as caught:
        await client.request(method, params)
    return caught.value


async def is_alive(client) -> bool:
    return (await client.command("composer.status"))["state"] == "idle"


async def test_requests_before_initialize(start_fake):
    async with start_fake() as client:
        for method in ("textDocument/inlineCompletion", "shutdown", "no/such"):
            assert (await refused(client, method)).code == -32002
        client.open(URI, "dropped")
        await client.initialize()
        assert (await refused(client, "initialize", {"capabilities": {}})).code == -32600
        # What came before `initialize` was dropped.
        with pytest.raises(LspError):
            await client.inline_completion(URI, PLACE)


async def test_after_shutdown_only_exit_is_left(client):
    assert await client.request("shutdown") is None
    for method in ("textDocument/inlineCompletion", "shutdown", "initialize", "no/such"):
        assert (await refused(client, method)).code == -32600
    client.open(URI, "ignored")
    client.notify("exit")
    assert await client.exit_code() == 0


@SHARED
async def test_unknown_methods(shared_client):
    error = await refused(shared_client, "textDocument/noSuchThing", {"a": 1})
    assert error.code == -32601
    assert "textDocument/noSuchThing" in error.message
    assert (await refused(shared_client, "$/noSuchThing")).code == -32601
    assert (await refused(shared_client, "textDocument/hover", {})).code == -32601
    shared_client.notify("$/noSuchThing", {"a": 1})
    shared_client.notify("textDocument/noSuchThing", {"a": 1})
    assert await is_alive(shared_client)


@SHARED
@pytest.mark.parametrize(
    "params",
    [
        pytest.param(None, id="none"),
        pytest.param({}, id="empty"),
        pytest.param([], id="list"),
        pytest.param("text", id="string"),
        pytest.param(17, id="number"),
        pytest.param({"textDocument": {"uri": URI}}, id="missing fields"),
        pytest.param(
            {
                "textDocument": {"uri": URI},
                "position": {"line": "0", "character": [1]},
                "context": {"triggerKind": 1},
            },
            id="wrong types",
        ),
        pytest.param(
            {
                "textDocument": {"uri": URI},
                "position": {"line": -1, "character": 0},
                "context": {"triggerKind": 1},
            },
            id="negative line",
        ),
        pytest.param(
            {
                "textDocument": {"uri": URI},
                "position": PLACE,
                "context": {"triggerKind": 99},
            },
            id="unknown enumeration value",
        ),
        pytest.param(
            {"textDocument": None, "position": None, "context": None, "jsonrpc": "2.0"},
            id="null fields and a nested jsonrpc",
        ),
    ],
)
async def test_malformed_params_of_a_request(shared_client, params):
    shared_client.open(URI, "x")
    assert (await refused(shared_client, "textDocument/inlineCompletion", params)).code == -32602
    assert await is_alive(shared_client)


@SHARED
async def test_malformed_params_tell_where(shared_client):
    shared_client.open(URI, "x")
    params = {
        "textDocument": {"uri": URI},
        "position": {"line": 0, "character": "x"},
        "context": {"triggerKind": 1},
    }
    error = await refused(shared_client, "textDocument/inlineCompletion", params)
    assert "position.character" in error.message


@SHARED
@pytest.mark.parametrize(
    "params",
    [
        None,
        {"textDocument": {"uri": URI, "version": 2}},
        {"textDocument": {"uri": URI, "version": 2}, "contentChanges": [{"range": 5}]},
        {"textDocument": {"uri": "file:///never", "version": 2}, "contentChanges": [{"text": "x"}]},
    ],
    ids=["none", "no changes", "bad range", "never opened"],
)
async def test_malformed_changes_change_nothing(shared_client, params):
    shared_client.open(URI, "x = ")
    shared_client.notify("textDocument/didChange", params)
    shared_client.notify("textDocument/didClose", {"textDocument": {"uri": "file:///never"}})
    items = await shared_client.inline_completion(URI, {"line": 0, "character": 4})
    assert items[0]["range"]["start"]["character"] == 4
    assert shared_client.all("window/showMessage") == []


@SHARED
async def test_invalid_ranges_clamp(shared_client):
    shared_client.open(URI, "abc\ndef")
    end, start = {"line": 7, "character": 7}, {"line": 1, "character": 1}
    shared_client.change(URI, 2, {"range": {"start": end, "end": start}, "text": "X"})
    items = await shared_client.inline_completion(URI, {"line": 9, "character": 9})
    assert items[0]["range"]["start"] == {"line": 1, "character": 2}


@SHARED
@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(b"Content-Length: 5\r\n\r\n{{{{{", -32700, id="not JSON"),
        pytest.param(b"Content-Length: 2\r\n\r\n\xff\xfe", -32700, id="not UTF-8"),
        pytest.param(b"Content-Length: nonsense\r\n\r\n", -32700, id="bad length"),
        pytest.param(b"Hello there\r\n\r\n", -32700, id="no header"),
        pytest.param(frame(b"[".decode() * 9), -32600, id="a string"),
        pytest.param(b"Content-Length: 200000\r\n\r\n" + b"[" * 200_000, -32700, id="deep nesting"),
        pytest.param(frame([]), -32600, id="batch"),
        pytest.param(frame(None), -32600, id="null"),
        pytest.param(frame({"id": 1, "method": "shutdown"}), -32600, id="no version"),
        pytest.param(
            frame({"jsonrpc": "2.0", "id": None, "method": "shutdown"}), -32600, id="null id"
        ),
        pytest.param(
            frame({"jsonrpc": "2.0", "id": [1], "method": "shutdown"}), -32600, id="list id"
        ),
        pytest.param(
            frame({"jsonrpc": "2.0", "id": True, "method": "shutdown"}), -32600, id="boolean id"
        ),
    ],
)
async def test_garbage_is_answered_without_an_id(shared_client, data, code):
    seen = len(shared_client.received)
    shared_client.send_bytes(data)
    message = await shared_client.wait_for(lambda message: "error" in message, after=seen)
    assert message["id"] is None
    assert message["error"]["code"] == code
    assert await is_alive(shared_client)


@SHARED
@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "method": 5, "params": {}},
        {"jsonrpc": "2.0", "method": None},
        {"jsonrpc": "2.0", "id": 99, "result": {"unasked": 1}},
        {"jsonrpc": "2.0", "id": {"a": 1}, "result": None},
        {"jsonrpc": "2.0", "id": 99, "error": {"code": 1, "message": "unasked"}},
        {"jsonrpc": "2.0", "error": "what"},
        {"jsonrpc": "2.0"},
        {"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": [1]}},
        {"jsonrpc": "2.0", "method": "$/cancelRequest"},
        {"jsonrpc": "2.0", "method": "$/progress", "params": {"token": 1, "value": 1}},
        {"jsonrpc": "2.0", "method": "window/workDoneProgress/cancel", "params": {"token": "x"}},
        {"jsonrpc": "2.0", "method": "$/setTrace", "params": {"value": "loud"}},
    ],
)
async def test_messages_that_want_no_answer_get_none(shared_client, message):
    num_received = len(shared_client.received)
    shared_client.send(message)
    assert await is_alive(shared_client)
    answers = [item for item in shared_client.received[num_received:] if "error" in item]
    assert answers == []


@SHARED
async def test_a_method_that_is_no_string(shared_client):
    shared_client.send({"jsonrpc": "2.0", "id": "odd", "method": 5})
    with pytest.raises(LspError) as caught:
        await shared_client.answer("odd")
    assert caught.value.code == -32601


async def test_an_id_in_use_is_refused_and_the_first_request_goes_on(client, events):
    client.open(URI, "slow")
    message = {
        "jsonrpc": "2.0",
        "id": "twice",
        "method": "textDocument/inlineCompletion",
        "params": {
            "textDocument": {"uri": URI},
            "position": {"line": 0, "character": 4},
            "context": {"triggerKind": 2},
        },
    }
    client.send(message)
    await events.wait_for("complete automatic python slow")
    client.send(message)
    first = await client.wait_for(lambda message: message.get("id") == "twice")
    assert first["error"]["code"] == -32600
    seen = len(client.received)
    client.cancel("twice")
    second = await client.wait_for(lambda message: message.get("id") == "twice", after=seen)
    assert second["error"]["code"] == -32800


async def test_capabilities_that_nobody_knows_yet(start_fake):
    async with start_fake() as client:
        result = await client.initialize(
            {
                "textDocument": {
                    "inlineCompletion": {},
                    "completion": {"completionItem": {"documentationFormat": ["hologram"]}},
                },
                "workspace": {"symbol": {"symbolKind": {"valueSet": [999]}}},
                "general": {"positionEncodings": ["utf-64", "utf-32"]},
                "invention": True,
            }
        )
        assert result["capabilities"]["positionEncoding"] == "utf-32"


async def test_a_client_without_any_capability(start_fake):
    """It is sent nothing and asked nothing that it did not declare."""
    async with start_fake() as client:
        result = await client.initialize({})
        assert result["capabilities"]["positionEncoding"] == "utf-16"
        client.open(URI, "loading\nmissing\nready\nfail\nx")
        for line in range(5):
            await client.inline_completion(URI, {"line": line, "character": 9})
        await client.command("composer.snooze", 1)
        methods = {message.get("method") for message in client.received} - {None}
        assert methods <= {"window/logMessage", "window/showMessage"}


async def test_the_reply_to_initialize_is_the_first_message(start_fake):
    async with start_fake() as client:
        await client.initialize(initializationOptions={"tab": {"maxTokens": "bad"}})
        assert "capabilities" in client.received[0]["result"]


async def test_source_text_stays_out_of_the_log(start_fake, directory):
    secret = "correct horse battery staple"
    async with start_fake(COMPOSER_LOG_LEVEL="info") as client:
        await client.initialize()
        client.open(URI, f"{secret} never")
        await client.inline_completion(URI, {"line": 0, "character": 99})
        client.change(URI, 2, {"text": f"{secret} crash"})
        with pytest.raises(LspError):
            await client.inline_completion(URI, {"line": 0, "character": 99})
        client.notify("textDocument/didChange", {"textDocument": secret})
        await client.shut_down()
    log = next(directory.rglob("composer-lsp.log")).read_text(encoding="utf-8")
    assert "RuntimeError" in log
    assert secret not in log
    assert secret.encode() not in client.stderr
