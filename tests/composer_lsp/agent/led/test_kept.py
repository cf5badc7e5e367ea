"""Changes by a real model of 1.5 billion parameters, as they were written down: their answers are
read as they were then, and they can be shown."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from composer_lsp.agent.led.answers import code_blocks
from composer_lsp.agent.transcript import Transcript
from composer_lsp.agent.transcript_markdown import markdown

KEPT = sorted((Path(__file__).parent / "kept").glob("*.jsonl"), key=lambda path: path.stem)


def answers_and_code(transcript: Transcript) -> Iterator[tuple[str, list[str]]]:
    """What the model wrote, and the code that the harness took from it."""
    written, taken = "", list[str]()
    for entry in transcript.entries:
        if entry["kind"] != "message" or entry["message"]["role"] != "assistant":
            continue
        calls = [each["function"] for each in entry["message"].get("tool_calls", ())]
        if entry.get("by") == "harness":
            taken += [
                json.loads(c["arguments"])["code"] for c in calls if c["name"] == "write_code"
            ]
        elif not calls:
            if written:
                yield written, taken
            written, taken = entry["message"]["content"], []
    yield written, taken


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_the_same_code_is_found_in_the_answers(path: Path) -> None:
    pairs = [pair for pair in answers_and_code(Transcript.read(path)) if pair[1]]
    assert pairs
    for written, taken in pairs:
        assert [block.code for block in code_blocks(written)] == taken


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_they_can_be_shown(path: Path) -> None:
    transcript = Transcript.read(path)
    text = markdown(transcript)
    assert text.startswith(f"# {transcript.header.request}"[:60])
    assert "write_code" in text and "## Changes" in text
