"""What runs have said and seen, for the next one to go on from."""

from collections.abc import Sequence

from composer_lsp.agent.model import Message
from composer_lsp.agent.state import restore_reads
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.transcript import Transcript

_CUT_OFF = "Error: the run was ended before this call had a result"


class Conversation:
    """Of a session's runs. A transcript holds what the runs before it had said, so that the last one is
    enough."""

    def __init__(self, last: Transcript | None = None) -> None:
        """`last`: of a saved session's last run."""
        self._last: Transcript | None = None
        self._messages: list[Message] = []
        if last is not None:
            self.add(last, answer_of(last))

    @property
    def messages(self) -> Sequence[Message]:
        """From the first request on, without the system's message: that is each run's own."""
        return self._messages

    async def restore_reads(self, context: ToolContext) -> None:
        """In a new run's context: what earlier runs were shown may be cited where it is the same."""
        if self._last is not None:
            await restore_reads(self._last, context)

    def add(self, transcript: Transcript, answer: str) -> None:
        """A run that has ended. `answer`: what it said at last, and what became of its changes."""
        self._last, self._messages = transcript, said_in(transcript, answer)

    def stopped(self, request: str) -> None:
        """A run that the user stopped."""
        asked = {"role": "user", "content": request}
        self._messages += [asked, _said("(The user stopped this.)")]


def said_in(transcript: Transcript, answer: str) -> list[Message]:
    """Of a run that has ended, from the first request on. `answer`: see `Conversation.add`."""
    _, *messages = transcript.context or [{}]
    # The last word of a run is a call of `finish`, unless it is a text.
    if messages and messages[-1]["role"] == "assistant":
        messages.pop()
    return [*messages, *missing_results(messages), _said(answer)]


def missing_results(messages: Sequence[Message]) -> list[Message]:
    """For the calls of the last turn that have no result: a conversation needs one of each."""
    answered: set[str] = set()
    for message in reversed(messages):
        if message["role"] == "tool":
            answered.add(message["tool_call_id"])
        else:
            return [
                {
                    "role": "tool",
                    "tool_call_id": call["id"],
                    "name": call["function"]["name"],
                    "content": _CUT_OFF,
                }
                for call in message.get("tool_calls", ())
                if call["id"] not in answered
            ]
    return []


def answer_of(transcript: Transcript) -> str:
    """Empty if the run never ended."""
    end = transcript.last("end")
    return "" if end is None else str(end["text"])


def _said(text: str) -> Message:
    return {"role": "assistant", "content": text}
