"""States, commands, progress and the fetching of a model."""

import copy
import json

import pytest

from tests.support.lsp import CAPABILITIES, INVOKED, LspClient, LspError, drawn

URI = "file:///w/a.py"

CANNOT_ASK = copy.deepcopy(CAPABILITIES)
del CANNOT_ASK["window"]["showMessage"]


async def act(client: LspClient, word: str, **kwargs):
    place = drawn(f"{word}ˇ")
    client.open(URI, place.text)
    return await client.inline_completion(URI, place.position(), **kwargs)


async def test_states_of_a_request(client, events):
    await client.state("idle")
    client.open(URI, "slow")
    msg_id = client.begin_inline_completion(URI, {"line": 0, "character": 4})
    await client.state("thinking")
    seen = len(client.received)
    client.cancel(msg_id)
    await client.state("idle", after=seen)


async def test_an_error_is_told_once_and_leaves_no_thinking(client):
    for _ in range(5):
        assert await act(client, "fail") == []
    status = await client.state("error")
    assert status["message"] == "the engine refuses: mend it so"
    assert [box["message"] for box in client.all("window/showMessage")] == [status["message"]]
    assert (await client.command("composer.status"))["state"] == "error"
    # Once it works again, the same error is news again.
    await act(client, "ready")
    await client.state("idle")
    await act(client, "fail")
    assert len(client.all("window/showMessage")) == 2


async def test_offline_shows_no_box(client):
    assert await act(client, "offline") == []
    assert (await client.state("offline"))["message"] == "the engine is gone"
    assert client.all("window/showMessage") == []


async def test_loading_shows_progress(client):
    await act(client, "loading")
    await client.state("loading")
    created = await client.notification("window/workDoneProgress/create")
    token = created["token"]
    begin = await client.notification("$/progress", lambda params: params["token"] == token)
    assert begin["value"]["kind"] == "begin"
    assert begin["value"]["title"] == "Loading the model"
    await act(client, "loading")
    await client.notification("$/progress", lambda params: params["value"]["kind"] == "report")
    await act(client, "ready")
    await client.notification("$/progress", lambda params: params["value"]["kind"] == "end")
    status = await client.command("composer.status")
    del status["suggestions"]
    assert status == {"state": "idle", "message": "Ready", "model": "a-model"}


async def test_snooze(client):
    assert (await client.command("composer.snooze"))["state"] == "snoozed"
    await client.state("snoozed")
    assert await act(client, "quick") == []
    assert await act(client, "quick", trigger=INVOKED)
    assert (await client.command("composer.snooze", 0))["state"] == "idle"
    assert await act(client, "quick")


async def test_a_snooze_ends_by_itself(client):
    await client.command("composer.snooze", 0.002)
    seen = len(client.received)
    await client.state("idle", after=seen - 2)


async def test_toggle_everywhere(client):
    assert await client.command("composer.toggle") == {"enabled": False}
    await client.state("disabled")
    assert await act(client, "quick") == []
    assert await act(client, "quick", trigger=INVOKED)
    assert await client.command("composer.toggle", "global") == {"enabled": True}
    assert await act(client, "quick")


async def test_toggle_a_language(client):
    assert await client.command("composer.toggle", "language:python") == {"enabled": False}
    assert await act(client, "quick") == []
    assert (await client.command("composer.status"))["state"] == "idle"
    assert await client.command("composer.toggle", "language:python") == {"enabled": True}
    assert await act(client, "quick")


async def test_turning_off_ends_what_runs(client, events):
    client.open(URI, "slow")
    msg_id = client.begin_inline_completion(URI, {"line": 0, "character": 4})
    await events.wait_for("complete automatic python slow")
    await client.command("composer.toggle")
    assert await client.answer(msg_id) is None
    await events.wait_for("cancelled")


async def test_a_changed_setting_overrides_the_switch(client):
    await client.command("composer.toggle")
    for enabled in (False, True):
        settings = {"composer": {"tab": {"enabled": enabled}}}
        client.notify("workspace/didChangeConfiguration", {"settings": settings})
    assert await act(client, "quick")


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("composer.snooze", ["long"]),
        ("composer.snooze", [-1]),
        ("composer.snooze", [True]),
        ("composer.snooze", [1e9]),
        ("composer.toggle", ["language:"]),
        ("composer.toggle", ["python"]),
        ("composer.toggle", [5]),
        ("composer.pullModel", [5]),
        ("composer.noSuchCommand", []),
    ],
)
async def test_bad_commands(client, command, arguments):
    with pytest.raises(LspError) as caught:
        await client.command(command, *arguments)
    assert caught.value.code == -32602
    assert command in caught.value.message


async def test_restart_engine(client, events):
    await client.command("composer.restartEngine")
    assert "restart" in events.all()


async def test_show_log(client, directory):
    path = (await client.command("composer.showLog"))["path"]
    assert path.startswith(str(directory))
    assert path.endswith(".log")


# Fetching a model --------------------------------------------------------------------------------


def puller(*events: object, then: str = "") -> str:
    """A stand-in for `composer-lsp model pull`, as a Python program."""
    lines = "".join(f"print({json.dumps(event)!r}, flush=True)\n" for event in events)
    return f"import sys\nassert sys.argv[2:] == ['--json'], sys.argv\n{lines}{then}"


PULLS = puller(
    {"event": "progress", "done_bytes": 0, "total_bytes": 98_000_000},
    {"event": "progress", "done_bytes": 49_000_000, "total_bytes": 98_000_000},
    {"event": "done", "path": "/models/smollm2-135m/a.gguf"},
)
BREAKS = puller({"event": "error", "message": "the disk is full: free 98 MB"})
HANGS = puller(
    {"event": "progress", "done_bytes": 1, "total_bytes": 100},
    then="import time\ntime.sleep(600)\n",
)


async def test_asked_once_and_fetched(start_fake, events):
    async with start_fake(FAKE_PULL=PULLS) as client:
        client.answers["window/showMessageRequest"] = lambda params: params["actions"][0]
        await client.initialize()
        await act(client, "missing")
        asked = await client.notification("window/showMessageRequest")
        assert asked["message"] == "Download smollm2-135m (98 MB)?"
        assert [action["title"] for action in asked["actions"]] == ["Download", "Not now"]
        half = await client.notification(
            "composer/status", lambda params: params.get("percent") == 50
        )
        assert half["state"] == "downloading"
        await client.notification(
            "$/progress", lambda params: params["value"].get("percentage") == 50
        )
        await client.notification("$/progress", lambda params: params["value"]["kind"] == "end")
        # Warmed up at the start, and again with the model.
        await events.wait_for("warm up", times=2)
        assert (await client.command("composer.status"))["state"] == "idle"


@pytest.mark.parametrize("answer", [None, {"title": "Not now"}])
async def test_asked_once_and_refused(start_fake, answer):
    async with start_fake(FAKE_PULL=PULLS) as client:
        client.answers["window/showMessageRequest"] = lambda params: answer
        await client.initialize()
        for _ in range(3):
            await act(client, "missing")
        status = await client.state("error")
        assert "composer-lsp model pull smollm2-135m" in status["message"]
        assert len(client.all("window/showMessageRequest")) == 1
        assert client.all("window/showMessage") == []


@pytest.mark.parametrize("policy", ["ask", "always", "never"])
async def test_a_model_that_nobody_knows_is_not_offered(start_fake, policy):
    async with start_fake(FAKE_PULL=PULLS) as client:
        await client.initialize(initializationOptions={"modelDownload": policy})
        await act(client, "nonsense")
        told = await client.notification("window/showMessage")
        assert told["message"].startswith("There is no model 'nope': composer-lsp model list")
        assert client.all("window/showMessageRequest") == []


async def test_always_fetches_without_asking(start_fake, events):
    async with start_fake(FAKE_PULL=PULLS) as client:
        await client.initialize(initializationOptions={"modelDownload": "always"})
        await act(client, "missing")
        await client.state("downloading")
        await events.wait_for("warm up", times=2)
        assert client.all("window/showMessageRequest") == []


@pytest.mark.parametrize(("capabilities", "policy"), [(CAPABILITIES, "never"), (CANNOT_ASK, "ask")])
async def test_told_how_to_fetch(start_fake, capabilities, policy):
    async with start_fake() as client:
        await client.initialize(capabilities, initializationOptions={"modelDownload": policy})
        for _ in range(3):
            await act(client, "missing")
        told = await client.notification("window/showMessage")
        assert "composer-lsp model pull smollm2-135m" in told["message"]
        assert len(client.all("window/showMessage")) == 1
        assert client.all("window/showMessageRequest") == []


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (BREAKS, "the disk is full: free 98 MB"),
        ("raise SystemExit('no network: connect and try again')", "no network: connect"),
        (puller(), "without a result"),
        ("print('nonsense')", "nonsense"),
    ],
    ids=["an error event", "an exit status", "silence", "nonsense"],
)
async def test_a_failed_fetch_is_told(start_fake, program, message):
    async with start_fake(FAKE_PULL=program) as client:
        await client.initialize(initializationOptions={"modelDownload": "always"})
        await act(client, "missing")
        told = await client.notification("window/showMessage")
        assert message in told["message"]
        assert message in (await client.state("error"))["message"]


async def test_the_command_fetches(start_fake):
    async with start_fake(FAKE_PULL=PULLS) as client:
        await client.initialize()
        answer = await client.command("composer.pullModel", "smollm2-135m")
        assert answer == {"path": "/models/smollm2-135m/a.gguf"}


async def test_the_command_tells_why_not(start_fake):
    async with start_fake(FAKE_PULL=BREAKS) as client:
        await client.initialize()
        with pytest.raises(LspError) as caught:
            await client.command("composer.pullModel", "smollm2-135m")
        assert caught.value.code == -32803
        assert caught.value.message == "the disk is full: free 98 MB"


async def test_a_fetch_ends_with_the_server(start_fake, directory):
    marker = directory / "puller.pid"
    program = f"import os, pathlib\npathlib.Path({str(marker)!r}).write_text(str(os.getpid()))\n"
    async with start_fake(FAKE_PULL=program + HANGS) as client:
        await client.initialize(initializationOptions={"modelDownload": "always"})
        await act(client, "missing")
        await client.notification("composer/status", lambda params: params.get("percent") == 1)
        client.process.stdin.close()
        assert await client.exit_code() == 1
    assert not is_running(int(marker.read_text()))


def is_running(pid: int) -> bool:
    import psutil

    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
