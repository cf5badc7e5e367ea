"""Runs that ended before they were done go on from their transcripts."""

import asyncio
import json
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from composer_lsp.agent.agent import Agent, Finished
from composer_lsp.agent.edits.change_set import FileChange, Snapshot
from composer_lsp.agent.edits.text_file import TextFile
from composer_lsp.agent.events import EditsEvent, Event, NoticeEvent
from composer_lsp.agent.evidence import check_claims
from composer_lsp.agent.ledger import CommandRun
from composer_lsp.agent.prompt.system import Request
from composer_lsp.agent.resume import ResumeError, resume_run
from composer_lsp.agent.run import Limits
from composer_lsp.agent.transcript import Transcript, TranscriptError
from composer_lsp.agent.transcript_markdown import markdown
from composer_lsp.agent.workspace.directory import DirectoryWorkspace
from composer_lsp.agent.workspace.paths import Paths
from composer_lsp.engine.errors import TruncatedStreamError
from tests.composer_lsp.agent.scripted import Said, ScriptedModel

EDIT = ("edit_file", {"path": "a.py", "edits": [{"old": "return 1", "new": "return 2"}]})
READ = ("read_file", {"path": "a.py"})
DIED = [TruncatedStreamError("the engine died")] * 3
AFTER = "def one():\n    return 2\n"


class Runs:
    """Runs on one folder, each with a model of its own."""

    def __init__(self, root: Path, transcripts: Path) -> None:
        self.root = root
        self.transcripts = transcripts
        self.events: list[Event] = []
        self.model = ScriptedModel()
        self.agent: Agent | None = None

    def begin(self, *replies: Said, **limits: Any) -> Finished:
        agent = self._agent(replies, limits)
        request = Request(mode="edit", text="Make it two.")
        return asyncio.run(agent.run(request, self.events.append))

    def resume(self, text: str, *replies: Said, **limits: Any) -> Finished:
        agent = self._agent(replies, limits)
        self.events.clear()
        return asyncio.run(resume_run(agent, self.path, text, self.events.append))

    def _agent(self, replies: tuple[Said, ...], limits: dict[str, Any]) -> Agent:
        self.model = ScriptedModel(*replies)
        self.agent = Agent(
            workspace=DirectoryWorkspace(Paths([self.root])),
            model=self.model,
            transcripts=self.transcripts,
            limits=Limits(retry_s=0, **limits),
        )
        return self.agent

    @property
    def path(self) -> Path:
        (path,) = self.transcripts.glob("*.jsonl")
        return path

    @property
    def file(self) -> Path:
        return self.root / "a.py"

    @property
    def notices(self) -> list[str]:
        return [each.text for each in self.events if isinstance(each, NoticeEvent)]

    def apply(self, finished: Finished) -> None:
        assert self.agent is not None
        changes = list(finished.context.changes.changes())
        asyncio.run(self.agent.workspace.apply(changes, label=""))


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.py").write_text("def one():\n    return 1\n")
    return Runs(root, tmp_path / "transcripts")


def test_an_engine_that_dies_leaves_the_edits_pending_and_the_run_goes_on(runs: Runs) -> None:
    failed = runs.begin([EDIT], *DIED)
    assert failed.outcome.status == "failed"
    assert failed.context.changes.text("a.py") == AFTER
    done = runs.resume("", [("finish", {"summary": "It is two (a.py:2)."})])
    assert done.outcome.status == "finished"
    assert done.outcome.problems == ()  # the edited lines count as read
    assert done.context.changes.text("a.py") == AFTER
    assert EditsEvent(("a.py",)) in runs.events
    assert runs.file.read_text() == "def one():\n    return 1\n"
    runs.apply(done)
    assert runs.file.read_text() == AFTER


def test_the_conversation_is_the_same_as_without_the_break(runs: Runs) -> None:
    runs.begin([READ], *DIED)
    before = runs.model.requests[-1]
    runs.resume("", "It returns 1 (a.py:2).")
    assert runs.model.requests[0] == before
    assert len(Transcript.read(runs.path).messages) == len(before) + 1


@pytest.mark.parametrize("limits", [{"max_turns": 1}])
def test_after_a_limit_it_goes_on(runs: Runs, limits: dict[str, int]) -> None:
    assert runs.begin([EDIT], **limits).outcome.status == "limit"
    assert runs.resume("", "Done.").outcome.text == "Done."


def test_what_is_said_next_is_a_request_of_the_same_conversation(runs: Runs) -> None:
    runs.begin([READ], "It returns 1 (a.py:2).")
    done = runs.resume("Make it two then.", [EDIT], "It is two (a.py:2).")
    assert runs.model.requests[0][-1] == {"role": "user", "content": "Make it two then."}
    assert done.outcome.problems == ()
    third = runs.resume("And now?", "As before (a.py:1).")
    assert third.context.changes.text("a.py") == AFTER


def test_a_finished_run_needs_something_to_do(runs: Runs) -> None:
    runs.begin("Done.")
    with pytest.raises(ResumeError, match="say what to do next"):
        runs.resume("")


def test_what_was_applied_is_not_pending_again(runs: Runs) -> None:
    runs.apply(runs.begin([EDIT], "Done."))
    done = runs.resume("And?", "Nothing.")
    assert not done.context.changes
    assert runs.notices == []
    assert runs.file.read_text() == AFTER


@pytest.mark.parametrize(
    ("now", "staged", "why"),
    [
        ("# new\ndef one():\n    return 1\n", "# new\ndef one():\n    return 2\n", ""),
        ("def one():\n    return 3\n", None, "lines 2 to 2 changed meanwhile"),
        (None, None, "it is gone"),
    ],
    ids=["elsewhere", "the same lines", "gone"],
)
def test_a_file_that_moved_on(runs: Runs, now: str | None, staged: str | None, why: str) -> None:
    runs.begin([EDIT], *DIED)
    if now is None:
        runs.file.unlink()
    else:
        runs.file.write_text(now)
    done = runs.resume("", "I see.")
    assert (done.context.changes.text("a.py") if done.context.changes else None) == staged
    assert runs.notices == ([f"the change to a.py is not pending any more: {why}"] if why else [])
    told = runs.model.requests[0][-1]["content"]
    assert ("Your changes to these files are lost; make them anew:\n- a.py" in told) == bool(why)
    assert "These files are others now; read them again: a.py." in told


@pytest.mark.parametrize(
    ("call", "changed"),
    [
        (("write_file", {"path": "b.py", "text": "x\n"}), "b.py"),
        (("delete_file", {"path": "a.py"}), "a.py"),
        (("move_file", {"path": "a.py", "target": "b.py"}), "b.py"),
    ],
    ids=["created", "deleted", "moved"],
)
def test_every_kind_of_change_comes_back(runs: Runs, call: tuple[str, Any], changed: str) -> None:
    first = list(runs.begin([call], *DIED).context.changes.changes())
    assert [change.path for change in first] == [changed]
    done = runs.resume("", "Done.")
    assert list(done.context.changes.changes()) == first
    runs.apply(done)
    assert not runs.resume("More?", "No.").context.changes


def test_encodings_permissions_and_links_come_back(runs: Runs) -> None:
    """As commands stage them."""
    (runs.root / "link.py").symlink_to("a.py")
    (runs.root / "moved.py").symlink_to("a.py")
    agent = Agent(
        workspace=DirectoryWorkspace(Paths([runs.root])),
        model=ScriptedModel("Done."),
        transcripts=runs.transcripts,
    )
    context = agent.context()
    read = agent.workspace.read
    paths = agent.workspace.paths
    old = asyncio.run(read(paths.locate("a.py")))
    link = asyncio.run(read(paths.locate("link.py")))
    moved = asyncio.run(read(paths.locate("moved.py")))
    utf_16 = TextFile.decode("\ufeffone = 2\n".encode("utf-16-le"))
    changes = [
        FileChange(path="a.py", before=old.file, after="one = 2\n", like=utf_16, mode=0o755),
        FileChange(path="run.sh", before=None, after="echo\n", mode=0o700),
        FileChange(path="link.py", before=link.file, after=None, mode=link.mode, link="a.py"),
    ]
    for change in changes:
        context.changes.add(change)
    context.changes.move("moved.py", moved, "sub/moved.py", Snapshot(file=None))
    request = Request(mode="edit", text="Make it two.")
    asyncio.run(agent.run(request, runs.events.append, context=context))
    first = list(context.changes.changes())
    done = runs.resume("More?", "Done.")
    assert runs.notices == []
    again = list(done.context.changes.changes())
    assert [replace(each, like=None) for each in again] == [
        replace(each, like=None) for each in first
    ]
    assert [each.after is None or each.data() for each in again] == [
        each.after is None or each.data() for each in first
    ]
    runs.apply(done)
    assert runs.file.read_bytes() == "\ufeffone = 2\n".encode("utf-16-le")
    assert stat.S_IMODE(runs.file.stat().st_mode) == 0o755
    assert stat.S_IMODE((runs.root / "run.sh").stat().st_mode) == 0o700
    assert not (runs.root / "link.py").is_symlink()
    assert (runs.root / "sub/moved.py").samefile(runs.file)


def test_a_transcript_that_tells_less_of_files_is_read(runs: Runs) -> None:
    (runs.root / "link.py").symlink_to("a.py")
    runs.begin([EDIT, ("delete_file", {"path": "link.py"})], *DIED)
    entries = [json.loads(line) for line in runs.path.read_text().splitlines()]
    for entry in entries:
        for file in entry["files"] if entry["kind"] == "changes" else ():
            for name in ("like", "mode", "link"):
                del file[name]
    runs.path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    done = runs.resume("", "Done.")
    found = {each.path: (each.after, each.link) for each in done.context.changes.changes()}
    assert found == {"a.py": (AFTER, None), "link.py": (None, "a.py")}


def test_a_link_that_leads_elsewhere_by_now_is_a_conflict(runs: Runs) -> None:
    (runs.root / "b.py").write_text(runs.file.read_text())
    (runs.root / "link.py").symlink_to("a.py")
    runs.begin([("delete_file", {"path": "link.py"})], *DIED)
    (runs.root / "link.py").unlink()
    (runs.root / "link.py").symlink_to("b.py")
    done = runs.resume("", "I see.")
    assert not done.context.changes
    why = "it is a link by now, or leads elsewhere"
    assert runs.notices == [f"the change to link.py is not pending any more: {why}"]


def test_a_file_created_meanwhile_is_a_conflict(runs: Runs) -> None:
    runs.begin([("write_file", {"path": "b.py", "text": "x\n"})], *DIED)
    (runs.root / "b.py").write_text("the user's\n")
    done = runs.resume("", "I see.")
    assert not done.context.changes
    assert runs.notices == ["the change to b.py is not pending any more: it exists by now"]


def test_a_kill_between_call_and_result(runs: Runs) -> None:
    runs.begin([READ], *DIED)
    lines = runs.path.read_bytes().splitlines(keepends=True)
    called = next(n for n, line in enumerate(lines) if b'"tool_calls"' in line)
    runs.path.write_bytes(b"".join(lines[: called + 1]) + lines[called + 1][:20])
    done = runs.resume("", [READ], "It returns 1 (a.py:2).")
    told = runs.model.requests[0][-1]
    assert told["role"] == "tool"
    assert told["content"] == "Error: the run was ended before this call had a result"
    assert done.outcome.problems == ()
    roles = [each["role"] for each in Transcript.read(runs.path).messages]
    assert roles == ["system", "user", *["assistant", "tool"] * 2, "assistant"]


def test_a_run_that_had_not_begun(runs: Runs) -> None:
    runs.begin("Done.")
    runs.path.write_bytes(runs.path.read_bytes().split(b"\n")[0] + b"\n")
    with pytest.raises(ResumeError, match="had not begun"):
        runs.resume("go on")


def test_what_is_no_transcript(runs: Runs, tmp_path: Path) -> None:
    runs.begin("Done.")
    runs.path.write_text("{}\n")
    with pytest.raises(TranscriptError):
        runs.resume("go on")


@pytest.mark.skipif(os.name == "nt", reason="no locks")
def test_a_run_that_goes_on_is_not_gone_on_with(runs: Runs) -> None:
    runs.begin([EDIT], *DIED)
    running = Transcript.read(runs.path)
    running.reopen()
    with pytest.raises(TranscriptError, match="is going on elsewhere"):
        runs.resume("", "Done.")
    assert runs.events == []  # nothing is pending twice
    running.close()
    assert runs.resume("", "Done.").outcome.status == "finished"


def test_a_run_that_cannot_be_gone_on_with_is_let_go_of(runs: Runs) -> None:
    runs.begin("Done.")
    for _ in range(2):
        with pytest.raises(ResumeError):
            runs.resume("")


def test_a_run_whose_transcript_cannot_be_kept_goes_on(runs: Runs) -> None:
    runs.transcripts.write_text("no folder")
    done = runs.begin([EDIT], "Done.")
    assert (done.outcome.status, done.context.changes.text("a.py")) == ("finished", AFTER)
    (notice,) = runs.notices
    assert f"cannot be kept ({runs.transcripts}: File exists). The run goes on without" in notice


def test_tests_that_passed_before_have_to_pass_again(runs: Runs) -> None:
    runs.begin([READ], "Done.")
    transcript = Transcript.read(runs.path)
    transcript.reopen()
    passed = {"line": "pytest", "exit_code": 0}
    plan = [{"text": "one", "state": "done"}]
    transcript.add("state", reads={}, commands=[passed], plan=plan)
    transcript.close()
    done = runs.resume("Do tests pass?", "All tests pass.", "I have not run them.")
    assert done.context.ledger.commands == [CommandRun("pytest", 0)]
    assert [step.text for step in done.context.plan] == ["one"]
    assert "no test command has passed since the last edit" in str(runs.model.requests[1][-1])


def test_lines_read_before_may_be_cited_and_others_not(runs: Runs) -> None:
    runs.begin([("read_file", {"path": "a.py", "end_line": 1})], *DIED)
    done = runs.resume("", "Done.")
    problems = asyncio.run(check_claims("See a.py:1 and a.py:2.", done.context))
    assert [each.claim for each in problems] == ["a.py:2"]


def test_shortened_messages_stay_shortened(runs: Runs) -> None:
    runs.begin([READ], "It returns 1 (a.py:2).")
    transcript = Transcript.read(runs.path)
    short = [*transcript.context[:2], {"role": "assistant", "content": "short"}]
    transcript.reopen()
    transcript.add("context", messages=short)
    transcript.close()
    runs.resume("And?", "Nothing.")
    assert runs.model.requests[0][:3] == short


def test_a_verdict_is_added_to_a_closed_transcript(runs: Runs) -> None:
    finished = runs.begin([EDIT], "Done.")
    finished.transcript.add_verdict("a.py", accepted=[0], rejected=[])
    entry = Transcript.read(runs.path).entries[-1]
    assert (entry["kind"], entry["path"], entry["accepted"]) == ("verdict", "a.py", [0])


def test_markdown_tells_all_of_it(runs: Runs) -> None:
    finished = runs.begin([READ], [EDIT], "It is ```two``` (a.py:2).")
    finished.transcript.add_verdict("a.py", accepted=[0], rejected=[])
    text = markdown(Transcript.read(runs.path))
    for part in (
        "# Make it two.",
        "## Request",
        '<details><summary>read_file {"path": "a.py"}</summary>',
        "2\t    return 1",
        "It is ```two``` (a.py:2).",
        "## Outcome: finished",
        "*a.py: 1 hunks accepted*",
        "-    return 1\n+    return 2",
    ):
        assert part in text
    assert "You are Composer" not in text


def test_markdown_gives_each_call_its_own_result_though_ids_are_the_same(runs: Runs) -> None:
    runs.begin([READ], "One.")
    runs.resume("And?", [("find_files", {"pattern": "a.py"})], "Two.")
    text = markdown(Transcript.read(runs.path))
    read, found = text.split("<details>")[1:]
    assert "2\t    return 1" in read
    assert "```\na.py\n```" in found


def test_markdown_cuts_long_results_and_keeps_fences_whole(runs: Runs) -> None:
    runs.file.write_text("".join(f"line {n} ```\n" for n in range(2000)))
    runs.begin([READ], *DIED)
    text = markdown(Transcript.read(runs.path))
    assert "[cut: " in text
    assert "````\n1\tline 0 ```" in text
    assert len(text) < 10_000


def test_the_transcript_tells_what_was_offered_and_how(runs: Runs) -> None:
    runs.begin("Done.")
    entries = Transcript.read(runs.path).entries
    (tools,) = [entry for entry in entries if entry["kind"] == "tools"]
    names = [each["function"]["name"] for each in tools["definitions"]]
    assert "edit_file" in names
    assert json.dumps(tools)
