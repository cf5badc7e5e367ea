"""Runs of a real model of 1.5 billion parameters, what it got right and what wrong, as they were
written down: read, shown, and gone through again with what the model said then."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from composer_lsp.agent.run import AgentRun, Outcome
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.tools.sets import few_tools_for, tools_for
from composer_lsp.agent.transcript import Header, Transcript
from composer_lsp.agent.transcript_markdown import markdown
from composer_lsp.agent.workspace.directory import DirectoryWorkspace
from composer_lsp.agent.workspace.paths import Paths
from tests.composer_lsp.agent.scripted import Said, ScriptedModel

FOLDER = Path(__file__).parent / "kept"
KEPT = sorted(path.stem for path in FOLDER.glob("*.jsonl"))
MORE = "That is all I know."
"""Said where the harness asks once more than it did."""
SENT_BACK = frozenset({"question-made-up"})
"""Whose last answer was taken for one then, and is none."""
NUM_SAME = 60
"""Characters of a result that say what happened."""
_PLACE = re.compile(r"(\S+):\d+-\d+(?: \S+)?")
_LINE = re.compile(r"(\d+)\t(.*)")


def kept(name: str) -> Transcript:
    return Transcript.read(FOLDER / f"{name}.jsonl")


def files_of(shown: str) -> dict[str, str]:
    """The files of which a request shows lines, as far as it shows them."""
    lines: dict[str, dict[int, str]] = {}
    path = ""
    for line in shown.splitlines():
        if place := _PLACE.fullmatch(line):
            path = place[1]
        elif path and (numbered := _LINE.fullmatch(line)):
            lines.setdefault(path, {})[int(numbered[1])] = numbered[2]
    return {
        path: "".join(f"{some.get(number, '')}\n" for number in range(1, max(some) + 1))
        for path, some in lines.items()
    }


def said(entry: Any) -> Said:
    calls = [call["function"] for call in entry["message"].get("tool_calls", ())]
    written = entry.get("written_arguments") or [call["arguments"] for call in calls]
    if calls and "written" not in entry:
        return [(call["name"], text) for call, text in zip(calls, written, strict=True)]
    return entry.get("written", entry["message"]["content"])


def replayed(transcript: Transcript, root: Path) -> tuple[Outcome, list[str]]:
    """The outcome, and what the tools answered."""
    messages = [entry for entry in transcript.entries if entry["kind"] == "message"]
    start = [entry["message"] for entry in messages[:2]]
    context = ToolContext(workspace=DirectoryWorkspace(Paths([root])))
    for path, text in files_of(start[1]["content"]).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
        context.reads.add(path, 1, len(text.splitlines()))
    mode: Any = transcript.header.mode
    tools = tools_for(mode, has_index=False, has_diagnostics=False)
    if (offered := transcript.last("tools")) is not None:
        names = {each["function"]["name"] for each in offered["definitions"]}
        tools = [each for each in few_tools_for(mode) if each.name in names]
    replies = [said(entry) for entry in messages if entry["message"]["role"] == "assistant"]
    run = AgentRun(
        model=ScriptedModel(*replies, MORE),
        tools=tools,
        context=context,
        transcript=Transcript(header=Header(id="again", mode=mode, request="", roots=(str(root),))),
        emit=lambda event: None,
    )
    outcome = asyncio.run(run.run(start))
    told = [each["content"] for each in run._messages if each["role"] == "tool"]  # pyright: ignore[reportPrivateUsage]
    return outcome, told


@pytest.mark.parametrize("name", KEPT)
def test_the_harness_does_what_it_did(name: str, tmp_path: Path) -> None:
    """It may say more by now of why something was not done."""
    transcript = kept(name)
    outcome, told = replayed(transcript, tmp_path)
    end = transcript.last("end") or {}
    then = [each["content"] for each in transcript.messages if each["role"] == "tool"]
    assert [text[:NUM_SAME] for text in told] == [text[:NUM_SAME] for text in then]
    assert outcome.status == end["status"]
    # What the index adds is missing here.
    assert end["text"].startswith(outcome.text) != (name in SENT_BACK)
    assert (outcome.text == MORE) == (name in SENT_BACK)


@pytest.mark.parametrize("name", KEPT)
def test_they_can_be_read_and_shown(name: str) -> None:
    transcript = kept(name)
    text = markdown(transcript)
    assert text.startswith(f"# {transcript.header.request}")
    assert f"## Outcome: {(transcript.last('end') or {})['status']}" in text


@pytest.mark.parametrize("name", ["question-right"])
def test_each_reply_has_its_tokens(name: str) -> None:
    replies = [each for each in kept(name).entries if "usage" in each]
    assert replies
    for reply in replies:
        tokens = reply["tokens"]
        assert all(isinstance(each["id"], int) and each["logprob"] <= 0 for each in tokens)
        calls = [call["function"] for call in reply["message"].get("tool_calls", ())]
        text = "".join(each["text"] for each in tokens)
        assert all(json.loads(text)["arguments"] == json.loads(each["arguments"]) for each in calls)
        assert calls or text == reply["message"]["content"]
