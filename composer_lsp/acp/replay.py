"""A saved session as the client first saw it: its updates again, from the transcripts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from acp import helpers

from composer_lsp.acp.client import Update
from composer_lsp.acp.paths import ClientPaths
from composer_lsp.acp.updates import Updates, call_kind, call_locations, call_title, shown
from composer_lsp.agent.conversation import answer_of
from composer_lsp.agent.transcript import Transcript


def replay(transcripts: Sequence[Transcript], paths: ClientPaths, updates: Updates) -> None:
    """Send what was said and called."""
    for transcript in transcripts:
        updates.send(helpers.update_user_message_text(shown(transcript.header.request)))
        for message in transcript.messages:
            for update in _of_message(message, paths, updates):
                updates.send(update)
        if not _was_said(transcript, answer := answer_of(transcript)):
            updates.text(f"{answer}\n\n")


def _was_said(transcript: Transcript, answer: str) -> bool:
    return any(
        message["role"] == "assistant" and str(message.get("content") or "").strip() == answer
        for message in transcript.messages
    )


def _of_message(
    message: Mapping[str, Any], paths: ClientPaths, updates: Updates
) -> Iterator[Update]:
    if message["role"] != "assistant":
        return
    if text := str(message.get("content") or "").strip():
        yield helpers.update_agent_message_text(shown(f"{text}\n\n"))
    for call in message.get("tool_calls", ()):
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        yield helpers.start_tool_call(
            updates.new_id(),
            call_title(name, arguments),
            kind=call_kind(name),
            status="completed",
            locations=call_locations(paths, arguments),
        )
