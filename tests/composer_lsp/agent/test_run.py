"""The loop, with a scripted model on a real folder."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from composer_lsp.agent.events import (
    CallEvent,
    EditsEvent,
    Event,
    NoticeEvent,
    ResultEvent,
    TextEvent,
)
from composer_lsp.agent.run import AgentRun, Limits, Outcome
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.tools.sets import tools_for
from composer_lsp.agent.tools.tool import tool
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
    hung: list[str] = field(default_factory=list[str])

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
        hung: list[str] = []

        @tool(only_reads=True)
        async def hang(context: ToolContext) -> str:
            """Never ends."""
            try:
                await asyncio.Event().wait()
            finally:
                hung.append("ended")
            return ""

        past, messages = options.pop("past", ()), options.pop("start", START)
        cancel_when_called = options.pop("cancel_when_called", "")
        agent = AgentRun(
            model=model,
            tools=[*tools_for("edit", has_index=False, has_diagnostics=False), hang],
            context=context,
            transcript=transcript,
            emit=events.append,
            limits=Limits(retry_s=0, **options),
        )

        async def cancelled() -> Outcome:
            task = asyncio.create_task(agent.run(messages, past=past))
            async with asyncio.timeout(60):
                while not any(
                    isinstance(each, CallEvent) and each.name == cancel_when_called
                    for each in events
                ):
                    await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return Outcome(status="stopped", text="")

        outcome = asyncio.run(cancelled() if cancel_when_called else agent.run(messages, past=past))
        return Ran(outcome, model, context, transcript, events, hung)

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


CHANGE: Said = [("edit_file", {"path": "a.py", "edits": [{"old": "1", "new": "2"}]})]
LINES = "\n".join(f"Line {number}." for number in range(1, 21))


def test_a_long_summary_is_sent_back_once_and_then_cut(run: Run) -> None:
    ran = run(CHANGE, [("finish", {"summary": LINES})], [("finish", {"summary": "Done."})])
    assert "Your summary has 20 lines." in ran.model.requests[2][-1]["content"]
    assert ran.outcome.text == "Done."
    ran = run(CHANGE, [("finish", {"summary": LINES})], [("finish", {"summary": LINES})])
    assert ran.outcome.text.splitlines()[-2:] == ["Line 8.", "…"]


def test_a_long_answer_is_no_summary_where_nothing_was_changed(run: Run) -> None:
    ran = run([("read_file", {"path": "a.py"})], LINES)
    assert ran.outcome.text == LINES
    ran = run(CHANGE, LINES, LINES)
    assert "Your summary has 20 lines." in ran.model.requests[2][-1]["content"]
    assert ran.outcome.text == LINES


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
    assert error in next(
        each["content"] for each in ran.model.requests[1] if each["role"] == "tool"
    )
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


def test_calls_that_differ_in_spaces_alone_are_the_same(run: Run) -> None:
    written = ('{"path": "a.py", "end_line": 1}', '{"end_line":1,"path":"a.py"}')
    ran = run(*([("read_file", written[number % 2])] for number in range(3)))
    assert ran.outcome.status == "stuck"


def test_other_calls_in_between_are_no_circle(run: Run) -> None:
    same: Said = [("read_file", {"path": "a.py"})]
    other: Said = [("list_files", {})]
    ran = run(same, same, other, same, same, "Done.")
    assert ran.outcome.status == "finished"


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


def test_each_request_begins_with_the_one_before(run: Run) -> None:
    """So that the engine's cache of the prompt holds what it has read."""
    ran = run(
        [("read_file", {"path": "a.py"}), ("list_files", {})],
        [("edit_file", {"path": "a.py", "edits": [{"old": "1", "new": "2"}]})],
        [("reed_file", {})],
        "See b.py:7.",
        "It is done.",
    )
    requests = ran.model.requests
    assert len(requests) == 5
    assert all(after[: len(before)] == before for before, after in pairwise(requests))


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


READ = '<tool_call>\n{"name": "read_file", "arguments": {"path": "a.py"}}\n</tool_call>'


def test_a_call_written_as_text_is_run_and_not_shown(run: Run) -> None:
    ran = run(f"I look.\n{READ}\n<tool_response>made up</tool_response>", "It returns 1 (a.py:2).")
    assert ran.outcome == Outcome(status="finished", text="It returns 1 (a.py:2).")
    assert ran.results == ["1\tdef one():\n2\t    return 1"]
    shown = "".join(each.text for each in ran.events if isinstance(each, TextEvent))
    assert shown == "I look.\nIt returns 1 (a.py:2)."
    told = ran.model.requests[1][-2]
    assert told["content"] == "I look.\n"
    assert told["tool_calls"][0]["function"]["name"] == "read_file"
    (entry,) = [each for each in ran.transcript.entries if "written" in each]
    assert entry["written"].startswith(f"I look.\n{READ}")


def test_two_written_calls_have_ids_of_their_own_in_every_turn(run: Run) -> None:
    ran = run(f"{READ}\n{READ}", READ, "done")
    ids = [each["tool_call_id"] for each in ran.model.requests[2] if each["role"] == "tool"]
    assert len(set(ids)) == 3


def test_almost_json_is_repaired_and_the_model_is_shown_json(run: Run) -> None:
    ran = run([("read_file", "{'path': 'a.py',}")], "It returns 1 (a.py:2).")
    assert ran.results == ["1\tdef one():\n2\t    return 1"]
    call = ran.model.requests[1][-2]["tool_calls"][0]
    assert json.loads(call["function"]["arguments"]) == {"path": "a.py"}
    (entry,) = [each for each in ran.transcript.entries if "written_arguments" in each]
    assert entry["written_arguments"] == ["{'path': 'a.py',}"]


def test_a_repaired_call_that_does_not_fit_is_refused(run: Run) -> None:
    ran = run([("write_file", "{'path': 'b.py', 'txt': 'x',}")], "Sorry.")
    assert ran.results == ["txt is no argument; did you mean text?"]
    assert not ran.context.changes


@pytest.mark.parametrize("end", ["", '"', '"\n```', "\\"])
def test_a_cut_file_is_not_written(run: Run, end: str) -> None:
    """Case 11: what came is less than the file was to be."""
    cut = '{"path": "b.py", "text": "def one():\\n    return 1\\n' + end
    ran = run([("write_file", cut)], "Sorry.")
    assert ran.results[0].startswith("the arguments are no JSON")
    assert not ran.context.changes
    (call,) = ran.model.requests[1][-2]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"malformed": cut}


def test_an_edit_that_does_not_match_changes_nothing(run: Run) -> None:
    """Case 10."""
    edit = {"path": "a.py", "edits": [{"old": "return 7", "new": ""}]}
    ran = run([("edit_file", edit)], "It could not be done.")
    assert "a.py was not changed" in ran.results[0]
    assert ran.model.requests[1][-1]["content"].startswith("Error: ")
    assert not ran.context.changes
    assert not [each for each in ran.events if isinstance(each, EditsEvent)]


def test_a_call_of_an_unknown_tool_in_the_text_is_told_once(run: Run) -> None:
    ran = run('<tool_call>{"name": "rm", "arguments": {}}</tool_call>', "Then not.")
    assert "There is no tool 'rm'; there are read_file" in ran.model.requests[1][-1]["content"]
    assert ran.outcome.text == "Then not."


def test_a_call_that_may_be_an_example_is_carried_out_only_when_it_is_meant(run: Run) -> None:
    call = '{"name": "write_file", "arguments": {"path": "b.py", "text": "x = 1\\n"}}'
    example = f"So:\n```json\n{call}\n```\nis how a file is written."
    ran = run(example, example)
    assert "a call of write_file among other text" in ran.model.requests[1][-1]["content"]
    assert ran.outcome.text == example
    assert not ran.context.changes
    ran = run(example, f"I write it:\n```json\n{call}\n```", "Done.")
    assert ran.context.changes.text("b.py") == "x = 1\n"


@pytest.mark.parametrize("end", ["</tool_response>\n", ""])
def test_a_made_up_result_is_no_answer(run: Run, end: str) -> None:
    made_up = f"<tool_response>\nError: there is no file\n{end}"
    ran = run(made_up, "It returns 1.")
    assert "You made up what a tool answers." in ran.model.requests[1][-1]["content"]
    assert ran.outcome.text == "It returns 1."
    assert run(made_up, made_up).outcome.text == made_up.strip()
    assert len(run(f"{made_up}</tool_response>So it is 1.").model.requests) == 1


def test_a_call_that_reads_is_carried_out_among_text(run: Run) -> None:
    call = '{"name": "read_file", "arguments": {"path": "a.py"}}'
    ran = run(f"I look. It is quick.\n```json\n{call}\n```\nIt shows", "It returns 1 (a.py:2).")
    assert ran.results == ["1\tdef one():\n2\t    return 1"]


def test_endless_repetition_is_broken_off_and_told(run: Run) -> None:
    endless = "I will now do it.\n" * 5000
    ran = run(endless, endless, endless)
    assert ran.outcome.status == "failed"
    assert "did not come to an end, 3 times" in ran.outcome.text
    assert ran.model.requests[1][-1]["content"].startswith("Your answer was cut.")
    assert len(ran.model.requests[1][-2]["content"]) < 3000


def test_a_server_that_never_ends_is_broken_off(run: Run) -> None:
    text = "".join(f"word{number} " for number in range(20_000))
    ran = run(text, "Short.", max_reply_chars=50_000)
    assert len(ran.model.requests[1][-2]["content"]) < 51_000
    assert ran.outcome.text == "Short."


def test_a_name_that_never_ends_is_broken_off(run: Run) -> None:
    ran = run([("word" * 15_000, {"path": "a.py"})], "Short.", max_reply_chars=50_000)
    (call,) = next(each["tool_calls"] for each in ran.model.requests[1] if "tool_calls" in each)
    assert call["function"]["arguments"] == "{}"
    assert ran.outcome.text == "Short."


@pytest.mark.parametrize(
    "garbage",
    [
        "\ud800\udcff \x00\x1b[31m \ufffe",
        "<tool_call>{{{{",
        "<tool_call>" * 200,
        '```json\n{"name": "read_file", "arguments": {"path": ',
        "<|channel|>commentary to=functions.read_file<|message|>{",
        "<function=write_file><parameter=path>b.py</parameter><parameter=text>half",
    ],
)
def test_garbage_ends_in_an_answer_or_an_error_and_changes_nothing(run: Run, garbage: str) -> None:
    ran = run(garbage, garbage + " ", garbage + "  ")
    assert ran.outcome.status in ("finished", "failed")
    assert not ran.context.changes


def test_arguments_that_are_no_text_do_no_harm(run: Run) -> None:
    ran = run([("read_file", '{"path": "\\udcff\\ud800"}')], "Sorry.")
    assert ran.results == ["there is no file \ufffd\ufffd; find_files looks for a name"]


def test_what_is_asked_next_stays_whole_when_the_window_fills(run: Run, tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("".join(f"x{n} = {n}\n" for n in range(3000)))
    reads = [
        [("read_file", {"path": "long.py", "start_line": 1 + 400 * number})] for number in range(6)
    ]
    asked = "Now " + "this, " * 100
    past = [*START, {"role": "assistant", "content": "old answer " * 500}]
    ran = run(
        *reads, "done", context_tokens=8000, past=past, start=[{"role": "user", "content": asked}]
    )
    last = ran.model.requests[-1]
    assert asked in [each["content"] for each in last]
    contexts = [each["messages"] for each in ran.transcript.entries if each["kind"] == "context"]
    assert contexts
    assert all(context in ran.model.requests for context in contexts)


def test_cancelling_ends_the_tool_and_keeps_the_edits(run: Run, tmp_path: Path) -> None:
    """Case 20: a call that never ends is stopped with the run."""
    ran = run(
        [("edit_file", {"path": "a.py", "edits": [{"old": "1", "new": "2"}]})],
        [("hang", {})],
        cancel_when_called="hang",
    )
    assert ran.hung == ["ended"]
    assert ran.context.changes.text("a.py") == "def one():\n    return 2\n"
    assert [each["status"] for each in ran.transcript.entries if each["kind"] == "end"] == [
        "stopped"
    ]


def test_a_model_whose_edits_are_all_refused_is_stopped(run: Run) -> None:
    def wrong(number: int) -> Said:
        edit = {"path": "a.py", "edits": [{"old": f"absent {number}", "new": "x"}]}
        return [("edit_file", edit)]

    reading: Said = [("read_file", {"path": "a.py"})]
    ran = run(wrong(1), reading, wrong(2), reading, wrong(3), max_refused=3)
    assert ran.outcome.status == "stuck"
    assert "a.py was not changed" in ran.outcome.text
    right: Said = [("edit_file", {"path": "a.py", "edits": [{"old": "1", "new": "2"}]})]
    ran = run(wrong(1), wrong(2), right, wrong(3), wrong(4), "Done.", max_refused=3)
    assert ran.outcome.status == "finished"


def test_a_refused_call_that_comes_again_is_pointed_out(run: Run) -> None:
    wrong: Said = [("edit_file", {"path": "a.py", "edits": [{"old": "absent", "new": "x"}]})]
    ran = run(wrong, wrong, "I cannot.")
    told = [each["content"] for each in ran.model.requests[-1] if each["role"] == "user"]
    assert told[1:] == ["You have made this very call before. Do something else."]
