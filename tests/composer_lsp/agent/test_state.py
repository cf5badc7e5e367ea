"""What one run leaves for the next."""

import asyncio
from pathlib import Path

from composer_lsp.agent.agent import Agent, Finished
from composer_lsp.agent.prompt.system import Request
from composer_lsp.agent.state import restore_reads
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.transcript import Transcript
from composer_lsp.agent.workspace.directory import DirectoryWorkspace
from composer_lsp.agent.workspace.paths import Paths
from tests.composer_lsp.agent.scripted import ScriptedModel
from tests.composer_lsp.agent.test_agent import SMALL, Index

PAST = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Yes?"}]


def ask(root: Path, folder: Path, model: ScriptedModel) -> Finished:
    agent = Agent(
        workspace=DirectoryWorkspace(Paths([root])),
        model=model,
        transcripts=folder,
        index=Index(root),
    )
    request = Request(mode="ask", text="What helps?")
    running = agent.run(request, lambda event: None, model_name=SMALL, id="mine", past=PAST)
    return asyncio.run(running)


def test_a_transcript_holds_what_was_said_before(root: Path, tmp_path: Path) -> None:
    model = ScriptedModel("`helper()` does.")
    ask(root, tmp_path, model)
    read = Transcript.read(tmp_path / "mine.jsonl")
    (request,) = model.requests
    assert request[1:3] == PAST
    assert read.context[:-1] == request
    assert [each["role"] for each in read.messages] == ["user", "assistant"]


def test_what_was_found_for_a_question_counts_as_read(root: Path, tmp_path: Path) -> None:
    finished = ask(root, tmp_path, ScriptedModel("`helper()` does."))
    context = ToolContext(workspace=DirectoryWorkspace(Paths([root])))
    assert asyncio.run(restore_reads(finished.transcript, context)) == []
    assert context.reads.ranges("src/util.py") == [(1, 2)]


def test_what_has_changed_meanwhile_does_not(root: Path, tmp_path: Path) -> None:
    finished = ask(root, tmp_path, ScriptedModel("`helper()` does."))
    (root / "src/util.py").write_text("# new\n")
    context = ToolContext(workspace=DirectoryWorkspace(Paths([root])))
    assert asyncio.run(restore_reads(finished.transcript, context)) == ["src/util.py"]
    assert context.reads.paths == []
