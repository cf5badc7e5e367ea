"""What is remembered, and for how long: case 22, a tool server trusted by its name."""

import stat
from pathlib import Path

import pytest

from composer_lsp.agent.commands.approval import Answer
from composer_lsp.agent.mcp.approval import (
    Grants,
    ServerApprovals,
    ServerQuestion,
)
from tests.composer_lsp.agent.mcp.bench import Asked

LINES = ("Command: /bin/docs", "Folder: /w")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "mcp.json"


async def test_a_server_is_asked_about_once(file: Path) -> None:
    asked = Asked({"start": "always"})
    for _ in range(2):
        assert await ServerApprovals(Grants(file), asked).start("docs", "1", LINES, "Why.")
    (question,) = asked.questions
    assert "Use the tool server docs? Why." in question.text
    assert "Command: /bin/docs" in question.text
    assert "outside of the sandbox" in question.text


async def test_only_the_user_may_read_what_was_approved(file: Path) -> None:
    await ServerApprovals(Grants(file), Asked({"start": "always"})).start("docs", "1", LINES, "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600  # noqa: ASYNC240


async def test_another_command_by_the_same_name_is_asked_again(file: Path) -> None:
    asked = Asked({"start": "always"})
    await ServerApprovals(Grants(file), asked).start("docs", "1", LINES, "")
    await ServerApprovals(Grants(file), asked).start("docs", "2", ("Command: /bin/evil",), "")
    text = asked.questions[1].text
    assert "which you approved, is another one now" in text
    assert "Command: /bin/evil" in text
    assert "Before: Command: /bin/docs" in text
    assert not await ServerApprovals(Grants(file), None).start("docs", "1", LINES, "")


async def test_another_command_gets_none_of_what_its_namesake_was_allowed(file: Path) -> None:
    asked = Asked({"start": "always", "tools": "always", "call": "always"})
    before = ServerApprovals(Grants(file), asked)
    await before.start("docs", "1", LINES, "")
    await before.tools("docs", {"echo": "d"}, {"echo": "echo()"})
    await before.call("docs", "echo", "d", "{}")
    await ServerApprovals(Grants(file), asked).start("docs", "2", LINES, "")
    nobody = ServerApprovals(Grants(file), None)
    assert not await nobody.tools("docs", {"echo": "d"}, {"echo": "echo()"})
    assert not await nobody.call("docs", "echo", "d", "{}")


@pytest.mark.parametrize("answer", ["once", "always"])
async def test_changed_tools_are_asked_again_with_what_changed(answer: Answer, file: Path) -> None:
    asked = Asked({"tools": answer})
    approvals = ServerApprovals(Grants(file), asked)
    texts = {"a": "a(): A.", "b": "b(): B.", "c": "c(): C."}
    assert await approvals.tools("docs", {"a": "1", "b": "1"}, texts)
    assert await approvals.tools("docs", {"a": "1", "b": "1"}, texts)
    assert await approvals.tools("docs", {"a": "1"}, texts)
    assert len(asked.questions) == 1
    asked.answers["tools"] = "deny"
    assert not await approvals.tools("docs", {"a": "2", "b": "1", "c": "1"}, texts)
    assert "which you approved, have changed" in asked.questions[1].text
    assert asked.questions[1].text.endswith("\nchanged a(): A.\nnew c(): C.")


async def test_what_was_approved_for_a_run_is_asked_in_the_next(file: Path) -> None:
    asked = Asked()
    for _ in range(2):
        approvals = ServerApprovals(Grants(file), asked)
        for _ in range(2):
            assert await approvals.start("docs", "1", LINES, "")
            assert await approvals.tools("docs", {"a": "1"}, {"a": "a()"})
    assert asked.subjects == ["start", "tools", "start", "tools"]


async def test_a_denial_holds_for_the_run(file: Path) -> None:
    asked = Asked({"start": "deny"})
    approvals = ServerApprovals(Grants(file), asked)
    for _ in range(2):
        assert not await approvals.start("docs", "1", LINES, "")
    assert len(asked.questions) == 1


@pytest.mark.parametrize(("answer", "num_asked"), [("once", 4), ("session", 2), ("always", 1)])
async def test_each_call_is_asked_about_unless_it_was_answered_for_more(
    answer: Answer, num_asked: int, file: Path
) -> None:
    asked = Asked({"call": answer})
    for _ in range(2):
        approvals = ServerApprovals(Grants(file), asked)
        for _ in range(2):
            assert await approvals.call("docs", "echo", "1", '{"a": 1}')
    assert len(asked.questions) == num_asked
    approvals = ServerApprovals(Grants(file), asked)
    assert await approvals.call("docs", "echo", "another schema", "{}")
    assert await approvals.call("docs", "another", "1", "{}")
    assert len(asked.questions) == num_asked + 2


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "null", '{"servers": []}', '{"servers": {"docs": 1}}', "[" * 99_999]
)
async def test_a_file_that_is_not_whole_approves_nothing(content: str, file: Path) -> None:
    file.parent.mkdir()
    file.write_text(content)  # noqa: ASYNC240
    assert not await ServerApprovals(Grants(file), None).start("docs", "1", LINES, "")
    await ServerApprovals(Grants(file), Asked({"start": "always"})).start("docs", "1", LINES, "")
    assert Grants(file).of("docs")["identity"] == "1"


async def test_arguments_are_shown_without_what_moves_the_cursor(file: Path) -> None:
    asked = Asked()
    await ServerApprovals(Grants(file), asked).call(
        "docs", "e\x1b[2Kcho", "1", "{\x9b1A}" + "x" * 9_000
    )
    text = asked.questions[0].text
    assert "\x1b" not in text and "\x9b" not in text
    assert "more characters)" in text
    assert asked.questions[0].choices == ("once", "deny")


@pytest.mark.parametrize(("num_chars", "is_whole"), [(800, True), (801, False), (9_000, False)])
def test_a_summary_fits_into_a_message_box(num_chars: int, is_whole: bool) -> None:
    text = "Use it?" + "x" * (num_chars - 10) + "End"
    question = ServerQuestion(subject="start", server="docs", text=text, choices=())
    assert (question.summary == text) == is_whole
    assert len(question.summary) < 1_000
    assert question.summary.startswith("Use it?") and question.summary.endswith("End")
