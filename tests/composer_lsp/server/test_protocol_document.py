"""docs/protocol.md is true: its commands, its kinds of events, its capabilities, its example."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any, cast, get_args

import pytest

from composer_lsp.agent import events
from composer_lsp.server.agent.arguments import read_options
from composer_lsp.server.settings import camel_case
from tests.composer_lsp.server.agent_window import PLAIN, Buffers, OpenWindow
from tests.composer_lsp.server.conftest import StartFake
from tests.support.lsp import LspClient

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
EXAMPLE = DOCUMENT.partition("<!-- example:begin -->")[2].partition("<!-- example:end -->")[0]


def section(title: str) -> str:
    return DOCUMENT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def first_columns(text: str) -> set[str]:
    """The names in the first column of the tables."""
    return {
        name
        for line in text.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`([^`]+)`", line.split("|")[1])
    }


def listed_commands() -> set[str]:
    return {name for name in first_columns(DOCUMENT) if name.startswith("composer.")}


async def test_each_command_is_listed_and_no_other(client: Any) -> None:
    provider = client.initialize_result["capabilities"]["executeCommandProvider"]
    assert listed_commands() == set(provider["commands"])


def test_each_kind_of_event_is_listed_with_its_fields() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*) \|", section("What a run tells"), re.MULTILINE)
    listed = {
        kind: set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", row))) for kind, row in rows
    }
    expected = {
        each.__name__.removesuffix("Event").lower(): {
            camel_case(field.name) for field in dataclasses.fields(each)
        }
        for each in get_args(events.Event)
    }
    expected["begin"] = {"mode", "request"}
    expected["end"] = {"state"}
    assert listed == expected


def test_each_option_is_listed() -> None:
    text = section("Commands for the agent").partition("The options are an object:")[2]
    listed = first_columns(text.partition("The answer comes")[0])
    names = {field.name for field in dataclasses.fields(read_options("x", []))}
    written = {"is_detached": "detached", "continues": "continue"}
    assert listed == {written.get(name, name) for name in names}


def test_each_capability_of_ours_is_listed() -> None:
    source = (ROOT / "composer_lsp" / "server" / "capabilities.py").read_text(encoding="utf-8")
    wanted = set(re.findall(r'_wants\(capabilities\.experimental, "(\w+)"\)', source))
    listed = first_columns(section("Capabilities").partition("`experimental.composer`")[2])
    assert listed == wanted


@pytest.fixture
def root(directory: Path) -> Path:
    folder = directory / "shop"
    folder.mkdir()
    (folder / "shop.py").write_text("price = 1\n")
    return folder


def steps() -> list[tuple[str, dict[str, Any]]]:
    lines = re.findall(r"^(-->|<--) (.*)$", EXAMPLE, re.MULTILINE)
    return [(arrow, json.loads(text.replace(", …}", ', "…": null}'))) for arrow, text in lines]


def shows(shown: Any, seen: Any) -> bool:
    """Whether `seen` is what the example shows, where `…` stands for further fields."""
    if not isinstance(shown, dict):
        return shown == seen
    fields = cast("dict[str, Any]", shown)
    if not isinstance(seen, dict) or ("…" not in fields and seen.keys() != fields.keys()):
        return False
    return all(
        name in seen and shows(each, seen[name]) for name, each in fields.items() if name != "…"
    )


async def next_of(client: LspClient, method: str, at: int) -> dict[str, Any]:
    """The next message of a method, from number `at` of `received` on."""
    return await client.wait_for(lambda each: each.get("method") == method, after=at)


async def test_the_example_runs(start_fake: StartFake, root: Path) -> None:
    edits = [{"old": "price = 1", "new": "price = 2"}]
    replies = (
        [("edit_file", {"path": "shop.py", "edits": edits})],
        [("finish", {"summary": "The price is 2 now."})],
    )
    operations = {"documentChanges": True, "resourceOperations": ["create", "rename", "delete"]}
    capabilities = {**PLAIN, "workspace": {**PLAIN["workspace"], "workspaceEdit": operations}}
    async with OpenWindow(start_fake, root)(*replies, capabilities=capabilities) as (client, _):
        Buffers(client)
        run, at, sent = "", 0, 0
        for arrow, shown in steps():
            if arrow == "-->":
                at = len(client.received)
                arguments = [
                    run if each == "RUN" else each for each in shown["params"]["arguments"]
                ]
                sent = client.begin(shown["method"], {**shown["params"], "arguments": arguments})
                continue
            if "id" in shown and "method" not in shown:
                seen: Any = {"id": shown["id"], "result": await client.answer(sent)}
                run = seen["result"]["run"]
            else:
                message = await next_of(client, shown["method"], at)
                at = client.received.index(message) + 1
                seen = {"method": shown["method"], "params": message["params"]}
            assert shows(shown, seen), (shown, seen)
    assert (root / "shop.py").read_text() == "price = 2\n"
