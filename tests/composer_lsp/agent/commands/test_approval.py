"""Who is asked, how often, and what an answer is bound to."""

import asyncio
from pathlib import Path

import pytest

from composer_lsp.agent.commands import (
    Access,
    Answer,
    Approvals,
    Permission,
    Place,
    Policy,
    Question,
    Rule,
    parse,
)

ROOT = Path("/project")
SANDBOX = Place(ROOT, (ROOT,), is_sandboxed=True)


class User:
    """Answers every question alike, and remembers them."""

    def __init__(self, answer: Answer) -> None:
        self.answer: Answer = answer
        self.questions: list[Question] = []

    async def approve(self, question: Question) -> Answer:
        self.questions.append(question)
        await asyncio.sleep(0)
        return self.answer


async def check(
    approvals: Approvals, line: str, place: Place = SANDBOX, wanted: Access | None = None
) -> Permission:
    return await approvals.check(parse(line), place, wanted or Access())


async def test_what_is_allowed_is_not_asked_about() -> None:
    user = User("deny")

    assert (await check(Approvals(Policy(), user), "ls")).is_granted
    assert user.questions == []


async def test_what_is_denied_is_not_asked_about() -> None:
    user = User("once")
    permission = await check(Approvals(Policy(), user), "rm -rf /")

    assert not permission.is_granted
    assert permission.reason == "not run: it is not allowed; `rm -rf /` deletes all of /"
    assert user.questions == []


async def test_nobody_to_ask_is_a_denial() -> None:
    permission = await check(Approvals(Policy(), None), "rm x")

    assert not permission.is_granted
    assert "nobody can be asked" in permission.reason


async def test_the_question_tells_all() -> None:
    user = User("deny")
    permission = await check(Approvals(Policy(), user), "ls && npm install x")
    (question,) = user.questions

    assert question.verdict.part == "npm install x"
    assert question.verdict.access == Access(network=True)
    assert question.place.is_sandboxed
    assert permission.reason.startswith("not run: the user has denied it")


@pytest.mark.parametrize(("answer", "num_asked"), [("once", 2), ("session", 1), ("always", 1)])
async def test_an_answer_is_remembered(answer: Answer, num_asked: int) -> None:
    user = User(answer)
    approvals = Approvals(Policy(), user)
    for _ in range(2):
        assert (await check(approvals, "make")).is_granted

    assert len(user.questions) == num_asked


async def test_two_at_a_time_ask_once() -> None:
    user = User("session")
    approvals = Approvals(Policy(), user)
    await asyncio.gather(*(check(approvals, "make") for _ in range(3)))

    assert len(user.questions) == 1


@pytest.mark.parametrize(
    ("line", "place", "wanted"),
    [
        ("make -B", SANDBOX, Access()),
        ("make;", SANDBOX, Access()),
        ("make  ", Place(ROOT / "sub", (ROOT,), is_sandboxed=True), Access()),
        ("make", Place(ROOT, (ROOT,), is_sandboxed=False), Access()),
        ("make", SANDBOX, Access(network=True)),
        ("make", SANDBOX, Access(git=True)),
    ],
)
async def test_an_approval_for_the_session_is_bound_to_all_of_it(
    line: str, place: Place, wanted: Access
) -> None:
    user = User("session")
    approvals = Approvals(Policy(), user)
    await check(approvals, "make")
    user.answer = "deny"

    assert not (await check(approvals, line, place, wanted)).is_granted


@pytest.mark.parametrize(
    ("line", "rules"),
    [
        ("make -j4 all", ["allow make -j4 all"]),
        ("ls && make | tee 'a b'", ["allow make", "allow tee 'a b'"]),
        ("FOO=1 make", ["allow FOO=1 make"]),
        ("timeout 5 make", ["allow make"]),
        ("make > log", ["allow = make > log"]),
        ("make $X", ["allow = make $X"]),
        ("touch 'a*b'", ["allow = touch 'a*b'"]),
        ("eval $X", ["allow = eval $X"]),
    ],
)
async def test_always_adds_the_narrowest_rules(line: str, rules: list[str]) -> None:
    user = User("always")
    stored: list[Rule] = []
    approvals = Approvals(Policy(), user, store=stored.append)
    await check(approvals, line)

    assert [str(rule) for rule in stored] == rules
    again = Approvals(Policy(stored), None)
    assert (await check(again, line)).is_granted
    assert not (await check(again, f"{line}; rm x")).is_granted


async def test_without_a_sandbox_always_stores_nothing() -> None:
    stored: list[Rule] = []
    approvals = Approvals(Policy(), User("always"), store=stored.append)
    place = Place(ROOT, (ROOT,), is_sandboxed=False)

    assert (await check(approvals, "make", place)).is_granted
    assert stored == []
