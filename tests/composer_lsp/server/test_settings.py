import dataclasses
import math

import pytest

from composer_lsp.config import Settings, TabSettings
from composer_lsp.server.settings import camel_case, merged, parse_settings, section_of


def test_every_kind_of_value():
    settings, problems = parse_settings(
        {
            "tab": {
                "enabled": False,
                "maxTokens": 12,
                "debounceMs": 5.0,
                "timeoutS": 3,
                "disabledLanguages": ["markdown"],
                "fimTemplate": "qwen",
            },
            "engine": {"idleExitS": 0},
            "modelDownload": "never",
        }
    )
    assert problems == []
    assert settings.tab == TabSettings(
        enabled=False,
        max_tokens=12,
        debounce_ms=5,
        timeout_s=3.0,
        disabled_languages=("markdown",),
        fim_template="qwen",
    )
    assert settings.engine.idle_exit_s == 0
    assert settings.model_download == "never"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"tab": {"maxTokens": "12"}}, ["composer.tab.maxTokens", '"12"', "whole number", "64"]),
        ({"tab": {"maxTokens": True}}, ["composer.tab.maxTokens", "true", "whole number"]),
        ({"tab": {"maxTokens": 1.5}}, ["composer.tab.maxTokens", "1.5", "whole number"]),
        ({"tab": {"maxTokens": 0}}, ["composer.tab.maxTokens", "from 1 to 4096"]),
        ({"tab": {"debounceMs": -1}}, ["composer.tab.debounceMs", "-1", "from 0 to", "20"]),
        ({"tab": {"timeoutS": math.nan}}, ["composer.tab.timeoutS", "from 0 to"]),
        ({"tab": {"maxTokens": 10**400}}, ["composer.tab.maxTokens", "1000", "from 1 to 4096"]),
        ({"tab": {"contextTokens": 1e300}}, ["composer.tab.contextTokens", "from 64 to"]),
        ({"tab": {"debounceMs": 10**9}}, ["composer.tab.debounceMs", "from 0 to 60000"]),
        ({"tab": {"timeoutS": 10**400}}, ["composer.tab.timeoutS", "a number", "30"]),
        ({"tab": {"timeoutS": math.inf}}, ["composer.tab.timeoutS", "from 0 to"]),
        ({"engine": {"idleExitS": 10**400}}, ["composer.engine.idleExitS", "from 0 to"]),
        ({"engine": {"threads": 5000}}, ["composer.engine.threads", "from 0 to 1024"]),
        ({"tab": {"enabled": 1}}, ["composer.tab.enabled", "true or false"]),
        ({"tab": {"model": 5}}, ["composer.tab.model", "a string", '"auto"']),
        ({"tab": {"disabledLanguages": "md"}}, ["composer.tab.disabledLanguages", "list"]),
        ({"tab": {"disabledPaths": ["a", 1]}}, ["composer.tab.disabledPaths", "list of strings"]),
        (
            {"tab": {"disabledPaths": ["fine/*", "gen/[a"]}},
            ["composer.tab.disabledPaths", '"gen/[a" has a "[" without its "]"', "default, []"],
        ),
        ({"tab": {"fimTemplate": "quen"}}, ["composer.tab.fimTemplate", "quen", "qwen", "suffix"]),
        ({"modelDownload": "yes"}, ["composer.modelDownload", '"ask"', '"always"', '"never"']),
        ({"engine": []}, ["composer.engine", "[]", "an object"]),
        ({"tab": {"maxToken": 5}}, ["composer.tab.maxToken", "Did you mean maxTokens"]),
        ({"bogus": 1}, ["composer.bogus", "not a setting", "modelDownload"]),
    ],
)
def test_a_bad_value_is_named_and_costs_that_key_alone(values, told):
    values = {**values, "agent": {"model": "kept"}}
    settings, problems = parse_settings(values)
    assert settings == parse_settings({"agent": {"model": "kept"}})[0]
    assert len(problems) == 1
    for part in told:
        assert part in problems[0]


def test_a_rule_that_cannot_be_read_is_named_and_leaves_the_others():
    rules = ["deny git push *", "git status", "allow", "allow 'pytest", "allow pytest *"]
    settings, problems = parse_settings({"agent": {"commandRules": rules}})
    assert settings.agent.command_rules == ("deny git push *", "allow pytest *")
    assert problems == [
        "composer.agent.commandRules: the rule 'git status' must begin with allow, ask, deny. "
        "The others hold.",
        "composer.agent.commandRules: the rule '' names no program. The others hold.",
        'composer.agent.commandRules: the rule "\'pytest" cannot be read: No closing quotation. '
        "The others hold.",
    ]


def test_paths_for_commands_are_absolute_or_of_the_home_folder():
    settings, problems = parse_settings({"agent": {"sandboxReadOnlyPaths": ["~/data", "/opt/x"]}})
    assert (settings.agent.sandbox_read_only_paths, problems) == (("~/data", "/opt/x"), [])
    settings, (problem,) = parse_settings({"agent": {"sandboxReadOnlyPaths": ["~/data", "x"]}})
    assert settings.agent.sandbox_read_only_paths == ()
    assert "composer.agent.sandboxReadOnlyPaths" in problem
    assert "and 'x' does not" in problem


def test_tool_servers_keep_the_names_that_the_user_chose():
    servers = {"My docs": {"command": "docs", "env": {"DOCS_KEY": "${env:KEY}"}}, "odd_one": 1}
    settings, problems = parse_settings({"agent": {"mcpServers": servers}})
    assert (settings.agent.mcp_servers, problems) == (servers, [])


@pytest.mark.parametrize("value", [["docs"], "docs", 1])
def test_tool_servers_are_an_object(value):
    settings, (problem,) = parse_settings({"agent": {"mcpServers": value}})
    assert settings.agent.mcp_servers == {}
    assert "composer.agent.mcpServers" in problem
    assert "must be an object. Using the default, {}." in problem


def test_a_tool_server_that_a_newer_layer_leaves_out_is_gone():
    older = {"agent": {"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}, "model": "m"}}
    newer = {"agent": {"mcpServers": {"b": {"url": "https://b"}}}}
    assert merged(older, newer) == {
        "agent": {"mcpServers": {"b": {"url": "https://b"}}, "model": "m"}
    }
    assert merged(older, {"agent": {"mcpServers": None}}) == older


def test_null_means_not_set():
    assert parse_settings({"tab": None, "modelDownload": None}) == (Settings(), [])


def test_keys_for_the_editor_pass():
    assert parse_settings({"trace": {"server": "off"}, "serverPath": "/x"}) == (Settings(), [])


@pytest.mark.parametrize(
    ("sent", "section"),
    [
        ({"composer": {"tab": {}}, "python": {}}, {"tab": {}}),
        ({"tab": {}}, {"tab": {}}),
        (None, {}),
        ([], {}),
        ("x", {}),
    ],
)
def test_clients_send_the_section_or_everything(sent, section):
    assert section_of(sent) == section


def test_later_layers_win_key_by_key():
    below = {"tab": {"enabled": False, "model": "a"}, "modelDownload": "never"}
    above = {"tab": {"model": "b", "enabled": None}, "modelDownload": None}
    assert merged(below, above) == {
        "tab": {"enabled": False, "model": "b"},
        "modelDownload": "never",
    }


def test_every_number_has_a_range():
    def numbers(cls):
        for field in dataclasses.fields(cls):
            name = camel_case(field.name)
            if dataclasses.is_dataclass(field.type):
                yield from ({name: values} for values in numbers(field.type))
            elif field.type in (int, float):
                yield {name: field.default}

    for values in numbers(Settings):
        assert parse_settings(values) == (Settings(), [])


@pytest.mark.parametrize(
    ("index", "told"),
    [
        ({"embedder": {"model": "bge-small-en"}, "reranker": {"model": "judge"}}, []),
        ({"embedder": {"url": "http://localhost:1/v1", "model": "nomic-embed-text"}}, []),
        ({"embedder": {"url": "http://localhost:1/v1"}}, ["composer.index.embedder.model is not"]),
        ({"reranker": {"url": "http://localhost:1/v1"}}, ["composer.index.reranker.model is not"]),
        ({"reranker": {"timeoutS": -1}}, ["composer.index.reranker.timeoutS is -1", "2.0"]),
        ({"embedder": "bge-small-en"}, ['composer.index.embedder is "bge-small-en"', "an object"]),
        ({"embedder": {"modle": "x"}}, ["composer.index.embedder.modle", "Did you mean model?"]),
    ],
)
def test_models_of_the_index(index: dict[str, object], told: list[str]):
    _, problems = parse_settings({"index": index})
    assert len(problems) == (1 if told else 0)
    for part in told:
        assert part in problems[0]
