"""The loop, with a scripted model on a real folder."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from composer_lsp.agent.events import Event, NoticeEvent, ResultEvent, TextEvent
from composer_lsp.agent.run import AgentRun, Limits, Outcome
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.tools.sets import tools_for
from composer_lsp.agent.transcript import Header, Transcript
from composer_lsp.agent.workspace.directory import DirectoryWorkspace
from composer_lsp.agent.workspace.paths import Paths
from composer_lsp.engine.errors import ModelLoadError, TruncatedStreamError
from tests.composer_lsp.agent.scripted import Said, ScriptedModel

START = ({"role": "system", "content": "s"}, {"role": "user", "content": "do it"})


@dataclass
class Ran:
    outcome: Outcome
    model: ScriptedModel
    context: ToolContext
    transcript: Transcript
    events: list[Event] = field(default_factory=list[Event])

    @property
    def results(self) -> list[str]:
        return [each.text for each in self.events if isinstance(each, ResultEvent)]

    @property
    def notices(self) -> list[str]:
        return [each.text for each in self.events if isinstance(each, NoticeEvent)]


Run = Callable[..., Ran]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    (tmp_path / "a.py").write_text("def one():\n    return 1\n")

    def start(*replies: Said, **options: Any) -> Ran:
        model = ScriptedModel(*replies, context_tokens=options.pop("context_tokens", 100_000))
        context = ToolContext(workspace=DirectoryWorkspace(Paths([tmp_path])))
        header = Header(id="t", mode="edit", request="do it", roots=(str(tmp_path),))
        transcript = Transcript(header=header)
        events: list[Event] = []
        agent = AgentRun(
            model=model,
            tools=tools_for("edit", has_index=False, has_diagnostics=False),
            context=context,
            transcript=transcript,
            emit=events.append,
            limits=Limits(retry_s=0, **options),
        )
        return Ran(asyncio.run(agent.run(START)), model, context, transcript, events)

    return start


def test_answers_with_what_it_read(run: Run) -> None:
    ran = run([("read_file", {"path": "a.py"})], "It returns 1 (a.py:2).")
    assert ran.outcome == Outcome(status="finished", text="It returns 1 (a.py:2).")
    assert ran.results == ["1\tdef one():\n2\t    return 1"]
    assert ran.model.requests[1][-1]["role"] == "tool"


def test_stages_edits_and_writes_nothing(run: Run, tmp_path: Path) -> None:
    edit = {"path": "a.py", "edits": [{"old": "return 1", "new": "return 2"}]}
    ran = run([("edit_file", edit)], [("finish", {"summary": "It returns 2 now."})])
    assert ran.outcome.text == "It returns 2 now."
    assert ran.context.changes.text("a.py") == "def one():\n    return 2\n"
    assert (tmp_path / "a.py").read_text() == "def one():\n    return 1\n"
    (changed,) = [entry for entry in ran.transcript.entries if entry["kind"] == "changes"][-1][
        "files"
    ]
    assert changed["after"] == "def one():\n    return 2\n"


def test_results_come_back_in_the_order_of_the_calls(run: Run) -> None:
    edit = {"path": "a.py", "edits": [{"old": "1", "new": "2"}]}
    ran = run(
        [
            ("list_files", {}),
            ("read_file", {"path": "a.py"}),
            ("edit_file", edit),
            ("read_file", {"path": "a.py", "start_line": 2}),
        ],
        "done",
    )
    sent = [each["content"] for each in ran.model.requests[1] if each["role"] == "tool"]
    assert sent[0] == "a.py"
    assert "return 1" in sent[1]
    assert sent[3].startswith("2\t    return 2")


def test_a_claim_without_evidence_is_sent_back_once_and_then_marked(run: Run) -> None:
    ran = run("See a.py:2. All tests pass.", "See a.py:2.")
    told = ran.model.requests[1][-1]["content"]
    assert "a.py:2: these lines were not read in this run" in told
    assert "tests pass: no test command ran" in told
    assert [problem.claim for problem in ran.outcome.problems] == ["a.py:2"]
    assert ran.notices == ["not shown to be true: a.py:2 (these lines were not read in this run)"]


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("reed_file", {}, "there is no tool 'reed_file'; there are read_file, list_files"),
        ("read_file", '{"path": "a.p', "the arguments are no JSON"),
        ("read_file", {"pth": "a.py"}, "pth is no argument; did you mean path?"),
        ("read_file", {}, "path is missing, a string"),
        ("read_file", {"path": 3}, "path must be a string, not 3"),
        ("read_file", "[]", "the arguments must be an object, not []"),
        ("read_file", "[" * 100_000, "the arguments are no JSON"),
        ("edit_file", {"path": "a.py", "edits": [{"old": "x"}]}, "new is missing, a string"),
        ("write_file", {"path": "a", "text": "x" * 1_000_000}, "do it in smaller steps"),
    ],
)
def test_a_malformed_call_is_explained_to_the_model(
    run: Run, name: str, arguments: Any, error: str
) -> None:
    ran = run([(name, arguments)], "Sorry.")
    assert error in ran.model.requests[1][-1]["content"]
    assert ran.outcome.status == "finished"


def test_the_third_malformed_turn_ends_the_run(run: Run) -> None:
    ran = run(*[[("read_file", f"{{{number}")] for number in range(3)])
    assert ran.outcome.status == "failed"
    assert (
        "called a tool wrongly 3 times; the last time: the arguments are no JSON"
        in ran.outcome.text
    )


def test_the_same_calls_three_times_in_a_row_end_the_run_with_a_question(run: Run) -> None:
    ran = run(*[[("read_file", {"path": "a.py"})]] * 3)
    assert ran.outcome.status == "stuck"
    assert "What should it do differently?" in ran.outcome.text


def test_an_engine_that_breaks_off_is_asked_again(run: Run) -> None:
    ran = run(TruncatedStreamError("the engine died"), "Whole.")
    assert ran.outcome.text == "Whole."
    assert ran.notices == ["the engine died; asking again"]
    assert ran.model.requests[0] == ran.model.requests[1]


def test_a_run_that_fails_keeps_its_edits(run: Run) -> None:
    edit = {"path": "a.py", "edits": [{"old": "1", "new": "2"}]}
    ran = run([("edit_file", edit)], ModelLoadError("no memory"))
    assert (ran.outcome.status, ran.outcome.text) == ("failed", "no memory")
    assert ran.context.changes.paths == ["a.py"]


def test_a_run_ends_after_its_turns(run: Run) -> None:
    calls = [[("read_file", {"path": "a.py", "end_line": number})] for number in (1, 2)]
    ran = run(*calls, max_turns=2)
    assert ran.outcome.status == "limit"


def test_empty_answers_are_not_taken_for_answers(run: Run) -> None:
    assert run("", "  ", "").outcome == Outcome(
        status="failed", text="The model answers with nothing."
    )


def test_old_results_are_shortened_when_the_window_fills(run: Run, tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("".join(f"x{n} = {n}\n" for n in range(3000)))
    reads = [
        [("read_file", {"path": "long.py", "start_line": 1 + 400 * number})] for number in range(6)
    ]
    ran = run(*reads, "x1 is 1 (long.py:2).", context_tokens=8000)
    last = ran.model.requests[-1]
    assert last[0]["content"] == "s"
    assert last[1]["content"] == "do it"
    assert "[shortened: call the tool again if you need it]" in str(last)
    assert sum(len(str(each["content"])) // 4 for each in last) < 8000
    assert ran.outcome.text == "x1 is 1 (long.py:2)."


def test_text_is_streamed(run: Run) -> None:
    ran = run("Two words.")
    assert [each.text for each in ran.events if isinstance(each, TextEvent)] == ["Two ", "words."]
