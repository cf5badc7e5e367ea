"""A run as `Agent` puts it together: what the model is told and offered, and what is checked."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from composer_lsp.agent.agent import Agent, Finished
from composer_lsp.agent.events import Event, NoticeEvent
from composer_lsp.agent.guidance import is_small
from composer_lsp.agent.mcp.approval import Grants, ServerApprovals
from composer_lsp.agent.mcp.configuration import Configured
from composer_lsp.agent.mcp.servers import ToolServers
from composer_lsp.agent.model import Delta, Message, Token
from composer_lsp.agent.prompt.system import Mode, Request
from composer_lsp.agent.transcript import Transcript
from composer_lsp.agent.workspace.directory import DirectoryWorkspace
from composer_lsp.agent.workspace.paths import Paths
from composer_lsp.config import Guidance
from tests.composer_index.files.trees import run_git
from tests.composer_lsp.agent.scripted import Said, ScriptedModel

SMALL = "qwen2.5-coder-1.5b"
LARGE = "qwen3-coder-30b-a3b"


class Index:
    """Finds `helper`, whatever is asked."""

    def __init__(self, root: Path) -> None:
        self.found: Mapping[str, Any] = {
            "root": str(root),
            "path": "src/util.py",
            "start_line": 1,
            "end_line": 2,
            "symbol": "helper",
            "kind": "function",
            "text": (root / "src/util.py").read_text(),
        }

    async def search(
        self, query: str, *, limit: int = 10, glob: str | None = None, language: str | None = None
    ) -> Mapping[str, Any]:
        return {"results": [self.found], "states": {self.found["root"]: "ready"}}

    async def definitions(self, name: str) -> Sequence[Mapping[str, Any]]:
        return [self.found] if name == "helper" else []

    async def references(self, name: str, *, limit: int = 100) -> Sequence[Mapping[str, Any]]:
        return []


def run(
    root: Path,
    tmp_path: Path,
    mode: Mode,
    *replies: Said,
    model_name: str = LARGE,
    has_index: bool = True,
    guidance: Guidance = "auto",
) -> tuple[Finished, ScriptedModel, list[Event]]:
    model, events = ScriptedModel(*replies), list[Event]()
    agent = Agent(
        workspace=DirectoryWorkspace(Paths([root])),
        model=model,
        transcripts=tmp_path / "transcripts",
        index=Index(root) if has_index else None,
        guidance=guidance,
    )
    request = Request(mode=mode, text="What helps?")
    finished = asyncio.run(agent.run(request, events.append, model_name=model_name, id="mine"))
    return finished, model, events


def test_a_transcript_has_the_id_that_was_given(root: Path, tmp_path: Path) -> None:
    finished, _, _ = run(root, tmp_path, "ask", "`helper` does (src/util.py:1).")
    assert finished.transcript.header.id == "mine"
    assert (tmp_path / "transcripts" / "mine.jsonl").is_file()


def test_what_comes_first_is_the_same_in_each_run(root: Path, tmp_path: Path) -> None:
    """So that the engine's cache of the prompt holds from one run to the next."""
    (root / "AGENTS.md").write_text("Write tests first.\n")

    def begun(text: str) -> tuple[Message, Sequence[Mapping[str, Any]]]:
        model = ScriptedModel("Done.")
        agent = Agent(
            workspace=DirectoryWorkspace(Paths([root])),
            model=model,
            transcripts=tmp_path / "transcripts",
        )
        finished = asyncio.run(agent.run(Request(mode="edit", text=text), lambda event: None))
        (tools,) = (each for each in finished.transcript.entries if each["kind"] == "tools")
        return model.requests[0][0], tools["definitions"]

    first = begun("One.")
    (root / "src/app.py").write_text("import os\n")
    assert begun("Two.") == first
    assert "Write tests first." in first[0]["content"]


class Sampled(ScriptedModel):
    """Says of each piece of text which token it is."""

    async def reply(self, *args: Any, **options: Any) -> AsyncGenerator[Delta, None]:
        async for delta in super().reply(*args, **options):
            token = Token(text=delta.text, logprob=-0.5, id=len(delta.text))
            yield replace(delta, tokens=[token] if delta.text else ())


def test_a_transcript_holds_what_a_benchmark_and_training_need(root: Path, tmp_path: Path) -> None:
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "First")
    (root / "src/app.py").write_text("import os\n")
    (root / "src/new.py").write_text("new = 1\n")
    edit = {"path": "src/util.py", "edits": [{"old": "needle", "new": "pin"}]}
    agent = Agent(
        workspace=DirectoryWorkspace(Paths([root])),
        model=Sampled([("edit_file", edit)], "It is a pin."),
        transcripts=tmp_path / "transcripts",
    )
    request = Request(mode="edit", text="Make it a pin.")
    finished = asyncio.run(agent.run(request, lambda event: None, model_name=LARGE))
    finished.transcript.add_verdict("src/util.py", accepted=[0], rejected=[])

    read = Transcript.read(tmp_path / "transcripts" / f"{finished.transcript.header.id}.jsonl")
    header = read.header
    assert (header.mode, header.request, header.model) == ("edit", "Make it a pin.", LARGE)
    assert header.base_commit == run_git(root, "rev-parse", "HEAD").strip()
    assert "-    return os.getcwd()" in header.dirty_diff and "+new = 1" in header.dirty_diff
    called, answered = (each for each in read.messages if each["role"] == "assistant")
    assert json.loads(called["tool_calls"][0]["function"]["arguments"]) == edit
    (result,) = (each for each in read.messages if each["role"] == "tool")
    assert result["tool_call_id"] == called["tool_calls"][0]["id"]
    (tokens,) = (each["tokens"] for each in read.entries if "tokens" in each)
    assert "".join(each["text"] for each in tokens) == answered["content"] == "It is a pin."
    assert [(each["id"], each["logprob"]) for each in tokens[:2]] == [(3, -0.5), (3, -0.5)]
    (changed,) = (read.last("changes") or {})["files"]
    assert (changed["before"], changed["after"]) == (
        "def helper():\n    return 'needle'\n",
        "def helper():\n    return 'pin'\n",
    )
    verdict = read.last("verdict") or {}
    assert (verdict["path"], verdict["accepted"]) == ("src/util.py", [0])


def test_what_an_edit_breaks_is_told_once(root: Path, tmp_path: Path) -> None:
    broken = {"old": "def helper():", "new": "def helper(:"}
    mended = {"old": "def helper(:", "new": "def helper(x):"}
    _, model, _ = run(
        root,
        tmp_path,
        "edit",
        [("edit_file", {"path": "src/util.py", "edits": [broken]})],
        [("edit_file", {"path": "src/util.py", "edits": [mended]})],
        [("finish", {"summary": "It takes x."})],
    )
    told = [str(each["content"]) for each in model.requests[-1] if each["role"] == "user"]
    (checks,) = [each for each in told if each.startswith("[checks]")]
    assert "src/util.py:1" in checks


@pytest.mark.parametrize(
    ("name", "small"),
    [
        ("qwen2.5-coder-0.5b", True),
        ("qwen2.5-coder:1.5b", True),
        ("SmolLM2-135M-Instruct", True),
        ("Llama-3.2-3B-Instruct-Q4_K_M.gguf", True),
        ("qwen3-coder-30b-a3b", False),
        ("mistral-7b", False),
        ("glm-4.5-air", False),
        ("gpt-4b1x", False),
        ("", False),
    ],
)
def test_a_model_is_small_by_its_name(name: str, small: bool) -> None:
    assert is_small(name) == small


def test_a_small_model_answers_from_what_was_found_with_no_tools(
    root: Path, tmp_path: Path
) -> None:
    finished, model, _ = run(root, tmp_path, "ask", "`helper()` does.", model_name=SMALL)
    assert model.tools == []
    assert "1\tdef helper():" in model.requests[0][1]["content"]
    assert finished.outcome.text == "`helper()` does.\n\nDefined: `helper` at src/util.py:1-2."
    assert finished.outcome.problems == ()


def test_a_small_model_looks_for_itself_where_there_is_no_index(root: Path, tmp_path: Path) -> None:
    reading = [("read_file", {"path": "src/util.py"})]
    _, model, _ = run(
        root, tmp_path, "ask", reading, "src/util.py:1", model_name=SMALL, has_index=False
    )
    assert "grep" in model.tools


def test_a_small_model_is_led_through_a_change(root: Path, tmp_path: Path) -> None:
    finished, model, _ = run(
        root,
        tmp_path,
        "edit",
        [("rename_symbol", {"old": "helper", "new": "help_out"})],
        model_name=SMALL,
    )
    assert model.tools == ["rename_symbol", "move_file", "other_change"]
    assert finished.context.changes.text("src/util.py") == "def help_out():\n    return 'needle'\n"


@pytest.mark.parametrize(("problems", "num_told"), [((), 0), (("'odd' is left out",), 1)])
def test_a_led_run_says_that_it_uses_no_tool_servers(
    root: Path, tmp_path: Path, problems: tuple[str, ...], num_told: int
) -> None:
    events: list[Event] = []

    async def servers(emit: Callable[[Event], None]) -> ToolServers:
        approvals = ServerApprovals(Grants.of_workspace(tmp_path, root), None)
        return ToolServers(Configured(problems=problems), [root], approvals, emit)

    agent = Agent(
        workspace=DirectoryWorkspace(Paths([root])),
        model=ScriptedModel([("rename_symbol", {"old": "helper", "new": "help_out"})]),
        transcripts=tmp_path / "transcripts",
        guidance="always",
        tool_servers=servers,
    )
    asyncio.run(agent.run(Request(mode="edit", text="Rename it"), events.append))
    told = [each.text for each in events if isinstance(each, NoticeEvent)]
    assert len([text for text in told if "Tool servers are not used" in text]) == num_told


def test_a_small_model_ends_a_plan_by_a_call(root: Path, tmp_path: Path) -> None:
    finished, model, _ = run(
        root,
        tmp_path,
        "plan",
        [("update_plan", {"steps": ["Change src/util.py."]})],
        [("finish", {"summary": "Nothing is uncertain."})],
        model_name=SMALL,
    )
    assert model.must_call == [True, True]
    assert "finish" in model.tools
    assert "edit_file" not in model.tools
    assert finished.outcome.status == "finished"
    assert [step.text for step in finished.context.plan] == ["Change src/util.py."]


def test_a_large_model_may_answer_as_soon_as_it_has_looked_something_up(
    root: Path, tmp_path: Path
) -> None:
    reading = [("read_file", {"path": "src/util.py"})]
    _, model, _ = run(root, tmp_path, "ask", reading, "`helper` (src/util.py:1).")
    assert model.must_call == [True, False]


def test_no_places_are_added_to_an_answer_that_cites(root: Path, tmp_path: Path) -> None:
    finished, _, _ = run(root, tmp_path, "ask", "`helper` (src/util.py:2).", model_name=SMALL)
    assert finished.outcome.text == "`helper` (src/util.py:2)."


def test_no_place_is_told_that_was_not_shown(root: Path, tmp_path: Path) -> None:
    finished, _, _ = run(root, tmp_path, "ask", "Perhaps `main`.", model_name=SMALL)
    assert finished.outcome.text == "Perhaps `main`."


@pytest.mark.parametrize("name", ["test_util.py", "util_test.go", "util.spec.ts", "utilTest.java"])
def test_files_of_tests_are_named_by_the_code_that_was_found(
    root: Path, tmp_path: Path, name: str
) -> None:
    (root / "tests").mkdir()
    (root / "tests" / name).touch()
    (root / "tests" / "test_app.py").touch()
    _, model, _ = run(root, tmp_path, "edit", [("finish", {"summary": "Nothing."})])
    assert f"Tests of these files: tests/{name}\n" in model.requests[0][1]["content"]


@pytest.mark.parametrize(
    ("guidance", "name", "is_led"), [("always", LARGE, True), ("never", SMALL, False)]
)
def test_the_setting_goes_before_the_name(
    root: Path, tmp_path: Path, guidance: Guidance, name: str, is_led: bool
) -> None:
    renaming: Said = [("rename_symbol", {"old": "helper", "new": "help_out"})]
    end: Said = [("finish", {"summary": "It is renamed."})]
    _, model, _ = run(root, tmp_path, "edit", renaming, end, model_name=name, guidance=guidance)
    assert ("other_change" in model.tools) == is_led
