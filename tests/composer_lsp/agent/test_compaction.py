"""What becomes of a conversation that no longer fits."""

import asyncio
from collections.abc import Sequence

import pytest

from composer_lsp.agent.compaction import Compactor
from composer_lsp.agent.model import Message
from tests.composer_lsp.agent.scripted import ScriptedModel

SYSTEM: Message = {"role": "system", "content": "s"}
REQUEST: Message = {"role": "user", "content": "do it"}
NOTE = "[earlier turns, in short; what they found is not here any more]"


def turn(number: int, *, result_chars: int = 2000, said: str = "") -> list[Message]:
    function = {"name": "read_file", "arguments": f'{{"path": "f{number}.py"}}'}
    call = {"id": f"{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": said, "tool_calls": [call]},
        {
            "role": "tool",
            "tool_call_id": f"{number}",
            "content": f"found {number}\n".ljust(result_chars, "x"),
        },
    ]


def turns(numbers: range) -> list[Message]:
    return [message for number in numbers for message in turn(number)]


def num_tokens(messages: Sequence[Message]) -> int:
    calls = (call["function"] for each in messages for call in each.get("tool_calls", ()))
    texts = [str(each["content"]) for each in messages]
    texts += [call["name"] + call["arguments"] for call in calls]
    return sum(len(text) // 4 for text in texts)


def fitted(
    messages: Sequence[Message], context_tokens: int, request: Message = REQUEST
) -> list[Message]:
    model = ScriptedModel(context_tokens=context_tokens)
    return asyncio.run(Compactor(model, (), 100).fitted(messages, request))


def test_what_fits_is_not_touched() -> None:
    messages = [SYSTEM, REQUEST, *turns(range(5))]
    assert fitted(messages, 100_000) == messages


def test_old_results_are_shortened_first_and_nothing_else() -> None:
    messages = [SYSTEM, REQUEST, *turns(range(12))]
    kept = fitted(messages, 6000)
    assert len(kept) == len(messages)
    changed = [index for index, each in enumerate(kept) if each != messages[index]]
    assert changed and changed == list(range(3, changed[-1] + 1, 2))
    assert all(kept[index]["role"] == "tool" for index in changed)
    assert kept[-6:] == messages[-6:]


@pytest.mark.parametrize(("num_turns", "context_tokens"), [(12, 6000), (60, 3000)])
def test_so_much_is_taken_that_the_next_turns_fit_with_the_same_beginning(
    num_turns: int, context_tokens: int
) -> None:
    """The engine's cache of the prompt is of use for the longest common beginning."""
    messages = [SYSTEM, REQUEST, *turns(range(num_turns))]
    kept = fitted(messages, context_tokens)
    assert kept != messages
    longer = [*kept, *turn(100, result_chars=400), *turn(101, result_chars=400)]
    assert fitted(longer, context_tokens) == longer


def test_a_line_is_left_of_each_turn_that_leaves() -> None:
    kept = fitted([SYSTEM, REQUEST, *turns(range(60))], 3000)
    assert kept[:2] == [SYSTEM, REQUEST]
    head, *lines = kept[2]["content"].splitlines()
    assert (kept[2]["role"], head) == ("user", NOTE)
    calls = [each for each in kept if each.get("tool_calls")]
    assert 0 < len(calls) < 60
    last_left = 60 - len(calls) - 1
    assert lines[-1] == f'- you called read_file {{"path": "f{last_left}.py"}}: found {last_left}'
    assert num_tokens(kept) < 3000
    assert kept[3]["role"] == "assistant"


def test_lines_of_turns_that_left_before_stay_while_there_is_room() -> None:
    kept = fitted([SYSTEM, REQUEST, *turns(range(40))], 3000)
    first = kept[2]["content"].splitlines()
    again = fitted([*kept, *turns(range(40, 55))], 3000)
    lines = again[2]["content"].splitlines()
    assert lines[0] == NOTE
    assert all(line.startswith("- you called read_file") for line in lines[1:])
    assert set(lines) & set(first[1:])
    assert lines[-1] not in first
    assert [each for each in again if NOTE in str(each["content"])] == [again[2]]


def test_what_was_said_and_told_is_left_in_short() -> None:
    told: Message = {"role": "user", "content": "\n[checks] a.py:1: broken\nmore"}
    said = turn(0, said="I look.\nThen I go on.")
    kept = fitted([SYSTEM, REQUEST, *turns(range(1, 14)), *said, told, *turns(range(14, 32))], 2500)
    text = kept[2]["content"]
    assert "- you said: I look.\n- you called read_file" in text
    assert "- you were told: [checks] a.py:1: broken\n" in text


def test_the_newest_request_stays_though_it_is_not_the_first() -> None:
    asked: Message = {"role": "user", "content": "Now this: " + "x" * 400}
    kept = fitted([SYSTEM, REQUEST, *turns(range(20)), asked, *turns(range(20, 40))], 2000, asked)
    assert asked in kept and REQUEST in kept
