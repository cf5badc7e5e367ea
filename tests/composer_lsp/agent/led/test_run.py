"""A change by a model that is led: what it is asked, and what the harness does with its answers."""

import asyncio
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from composer_index.parsing import parse_file
from composer_lsp.agent.agent import Agent, Finished
from composer_lsp.agent.command_rules import Permissions
from composer_lsp.agent.commands import Rule, SandboxError
from composer_lsp.agent.commands.bubblewrap import find_bubblewrap
from composer_lsp.agent.prompt.system import Mode, Request
from composer_lsp.agent.resume import resume_run
from composer_lsp.agent.run_commands import CommandSettings
from composer_lsp.agent.workspace.directory import DirectoryWorkspace
from composer_lsp.agent.workspace.paths import Paths
from tests.composer_lsp.agent.scripted import Said, ScriptedModel

SHOP = "def total(prices):\n    return 0\n\n\ndef unused():\n    return 1\n"
TEST = "from shop import total\n\n\ndef test_total():\n    assert total([1, 2]) == 3\n"
OTHER: Said = [("other_change", {"what": "do it"})]
RIGHT = "src/shop.py\n```python\ndef total(prices):\n    return 0 + sum(prices)\n```"
WRONG = RIGHT.replace("0 + sum(prices)", "len(prices) + 5")


class Index:
    """The definitions of a folder's Python files; a search finds `unused`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def _all(self) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = []
        for path in sorted(self._root.rglob("*.py")):
            name = path.relative_to(self._root).as_posix()
            for each in parse_file(name, path.read_bytes()).definitions:  # pyright: ignore
                found.append(
                    {
                        "root": str(self._root),
                        "path": name,
                        "start_line": each.start_line,
                        "end_line": each.end_line,
                        "symbol": each.symbol,
                        "name": each.name,
                        "kind": each.kind,
                    }
                )
        return found

    async def search(
        self, query: str, *, limit: int = 10, glob: str | None = None, language: str | None = None
    ) -> Mapping[str, Any]:
        return {"results": [each for each in self._all() if each["name"] == "unused"], "states": {}}

    async def definitions(self, name: str) -> Sequence[Mapping[str, Any]]:
        return [each for each in self._all() if each["name"] == name]

    async def references(self, name: str, *, limit: int = 100) -> Sequence[Mapping[str, Any]]:
        return []


@dataclass
class Led:
    finished: Finished
    model: ScriptedModel

    @property
    def asked_to_write(self) -> str:
        return str(self.model.requests[1][1]["content"])

    def told(self, number: int) -> str:
        """What the harness said before the answer `number`, counted from 0."""
        return str(self.model.requests[number][-1]["content"])

    def text(self, path: str) -> str | None:
        return self.finished.context.changes.text(path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src/shop.py").write_text(SHOP)
    (folder / "src/test_shop.py").write_text(TEST)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


@pytest.fixture
def runs_commands() -> None:
    try:
        find_bubblewrap(os.environ["PATH"])
    except SandboxError as error:
        if os.environ.get("COMPOSER_REQUIRE_SANDBOX"):
            raise
        pytest.skip(str(error))


def led(
    root: Path, request: str, *replies: Said, mode: Mode = "edit", may_run_tests: bool = False
) -> Led:
    model = ScriptedModel(*replies)
    rules = (Rule("allow" if may_run_tests else "deny", "python -m pytest *"),)
    permissions = Permissions()
    agent = Agent(
        workspace=DirectoryWorkspace(Paths([root])),
        model=model,
        transcripts=root.parent / "transcripts",
        index=Index(root),
        guidance="always",
        commands=CommandSettings(permissions=permissions, rules=rules),
    )
    asked = Request(mode=mode, text=request)
    finished = asyncio.run(agent.run(asked, lambda event: None, id="led"))
    return Led(finished, model)


def test_a_rename_is_done_by_the_call_that_was_chosen(root: Path) -> None:
    ran = led(
        root, "Rename total to sum_up", [("rename_symbol", {"old": "total", "new": "sum_up"})]
    )
    assert ran.finished.outcome.status == "finished"
    assert ran.text("src/shop.py") == SHOP.replace("total", "sum_up")
    assert ran.text("src/test_shop.py") == TEST.replace("total", "sum_up").replace(
        "test_sum_up", "test_total"
    )
    assert "Changed src/shop.py, src/test_shop.py." in ran.finished.outcome.text
    assert ran.model.must_call == [True]


def test_a_choice_that_was_called_wrongly_is_made_again(root: Path) -> None:
    wrong: Said = [("rename_symbol", {"old": "total", "new": "sum_up everywhere"})]
    right: Said = [("rename_symbol", {"old": "total", "new": "sum_up"})]
    ran = led(root, "Rename total to sum_up everywhere", wrong, right)
    assert ran.text("src/shop.py") == SHOP.replace("total", "sum_up")
    assert "no identifier" in ran.told(1)


def test_the_example_of_the_prompt_is_never_taken(root: Path) -> None:
    example = "src/shop.py\n```python\ndef total(prices):\n    return sum(prices)\n```"
    answer = f"```python\ndef unused():\n    return 2\n```\n{example}"
    ran = led(root, "Change unused", OTHER, answer)
    assert ran.text("src/shop.py") == SHOP.replace("return 1", "return 2")


def test_a_run_that_was_to_write_a_test_writes_one(root: Path) -> None:
    answer = "src/new.py\n```python\ndef test_it():\n    assert True\n```"
    right = answer.replace("new.py", "test_new.py")
    ran = led(root, "Write a test of unused", OTHER, answer, right, mode="test")
    assert "No test was written" in ran.told(2)
    assert "src/test_new.py" in ran.finished.context.changes.paths


def test_a_choice_that_cannot_be_done_is_no_end(root: Path) -> None:
    renaming: Said = [("rename_symbol", {"old": "nowhere", "new": "b"})]
    ran = led(root, "Mend total", renaming, renaming, RIGHT)
    assert ran.finished.outcome.status == "finished"
    assert ran.text("src/shop.py") == SHOP.replace("return 0", "return 0 + sum(prices)")


def test_the_code_that_the_request_names_is_shown_without_numbers(root: Path) -> None:
    ran = led(root, "Let total add up", OTHER, RIGHT)
    assert ran.asked_to_write == (
        "src/shop.py\n```\ndef total(prices):\n    return 0\n```\n\nLet total add up"
    )
    assert ran.model.tools == []


def test_the_projects_rules_come_with_the_code(root: Path) -> None:
    (root / "AGENTS.md").write_text("Add with `sum`.\n")
    ran = led(root, "Let total add up", OTHER, RIGHT)
    assert "AGENTS.md:\nAdd with `sum`." in ran.model.requests[1][0]["content"]


def test_without_names_a_search_finds_the_code(root: Path) -> None:
    answer = "```python\ndef unused():\n    return 2\n```"
    ran = led(root, "Do something", OTHER, answer)
    assert "def unused" in ran.asked_to_write
    assert ran.text("src/shop.py") == SHOP.replace("return 1", "return 2")


def test_what_was_shown_in_part_is_not_written_anew(root: Path) -> None:
    long = "def total(prices):\n" + "    prices = prices\n" * 200 + "    return 0\n"
    (root / "src/shop.py").write_text(long)
    ran = led(root, "Let total add up", OTHER, *[RIGHT] * 4)
    assert not ran.finished.context.changes
    assert "not read its lines 1 to 202" in ran.finished.outcome.text


@pytest.mark.parametrize("path", ["", "src/shop.py\n", "shop.py\n", "src/example.py\n"])
def test_the_file_is_found_whatever_path_was_written(root: Path, path: str) -> None:
    ran = led(root, "Let total add up", OTHER, path + RIGHT.partition("\n")[2])
    assert list(ran.finished.context.changes.paths) == ["src/shop.py"]


def test_a_folder_too_much_leads_to_the_file_that_is_there(root: Path) -> None:
    answer = "lib/src/shop.py\n```python\ndef fresh():\n    return 1\n```"
    ran = led(root, "Add a function fresh", OTHER, answer)
    assert list(ran.finished.context.changes.paths) == ["src/shop.py"]


def test_a_new_file_gets_the_path_of_the_request(root: Path) -> None:
    answer = "test_unused.py\n```python\ndef test_unused():\n    assert True\n```"
    ran = led(root, "Write src/test_unused.py", OTHER, answer, mode="test")
    assert list(ran.finished.context.changes.paths) == ["src/test_unused.py"]


def test_blocks_for_one_file_belong_together(root: Path) -> None:
    answer = "src/new.py\n```python\ndef f():\n    return 1\n```\nsrc/new.py\n```python\ndef g():\n    return 2\n```"
    ran = led(root, "Write src/new.py", OTHER, answer)
    assert ran.text("src/new.py") == "def f():\n    return 1\n\n\ndef g():\n    return 2\n"


def test_tests_that_may_not_run_are_not_said_to_pass(root: Path) -> None:
    ran = led(root, "Let total add up", OTHER, RIGHT)
    assert ran.finished.outcome.text == "Changed src/shop.py. No tests were run."


@pytest.mark.usefixtures("runs_commands")
def test_what_fails_is_told_until_it_passes(root: Path) -> None:
    ran = led(root, "Let total add up", OTHER, WRONG, RIGHT, may_run_tests=True)
    told = ran.told(2)
    assert "E   " in told and "assert 7 == 3" in told
    assert (
        "This was tried, and is wrong:\n\nsrc/shop.py\n```\ndef total(prices):\n    return len"
        in told
    )
    assert told.startswith(ran.asked_to_write.removesuffix("Let total add up"))  # for the cache
    line = "python -m pytest -q -x --tb=short src/test_shop.py"
    assert ran.finished.outcome.text == f"Changed src/shop.py. `{line}` passed."
    by_harness = [e for e in ran.finished.transcript.entries if e.get("by") == "harness"]
    called = [c["function"]["name"] for e in by_harness for c in e["message"].get("tool_calls", ())]
    assert called == ["write_code", "run_command", "write_code", "run_command"]


@pytest.mark.usefixtures("runs_commands")
def test_what_fails_still_is_the_outcome(root: Path) -> None:
    ran = led(root, "Let total add up", OTHER, *[WRONG] * 4, may_run_tests=True)
    assert ran.finished.outcome.status == "stuck"
    assert "does not pass" in ran.finished.outcome.text
    assert "assert 7 == 3" in ran.finished.outcome.text


@pytest.mark.usefixtures("runs_commands")
def test_a_failing_test_is_run_before_it_is_mended(root: Path) -> None:
    request = "test_total in src/test_shop.py fails"
    ran = led(root, request, OTHER, RIGHT, mode="fix", may_run_tests=True)
    assert "The tests fail:\n```\n$ python -m pytest" in ran.asked_to_write
    assert "def total(prices)" in ran.asked_to_write  # It is called in the test's output.
    assert ran.finished.outcome.status == "finished"


@pytest.mark.usefixtures("runs_commands")
def test_a_test_that_fails_is_not_changed(root: Path) -> None:
    easy = "src/test_shop.py\n```python\ndef test_total():\n    assert total([1, 2]) == 0\n```"
    request = "test_total in src/test_shop.py fails"
    ran = led(root, request, OTHER, easy, RIGHT, mode="fix", may_run_tests=True)
    assert "mend the code, not its tests" in ran.told(2)
    assert list(ran.finished.context.changes.paths) == ["src/shop.py"]


def test_what_checks_find_is_told(root: Path) -> None:
    broken = "src/new.py\n```python\ndef f(:\n    return 1\n```"
    ran = led(root, "Let total add up", OTHER, broken, broken.replace("(:", "():"))
    assert "src/new.py:1" in ran.told(2)
    assert ran.text("src/new.py") == "def f():\n    return 1\n"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("I would add them up.", "held no code"),
        ("src/shop.py\n```python\nprint(1)\n```", "defines nothing"),
        (RIGHT.replace("sum(prices)", "sum(prices"), "line 2 of the code"),
        (RIGHT.replace("0 + sum(prices)", "0"), "has to change"),
        ("../x.py\n```python\ndef f(): pass\n```", "outside"),
    ],
)
def test_an_answer_that_cannot_be_taken_is_sent_back(root: Path, answer: str, told: str) -> None:
    ran = led(root, "Let total add up", OTHER, answer, RIGHT)
    assert told in ran.told(2)
    assert ran.finished.outcome.status == "finished"


def test_a_run_goes_on_with_both_requests(root: Path) -> None:
    model = ScriptedModel(OTHER, RIGHT)
    agent = Agent(
        workspace=DirectoryWorkspace(Paths([root])),
        model=model,
        transcripts=root.parent / "transcripts",
        index=Index(root),
        guidance="always",
    )
    past = [
        {"role": "user", "content": "The user is in src/shop.py.\n\nLet total add up"},
        {"role": "assistant", "content": "How?"},
    ]
    request = Request(mode="edit", text="With sum")
    asyncio.run(agent.run(request, lambda event: None, past=past))
    asked = str(model.requests[1][1]["content"])
    assert asked.endswith("Before, the user asked: Let total add up\n\nNow: With sum")


def test_a_run_that_was_cut_off_when_all_was_done_is_done(root: Path) -> None:
    model = ScriptedModel([("rename_symbol", {"old": "total", "new": "sum_up"})])
    agent = Agent(
        workspace=DirectoryWorkspace(Paths([root])),
        model=model,
        transcripts=root.parent / "transcripts",
        index=Index(root),
        guidance="always",
    )
    request = Request(mode="edit", text="Rename total to sum_up")
    done = asyncio.run(agent.run(request, lambda event: None, id="cut"))
    path = done.transcript.path
    assert path is not None
    lines = [line for line in path.read_text().splitlines() if '"kind": "end"' not in line]
    path.write_text("\n".join(lines) + "\n")
    again = asyncio.run(resume_run(agent, path, "", lambda event: None))
    assert again.outcome.status == "finished"
    assert again.context.changes.text("src/shop.py") == SHOP.replace("total", "sum_up")
    assert len(model.requests) == 1
