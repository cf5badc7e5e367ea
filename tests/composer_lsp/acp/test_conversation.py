from composer_lsp.acp.conversation import ContinuedModel, Turn
from tests.composer_lsp.agent.scripted import ScriptedModel

SYSTEM = {"role": "system", "content": "You are."}
REQUEST = {"role": "user", "content": "And now?"}
TURNS = [Turn(request=f"request {each}", answer=f"answer {each}") for each in range(3)]


async def sent(model: ScriptedModel, turns: list[Turn]) -> list[str]:
    async for _ in ContinuedModel(model, turns).reply([SYSTEM, REQUEST], [], max_tokens=10):
        pass
    return [message["content"] for message in model.requests[0]]


async def test_earlier_turns_come_between_the_system_and_the_request() -> None:
    assert await sent(ScriptedModel("ok"), TURNS[:2]) == [
        "You are.",
        "request 0",
        "answer 0",
        "request 1",
        "answer 1",
        "And now?",
    ]


async def test_the_oldest_turns_are_forgotten_when_there_is_no_room() -> None:
    assert await sent(ScriptedModel("ok", context_tokens=100), TURNS) == [
        "You are.",
        "request 2",
        "answer 2",
        "And now?",
    ]


async def test_their_room_is_taken_from_the_context() -> None:
    whole = await ContinuedModel(ScriptedModel(), []).context_tokens()
    left = await ContinuedModel(ScriptedModel(), TURNS[:1]).context_tokens()
    assert 0 < whole - left < 50


async def test_a_long_answer_is_cut() -> None:
    turn = Turn(request="r", answer="a" * 50_000)
    contents = await sent(ScriptedModel("ok"), [turn])
    assert len(contents[2]) < 7_000
    assert "[cut: " in contents[2]
