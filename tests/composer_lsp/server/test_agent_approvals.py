"""Commands wait for the user's word, which comes by the editor's message box."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from composer_lsp.agent.commands import Place, Policy, Question, parse
from composer_lsp.agent.commands.approval import rules_for
from composer_lsp.server.agent.approver import (
    ALWAYS,
    DENY,
    MAX_SHOWN_CHARS,
    ONCE,
    SESSION,
    EditorApprover,
)
from tests.composer_lsp.server.agent_window import EDITOR, OpenWindow
from tests.composer_lsp.server.conftest import StartFake
from tests.support.chat_server import Said
from tests.support.lsp import SILENCE, UNKNOWN_METHOD

ASK = "window/showMessageRequest"
RUN: Said = [("run_command", {"command": "sh ask.sh"})]
DONE: Said = [("finish", {"summary": "Ran it."})]


class Editor:
    """Answers with what a test says."""

    def __init__(self, answer: str | None) -> None:
        self.answer = answer
        self.asked: list[tuple[str, ...]] = []
        self.logged: list[str] = []
        self.most_at_once = 0
        self._at_once = 0

    async def ask(self, question: str, *answers: str) -> str | None:
        self.asked.append((question, *answers))
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        await asyncio.sleep(0)
        self._at_once -= 1
        return self.answer

    def log(self, message: str) -> None:
        self.logged.append(message)


def question(line: str, *, is_sandboxed: bool = True) -> Question:
    where = Place(Path("/w/shop"), (Path("/w/shop"),), is_sandboxed)
    command, policy = parse(line), Policy()
    verdict = policy.decide(command, where)
    rules = rules_for(command, policy, where)
    return Question(command=command, verdict=verdict, place=where, rules=rules)


@pytest.mark.parametrize(
    ("chosen", "answer"),
    [
        (ONCE, "once"),
        (SESSION, "session"),
        (ALWAYS, "always"),
        (DENY, "deny"),
        (None, "deny"),
        ("?", "deny"),
    ],
)
async def test_what_is_answered(chosen: str | None, answer: str) -> None:
    editor = Editor(chosen)
    assert await EditorApprover(editor).approve(question("curl x.org")) == answer
    assert editor.asked[0][1:] == (ONCE, SESSION, ALWAYS, DENY)


async def test_the_question_shows_line_folder_reason_access_and_rule() -> None:
    editor = Editor(DENY)
    await EditorApprover(editor).approve(question("curl x.org"))
    assert editor.asked[0][0] == (
        "Composer wants to run in /w/shop:\n"
        "curl x.org\n"
        "`curl x.org` is not known to be harmless. It would get the network.\n"
        "“Always allow” adds: allow curl x.org"
    )


async def test_without_a_sandbox_nothing_is_allowed_for_always() -> None:
    editor = Editor(ALWAYS)
    asked = question("curl x.org", is_sandboxed=False)
    assert await EditorApprover(editor).approve(asked) == "deny"
    assert editor.asked[0][1:] == (ONCE, SESSION, DENY)
    assert "There is no sandbox around it." in editor.asked[0][0]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("echo a\nrm -rf b", "echo a⏎\nrm -rf b"),
        ("echo \u202egnp.sh", "echo \\u202egnp.sh"),
        ("echo a\x1b[2Kb", "echo a\\x1b[2Kb"),
        ("echo a\u200bb", "echo a\\u200bb"),
    ],
    ids=["two lines", "right to left", "escape", "no width"],
)
async def test_nothing_of_a_line_hides(line: str, shown: str) -> None:
    editor = Editor(DENY)
    await EditorApprover(editor).approve(question(line))
    assert f":\n{shown}\n" in editor.asked[0][0]


async def test_a_line_too_long_to_be_seen_is_in_the_log_and_allowed_once_only() -> None:
    editor = Editor(SESSION)
    line = f"echo {'x' * MAX_SHOWN_CHARS} && curl evil.org"
    assert await EditorApprover(editor).approve(question(line)) == "deny"
    text, *answers = editor.asked[0]
    assert answers == [ONCE, DENY]
    assert "characters are left out here" in text
    assert len(text) < 1000 + MAX_SHOWN_CHARS
    assert line in editor.logged[0]


async def test_one_question_at_a_time() -> None:
    editor = Editor(ONCE)
    approver = EditorApprover(editor)
    await asyncio.gather(*(approver.approve(question(f"curl {name}")) for name in "abc"))
    assert len(editor.asked) == 3
    assert editor.most_at_once == 1


@pytest.fixture
def root(directory: Path) -> Path:
    folder = directory / "shop"
    folder.mkdir()
    (folder / "ask.sh").write_text("echo it ran\n")
    return folder


@pytest.fixture
def open_window(start_fake: StartFake, root: Path) -> OpenWindow:
    return OpenWindow(start_fake, root)


async def result_of(open_window: OpenWindow, answer: Any, capabilities: Any = EDITOR) -> str:
    """What the model is told of the command; the run goes on to its end."""
    async with open_window(RUN, DONE, capabilities=capabilities) as (client, chat):
        client.answers[ASK] = lambda params: answer
        ended = await client.command("composer.edit", "Run it.")
        assert ended["text"] == "Ran it."
        (told,) = [each for each in chat.requests[1]["messages"] if each["role"] == "tool"]
        return told["content"]


async def test_an_allowed_command_runs(open_window: OpenWindow) -> None:
    assert "it ran" in await result_of(open_window, {"title": ONCE})


@pytest.mark.parametrize(
    "answer",
    [{"title": DENY}, None, UNKNOWN_METHOD, {"title": 17}, {"title": "Yes"}],
    ids=["no", "dismissed", "unknown method", "malformed", "another"],
)
async def test_any_other_answer_denies(open_window: OpenWindow, answer: Any) -> None:
    assert "not run: the user has denied it" in await result_of(open_window, answer)


async def test_a_client_that_cannot_ask_denies(open_window: OpenWindow) -> None:
    silent: dict[str, Any] = {**EDITOR, "window": {}}
    assert "not run" in await result_of(open_window, {"title": ONCE}, silent)


async def test_allowed_for_the_session_is_not_asked_again(open_window: OpenWindow) -> None:
    async with open_window(RUN, DONE, RUN, DONE) as (client, _):
        client.answers[ASK] = lambda params: {"title": SESSION}
        for _ in range(2):
            assert (await client.command("composer.edit", "Run it."))["state"] == "finished"
        assert len(client.all(ASK)) == 1
        assert "sh ask.sh" in client.all(ASK)[0]["message"]


async def test_stopping_the_run_withdraws_the_question(open_window: OpenWindow, root: Path) -> None:
    async with open_window(RUN, DONE) as (client, _):
        client.answers[ASK] = lambda params: SILENCE
        begun = client.begin(
            "workspace/executeCommand", {"command": "composer.edit", "arguments": ["Run it."]}
        )
        asked = await client.wait_for(lambda message: message.get("method") == ASK)
        assert await client.command("composer.stop") == {"stopped": 1}
        assert (await client.answer(begun))["state"] == "stopped"
        await client.notification("$/cancelRequest", lambda params: params["id"] == asked["id"])
        # An answer that comes all the same is none.
        client.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"title": ONCE}})
        assert (await client.command("composer.status"))["state"] == "idle"
