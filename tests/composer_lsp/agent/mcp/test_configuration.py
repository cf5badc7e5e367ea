import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from composer_lsp.agent.mcp.configuration import (
    MAX_SERVERS,
    Configured,
    HttpServer,
    ServerError,
    StdioServer,
    configured_servers,
    expand,
    of_file,
    of_settings,
)


def of_own(settings: object, folders: Sequence[Path]) -> Configured:
    return configured_servers([of_settings(settings)], folders)


def write(folder: Path, servers: object) -> None:
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))


def test_a_program_and_a_url_as_other_tools_write_them(tmp_path: Path) -> None:
    configured = of_own(
        {
            "docs": {
                "type": "stdio",
                "command": "npx",
                "args": ["-y", "docs", "${workspaceFolder}/docs"],
                "env": {"KEY": "${env:DOCS_KEY}"},
                "cwd": "sub",
            },
            "issues": {
                "url": "https://issues.example/mcp",
                "headers": {"Authorization": "Bearer ${TOKEN}"},
                "headersEnv": {"X-Key": "ISSUES_KEY"},
            },
            "old": {"type": "sse", "url": "http://127.0.0.1:9/sse"},
        },
        [tmp_path],
    )
    assert configured.problems == ()
    assert configured.servers == (
        StdioServer(
            name="docs",
            source="settings",
            folder=tmp_path,
            command="npx",
            args=("-y", "docs", f"{tmp_path}/docs"),
            env={"KEY": "${env:DOCS_KEY}"},
            cwd="sub",
        ),
        HttpServer(
            name="issues",
            source="settings",
            url="https://issues.example/mcp",
            headers={"Authorization": "Bearer ${TOKEN}", "X-Key": "${env:ISSUES_KEY}"},
        ),
        HttpServer(name="old", source="settings", url="http://127.0.0.1:9/sse", kind="sse"),
    )


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("npx docs", "it must be an object, not str"),
        ({}, "it needs a `command` or a `url`"),
        ({"command": "a", "url": "http://b"}, "which one is meant?"),
        ({"command": ""}, "`command` is empty"),
        ({"command": 7}, "`command` must be a string, not int"),
        ({"command": "a", "args": "-y"}, "`args` must be a list of strings, not str"),
        ({"command": "a", "args": [1]}, "`args` must be a string, not int"),
        ({"command": "a\n"}, "a line break or a zero byte"),
        ({"command": "a", "env": []}, "`env` must be an object, not list"),
        ({"command": "a", "env": {"A B": "c"}}, "the name 'A B', which is none"),
        ({"command": "a", "env": {"A": "${input:key}"}}, "'${input:key}' is not understood"),
        ({"url": "ftp://a"}, "must begin with http:// or https://"),
        ({"url": "http://["}, "must begin with http:// or https://"),
        ({"url": "http://a", "headers": {"A:": "b"}}, "the name 'A:', which is none"),
        ({"url": "http://a", "headersEnv": {"A": "b c"}}, "name of an environment variable"),
        ({"type": "ws", "url": "http://a"}, "`type` is 'ws'"),
    ],
)
def test_a_malformed_entry_is_named_and_the_others_are_kept(
    entry: object, said: str, tmp_path: Path
) -> None:
    configured = of_own({"bad": entry, "good": {"command": "a"}}, [tmp_path])
    assert [server.name for server in configured.servers] == ["good"]
    (problem,) = configured.problems
    assert "'bad' is left out" in problem
    assert said in problem


@pytest.mark.parametrize("settings", [["a"], "a", 7])
def test_settings_of_another_kind_are_named(settings: object, tmp_path: Path) -> None:
    configured = of_own(settings, [tmp_path])
    assert configured.servers == ()
    assert "composer.agent.mcpServers" in configured.problems[0]


def test_a_file_of_the_workspace_names_servers(tmp_path: Path) -> None:
    write(tmp_path, {"docs": {"command": "docs"}})
    (server,) = of_own(None, [tmp_path]).servers
    assert (server.name, server.source) == ("docs", "workspace")


@pytest.mark.parametrize(
    ("own", "sources"),
    [
        ({"docs": {"command": "mine"}}, ["settings"]),
        ({"docs": {"command": "mine", "disabled": True}}, []),
        ({"docs": {"disabled": True}}, []),
    ],
)
def test_the_settings_go_before_the_file(own: Any, sources: list[str], tmp_path: Path) -> None:
    write(tmp_path, {"docs": {"command": "theirs"}})
    servers = of_own(own, [tmp_path]).servers
    assert [server.source for server in servers] == sources


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"mcpServers": {\n!', "it is no JSON (line 2)"),
        ("\udcff", "it is no JSON"),
        ("[]", "it has no `mcpServers`"),
        ("[" * 100_000, "is not used"),
        ('{"mcpServers": []}', "must be an object"),
        (" " * 300_000, "more than 256,000 bytes"),
    ],
)
def test_a_file_that_is_not_whole_is_named(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_bytes(text.encode(errors="surrogateescape"))
    configured = of_own({"own": {"command": "a"}}, [tmp_path])
    assert [server.name for server in configured.servers] == ["own"]
    (problem,) = configured.problems
    assert str(tmp_path / ".mcp.json") in problem
    assert said in problem


def test_a_file_that_is_no_configuration_is_not_quoted(tmp_path: Path) -> None:
    secret = tmp_path / "id_rsa"
    secret.write_text("TOP SECRET")
    (tmp_path / ".mcp.json").symlink_to(secret)
    assert "SECRET" not in of_own(None, [tmp_path]).problems[0]


def test_a_file_that_the_user_names(tmp_path: Path) -> None:
    write(tmp_path, {"docs": {"command": "docs", "args": ["${workspaceFolder}"]}})
    workspace = tmp_path / "workspace"
    (server,) = configured_servers([of_file(tmp_path / ".mcp.json")], [workspace]).servers
    assert (server.name, server.source) == ("docs", "command line")
    assert isinstance(server, StdioServer)
    assert server.args == (str(workspace),)


def test_a_file_that_the_user_names_and_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match=r"none\.json cannot be read: No such file"):
        of_file(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(ServerError, match=r"bad\.json is not used: it is no JSON \(line 1\)"):
        of_file(tmp_path / "bad.json")


def test_what_is_named_first_goes_first(tmp_path: Path) -> None:
    first, second = (
        of_settings({"a": {"command": "1"}, "b": {"disabled": True}}),
        of_settings({"a": {"command": "2"}, "b": {"command": "2"}, "c": {"command": "2"}}),
    )
    servers = configured_servers([first, second], [tmp_path]).servers
    found = [(each.name, each.command) for each in servers if isinstance(each, StdioServer)]
    assert found == [("a", "1"), ("c", "2")]


def test_too_many_servers_are_named(tmp_path: Path) -> None:
    settings = {f"s{number}": {"command": "a"} for number in range(MAX_SERVERS + 1)}
    configured = of_own(settings, [tmp_path])
    assert len(configured.servers) == MAX_SERVERS
    assert f"left out: s{MAX_SERVERS}" in configured.problems[0]


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("Bearer ${env:TOKEN}", "Bearer t"),
        ("${TOKEN}${TOKEN}", "tt"),
        ("${NONE:-default}", "default"),
        ("$TOKEN", "$TOKEN"),
        ("${env:NESTED}", "${env:TOKEN}"),
    ],
)
def test_references(text: str, expanded: str) -> None:
    assert expand(text, {"TOKEN": "t", "NESTED": "${env:TOKEN}"}) == expanded


def test_a_variable_that_is_not_set_is_named() -> None:
    with pytest.raises(ServerError, match="NONE is not set"):
        expand("${env:NONE}", {})
