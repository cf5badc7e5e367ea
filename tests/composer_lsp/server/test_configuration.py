"""Settings from every way that clients send them."""

import copy

import pytest
from pygls.lsp.server import LanguageServer

from composer_lsp.server.configuration import Configuration
from composer_lsp.server.editor import Editor
from tests.support.lsp import CAPABILITIES, LspClient, drawn

URI = "file:///w/a.py"

PUSH_ONLY = {**CAPABILITIES, "workspace": {}}
REGISTERS = copy.deepcopy(CAPABILITIES)
REGISTERS["workspace"]["didChangeConfiguration"] = {"dynamicRegistration": True}


async def max_tokens(client: LspClient) -> int:
    """What the service sees."""
    place = drawn("settingsˇ")
    client.open(URI, place.text)
    items = await client.inline_completion(URI, place.position())
    return int(items[0]["insertText"])


@pytest.mark.parametrize(
    "options", [{"tab": {"maxTokens": 7}}, {"composer": {"tab": {"maxTokens": 7}}}]
)
async def test_initialization_options(start_fake, options):
    async with start_fake() as client:
        await client.initialize(PUSH_ONLY, initializationOptions=options)
        assert await max_tokens(client) == 7


async def test_pulled_configuration_wins(start_fake, events):
    async with start_fake() as client:
        client.answers["workspace/configuration"] = lambda params: [{"tab": {"maxTokens": 9}}]
        await client.initialize(initializationOptions={"tab": {"maxTokens": 7}})
        await events.wait_for("warm up")
        assert await max_tokens(client) == 9
        pulls = client.all("workspace/configuration")
        assert pulls[0]["items"] == [{"section": "composer"}]


async def test_nothing_pulled_leaves_what_was_there(start_fake, events):
    async with start_fake() as client:
        client.answers["workspace/configuration"] = lambda params: [None]
        await client.initialize(initializationOptions={"tab": {"maxTokens": 7}})
        await events.wait_for("warm up")
        assert await max_tokens(client) == 7


async def test_pushed_configuration(start_fake):
    async with start_fake() as client:
        await client.initialize(PUSH_ONLY)
        settings = {"composer": {"tab": {"maxTokens": 11}}}
        client.notify("workspace/didChangeConfiguration", {"settings": settings})
        assert await max_tokens(client) == 11
        assert client.all("workspace/configuration") == []


async def test_a_change_is_pulled_again(start_fake, events):
    async with start_fake() as client:
        limit = 5
        client.answers["workspace/configuration"] = lambda params: [{"tab": {"maxTokens": limit}}]
        await client.initialize(REGISTERS)
        registration = (await client.notification("client/registerCapability"))["registrations"][0]
        assert registration["method"] == "workspace/didChangeConfiguration"
        await events.wait_for("warm up")
        limit = 6
        num_changes = events.all().count("settings changed")
        client.notify("workspace/didChangeConfiguration", {"settings": None})
        await events.wait_for("settings changed", times=num_changes + 2)
        assert await max_tokens(client) == 6


def test_the_newest_layer_wins():
    """A push counts before the pull that follows it is answered."""
    configuration = Configuration(Editor(LanguageServer("test", "0")))
    configuration.update("initialization", {"tab": {"maxTokens": 1, "debounceMs": 9}})
    assert configuration.update("pulled", {"tab": {"maxTokens": 2}}).tab.max_tokens == 2
    settings = configuration.update("pushed", {"composer": {"tab": {"maxTokens": 3}}})
    assert (settings.tab.max_tokens, settings.tab.debounce_ms) == (3, 9)
    assert configuration.update("pulled", {"tab": {"maxTokens": 4}}).tab.max_tokens == 4
    assert configuration.update("pushed", None).tab.max_tokens == 4


async def test_no_registration_unless_the_client_allows_it(client, events):
    await events.wait_for("warm up")
    assert client.all("client/registerCapability") == []


async def test_a_bad_value_is_told_once_and_defaulted(start_fake, events):
    async with start_fake() as client:
        await client.initialize(
            PUSH_ONLY, initializationOptions={"tab": {"maxTokens": "many", "debounceMs": 1}}
        )
        told = await client.notification("window/showMessage")
        assert told["type"] == 2
        for part in ("composer.tab.maxTokens", '"many"', "a whole number", "64"):
            assert part in told["message"]
        assert await max_tokens(client) == 64
        client.notify(
            "workspace/didChangeConfiguration", {"settings": {"tab": {"maxTokens": "many"}}}
        )
        assert await max_tokens(client) == 64
        assert len(client.all("window/showMessage")) == 1


async def test_a_client_that_fails_to_tell_its_settings(start_fake, events):
    async with start_fake() as client:
        client.answers["workspace/configuration"] = lambda params: "nonsense"
        await client.initialize(initializationOptions={"tab": {"maxTokens": 3}})
        await events.wait_for("warm up")
        assert await max_tokens(client) == 3


async def test_workspace_folders(start_fake):
    async def roots(client: LspClient) -> list[str]:
        place = drawn("rootsˇ")
        client.open(URI, place.text)
        items = await client.inline_completion(URI, place.position())
        return [path for path in items[0]["insertText"].split(",") if path]

    folders = [{"uri": f"file:///w/{name}", "name": name} for name in ("a", "b%20c", "d")]
    async with start_fake() as client:
        result = await client.initialize(workspaceFolders=folders[:2])
        assert result["capabilities"]["workspace"]["workspaceFolders"] == {
            "supported": True,
            "changeNotifications": True,
        }
        assert await roots(client) == ["/w/a", "/w/b c"]
        client.notify(
            "workspace/didChangeWorkspaceFolders",
            {"event": {"added": [folders[2]], "removed": [folders[0]]}},
        )
        assert await roots(client) == ["/w/b c", "/w/d"]
        client.notify(
            "workspace/didChangeWorkspaceFolders",
            {"event": {"added": [], "removed": [{"uri": "file:///never", "name": "x"}]}},
        )
        assert await roots(client) == ["/w/b c", "/w/d"]
        elsewhere = [
            {"uri": "vscode-remote://ssh-remote+host/w/e", "name": "e"},
            {"uri": "http://[bad", "name": "f"},
        ]
        client.notify(
            "workspace/didChangeWorkspaceFolders", {"event": {"added": elsewhere, "removed": []}}
        )
        assert await roots(client) == ["/w/b c", "/w/d"]


async def test_watched_files_are_accepted(client):
    changes = [{"uri": "file:///w/a.py", "type": 2}]
    client.notify("workspace/didChangeWatchedFiles", {"changes": changes})
    assert await client.command("composer.status")
