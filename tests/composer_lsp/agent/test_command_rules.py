"""What is kept of the user's answers."""

from pathlib import Path

import pytest

from composer_lsp.agent.command_rules import Permissions, RulesFile, RulesFileError, parse_rule
from composer_lsp.agent.commands import Rule, RuleError
from composer_lsp.agent.run_commands import command_settings
from composer_lsp.config import AgentSettings, Settings, TabSettings


@pytest.fixture
def file(tmp_path: Path) -> RulesFile:
    return RulesFile.of(tmp_path / "state", tmp_path / "shop")


def test_rules_are_kept_one_by_one(file: RulesFile) -> None:
    assert file.read() == ([], [])
    rules = [Rule("allow", "pytest *"), Rule("allow", "= echo 'ä\n' | cat"), Rule("deny", "curl *")]
    for rule in [*rules, rules[0]]:
        file.add(rule)
    assert file.read() == (rules, [])
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in file.path.parent.iterdir()] == [file.path.name]


def test_each_folder_has_a_file_of_its_own(tmp_path: Path) -> None:
    state = tmp_path / "state"
    (tmp_path / "link").symlink_to("shop")
    shop = RulesFile.of(state, tmp_path / "shop").path
    assert shop.name.startswith("shop-")
    assert RulesFile.of(state, tmp_path / "link").path == shop
    assert RulesFile.of(state, tmp_path / "other" / "shop").path != shop


def test_a_rule_that_cannot_be_read_costs_itself_alone(file: RulesFile) -> None:
    file.path.parent.mkdir(parents=True)
    file.path.write_text('{"rules": ["pytest", "deny curl *"]}')
    rules, (problem,) = file.read()
    assert rules == [Rule("deny", "curl *")]
    assert problem == f"{file.path}: the rule 'pytest' must begin with allow, ask, deny"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"rules": "x"}', '{"rules": [1]}', "\udcff"])
def test_a_file_that_is_none_is_told_and_not_written_over(file: RulesFile, text: str) -> None:
    file.path.parent.mkdir(parents=True)
    data = text.encode("utf-8", "surrogateescape")
    file.path.write_bytes(data)
    rules, (problem,) = file.read()
    assert (rules, str(file.path) in problem) == ([], True)
    with pytest.raises(RulesFileError):
        file.add(Rule("allow", "pytest"))
    assert file.path.read_bytes() == data


@pytest.mark.parametrize("text", ["", "allow", "allow ", "permit ls", "pytest *", "deny 'x"])
def test_a_text_that_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(RuleError):
        parse_rule(text)


def test_rules_are_read_anew_at_each_run(file: RulesFile) -> None:
    permissions = Permissions(file)
    permissions.refresh([Rule("deny", "rm *")])
    file.add(Rule("allow", "pytest"))
    assert permissions.refresh([Rule("ask", "git *")]) == []
    assert permissions.approvals.policy.rules == (Rule("ask", "git *"), Rule("allow", "pytest"))


def test_settings_say_what_commands_may_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    agent = AgentSettings(
        command_rules=("deny curl *",),
        sandbox_read_only_paths=("~/data", "/srv/x"),
        command_timeout_s=7,
        api_key_env="MY_AGENT",
    )
    settings = Settings(agent=agent, tab=TabSettings(api_key_env="MY_TAB"))
    found = command_settings(settings, Permissions(), [Rule("allow", "ls")])
    assert found.rules == (Rule("deny", "curl *"), Rule("allow", "ls"))
    assert found.sandbox.read_only == (Path("/home/me/data"), Path("/srv/x"))
    assert found.sandbox.hidden_variables == ("MY_TAB", "MY_AGENT")
    assert found.timeout_s == 7
