"""A transcript as Markdown, for people: what was asked, said, called, changed, and how it ended."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice, takewhile
from typing import Any

from composer_lsp.agent.calls import cut_middle
from composer_lsp.agent.diff import unified
from composer_lsp.agent.edits.change_set import FileChange
from composer_lsp.agent.edits.text_file import TextFile
from composer_lsp.agent.model import Message
from composer_lsp.agent.transcript import Transcript

_MAX_RESULT_CHARS = 4000
_MAX_ARGUMENTS_CHARS = 2000
_MAX_SUMMARY_CHARS = 100


def markdown(transcript: Transcript) -> str:
    return "\n\n".join(_parts(transcript)) + "\n"


def _parts(transcript: Transcript) -> Iterator[str]:
    header = transcript.header
    began = datetime.fromtimestamp(header.began, UTC).strftime("%Y-%m-%d %H:%M UTC")
    told = {
        "Mode": header.mode,
        "Model": header.model,
        "Began": began,
        "Folders": ", ".join(header.roots),
        "Commit": header.base_commit,
        "Transcript": header.id,
    }
    yield f"# {_line(header.request)}"
    yield "\n".join(f"- {name}: {_inline(value)}" for name, value in told.items() if value)
    messages = iter(enumerate(all_messages := transcript.messages, 1))
    num_told = 0
    for entry in transcript.entries:
        if entry["kind"] == "message":
            position, message = next(messages)
            num_told += message["role"] == "user"
            results = _results(islice(all_messages, position, None))
            yield from _message(message, results, is_request=num_told == 1)
        elif entry["kind"] == "resumed":
            yield "---\n\n*Resumed.*"
        elif entry["kind"] == "verdict":
            yield f"*{_verdict(entry)}*"
        elif entry["kind"] == "end":
            yield from _end(entry)
    if changes := _changes(transcript):
        yield "## Changes"
        yield _fenced(unified(changes), "diff")


def _message(
    message: Mapping[str, Any], results: Mapping[str, str], *, is_request: bool
) -> Iterator[str]:
    if message["role"] in ("system", "tool"):
        return
    content = str(message.get("content") or "").strip()
    if message["role"] == "user":
        yield "## Request" if is_request else "## Told"
        yield _fenced(content)
        return
    if content:
        yield "## Answer"
        yield content
    for call in message.get("tool_calls", ()):
        yield _call(call, results)


def _call(call: Mapping[str, Any], results: Mapping[str, str]) -> str:
    function = call["function"]
    arguments = _fenced(cut_middle(_pretty(function["arguments"]), _MAX_ARGUMENTS_CHARS), "json")
    result = _fenced(cut_middle(results.get(call["id"], "(no result)"), _MAX_RESULT_CHARS))
    summary = _html(f"{function['name']} {_line(function['arguments'])}")
    return f"<details><summary>{summary}</summary>\n\n{arguments}\n\n{result}\n\n</details>"


def _end(entry: Mapping[str, Any]) -> Iterator[str]:
    yield f"## Outcome: {entry['status']}"
    if entry["text"]:
        yield str(entry["text"])
    for claim, why in entry["problems"]:
        yield f"- Not shown to be true: {_inline(claim)}, {why}"


def _verdict(entry: Mapping[str, Any]) -> str:
    parts = [f"{len(entry[name])} hunks {name}" for name in ("accepted", "rejected") if entry[name]]
    return f"{entry['path']}: {', '.join(parts) or 'nothing'}"


def _results(messages: Iterable[Message]) -> dict[str, str]:
    """Of the calls before these messages. Servers may give the same ids again in every turn."""
    results = takewhile(lambda message: message["role"] == "tool", messages)
    return {message["tool_call_id"]: str(message["content"]) for message in results}


def _changes(transcript: Transcript) -> list[FileChange]:
    entry = transcript.last("changes")
    return [
        FileChange(
            path=file["path"],
            before=None if file["before"] is None else TextFile(text=file["before"]),
            after=file["after"],
            moved_from=file["moved_from"],
        )
        for file in (entry["files"] if entry else ())
    ]


def _pretty(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), indent=2, ensure_ascii=False)
    except ValueError:
        return arguments


def _fenced(text: str, language: str = "") -> str:
    """A fence longer than any in the text."""
    longest = max((len(ticks) for ticks in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _inline(text: str) -> str:
    return f"`{text}`" if "`" not in text else text


def _html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _line(text: str) -> str:
    line = " ".join(text.split())
    if len(line) > _MAX_SUMMARY_CHARS:
        line = f"{line[: _MAX_SUMMARY_CHARS - 1]}…"
    return line
