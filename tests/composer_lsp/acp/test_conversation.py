import pytest

from composer_lsp.acp.conversation import Conversation
from composer_lsp.agent.transcript import Header, Transcript

SYSTEM = {"role": "system", "content": "You are."}
ASKED = {"role": "user", "content": "How much?"}
CALL = {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}
RESULT = {"role": "tool", "tool_call_id": "1", "content": "2\t    return 1"}
ANSWER = {"role": "assistant", "content": "One."}


def transcript(*messages: dict[str, object]) -> Transcript:
    made = Transcript(header=Header(id="1", mode="ask", request="How much?", roots=["/"]))
    for message in messages:
        made.add_message(message)
    return made


@pytest.mark.parametrize(
    "messages",
    [(ASKED, CALL, RESULT, ANSWER), (ASKED, CALL, RESULT), (ASKED,), ()],
    ids=["a text", "finish", "no answer", "nothing"],
)
def test_each_run_ends_with_what_it_said_at_last(messages: tuple[dict[str, object], ...]) -> None:
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
