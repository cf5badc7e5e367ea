import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from composer_lsp.agent.agent import Agent
from composer_lsp.agent.conversation import Conversation, said_in
from composer_lsp.agent.edits.change_set import FileChange
from composer_lsp.agent.prompt.system import Request
from composer_lsp.agent.transcript import Header, Transcript
from composer_lsp.agent.workspace.directory import DirectoryWorkspace
from composer_lsp.agent.workspace.paths import Paths
from tests.composer_lsp.agent.scripted import ScriptedModel

SYSTEM = {"role": "system", "content": "You are."}
ASKED = {"role": "user", "content": "How much?"}
CALL = {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}
RESULT = {"role": "tool", "tool_call_id": "1", "content": "2\t    return 1"}
ANSWER = {"role": "assistant", "content": "One."}


def transcript(*messages: Mapping[str, object]) -> Transcript:
    made = Transcript(header=Header(id="1", mode="ask", request="How much?", roots=["/"]))
    for message in messages:
        made.add_message(message)
    return made


@pytest.mark.parametrize(
    "messages",
    [(ASKED, CALL, RESULT, ANSWER), (ASKED, CALL, RESULT), (ASKED,), ()],
    ids=["a text", "finish", "no answer", "nothing"],
)
def test_each_run_ends_with_what_it_said_at_last(
    messages: tuple[Mapping[str, object], ...],
) -> None:
    conversation = Conversation()
    conversation.add(transcript(SYSTEM, *messages), "One. (It was made.)")
    kept = [each for each in messages if each is not ANSWER]
    assert conversation.messages == [
        *kept,
        {"role": "assistant", "content": "One. (It was made.)"},
    ]


def test_the_last_transcript_is_enough() -> None:
    last = transcript(SYSTEM, ASKED, ANSWER)
    last.add("end", status="finished", text="One.")
    assert Conversation(last).messages == [ASKED, ANSWER]


def test_what_was_shortened_stays_so() -> None:
    last = transcript(SYSTEM, ASKED, CALL, RESULT)
    last.add("context", messages=[SYSTEM, ASKED])
    conversation = Conversation()
    conversation.add(last, "One.")
    assert conversation.messages == [ASKED, ANSWER]


def test_a_run_that_was_stopped_follows_what_was_said_before() -> None:
    conversation = Conversation(None)
    conversation.add(transcript(SYSTEM, ASKED, ANSWER), "One.")
    conversation.stopped("And now?")
    assert [each["content"] for each in conversation.messages] == [
        "How much?",
        "One.",
        "And now?",
        "(The user stopped this.)",
    ]


def test_a_call_that_never_had_a_result_gets_one() -> None:
    calls = [{"id": each, "function": {"name": "grep", "arguments": "{}"}} for each in "12"]
    called = {"role": "assistant", "content": "", "tool_calls": calls}
    assert said_in(transcript(SYSTEM, ASKED, called, RESULT), "(Stopped.)")[2:] == [
        RESULT,
        {
            "role": "tool",
            "tool_call_id": "2",
            "name": "grep",
            "content": "Error: the run was ended before this call had a result",
        },
        {"role": "assistant", "content": "(Stopped.)"},
    ]


def test_what_a_run_begins_with_is_kept_before_it_does_anything(tmp_path: Path) -> None:
    """A run that is killed at its first step goes on with it."""
    (tmp_path / "root").mkdir()
    workspace = DirectoryWorkspace(Paths([tmp_path / "root"]))
    agent = Agent(workspace=workspace, model=ScriptedModel("One."), transcripts=tmp_path / "kept")
    context = agent.context()
    context.changes.add(FileChange(path="a.py", before=None, after="x = 1\n"))
    request = Request(mode="edit", text="And?")
    done = asyncio.run(
        agent.run(request, lambda event: None, context=context, past=[ASKED, ANSWER])
    )
    said, changed, *_ = done.transcript.entries
    assert said["messages"][1:] == [ASKED, ANSWER]
    assert [file["path"] for file in changed["files"]] == ["a.py"]
