"""Rewriting a selection: what the model is told, and what is made of its answer."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from composer_lsp.agent.agent import Finished
from composer_lsp.agent.events import EditsEvent, Event, TextEvent
from composer_lsp.agent.model import Delta, Message
from composer_lsp.agent.prompt.system import Request
from composer_lsp.agent.selection import (
    SelectedLines,
    SelectionEditor,
    SelectionError,
    replacement,
)
from composer_lsp.agent.workspace.directory import DirectoryWorkspace
from composer_lsp.agent.workspace.paths import Paths
from composer_lsp.agent.workspace.workspace import Diagnostic, Selection
from composer_lsp.engine.errors import UnreachableError

CODE = "import os\n\n\nclass Shop:\n    def price(self):\n        return 1\n\n    tax = 2\n"
NEW = "    def price(self):\n        return 2\n"


class Writer:
    """A `ChatModel` with one answer."""

    def __init__(self, text: str, *, finish: str = "stop", context_tokens: int = 8000) -> None:
        self._text = text
        self._finish = finish
        self._context_tokens = context_tokens
        self.messages: Sequence[Message] = ()
        self.prediction: str | None = None
        self.max_tokens = 0

    async def context_tokens(self) -> int:
        return self._context_tokens

    async def num_tokens(self, text: str) -> int:
        return len(text) // 4

    async def reply(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        *,
        max_tokens: int,
        must_call: bool = False,
        prediction: str | None = None,
    ) -> AsyncGenerator[Delta, None]:
        assert not tools
        assert not must_call
        self.messages, self.prediction, self.max_tokens = messages, prediction, max_tokens
        if self._finish == "dies":
            raise UnreachableError("the engine is gone")
        for piece in (self._text[:5], self._text[5:]):
            yield Delta(text=piece)
        yield Delta(finish_reason=self._finish)


def rewrite(
    folder: Path, model: Writer, first: int, last: int, **fields: Any
) -> tuple[Finished, list[Event]]:
    editor = SelectionEditor(
        workspace=DirectoryWorkspace(Paths([folder])), model=model, transcripts=folder.parent / "t"
    )
    events: list[Event] = []
    request = Request(
        mode="edit",
        text="Raise the price.",
        selection=Selection(path="shop.py", start_line=first, end_line=last, text=""),
        **fields,
    )
    finished = asyncio.run(editor.run(request, events.append, context=editor.context()))
    return finished, events


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "shop.py").write_text(CODE)
    return tmp_path / "w"


def test_the_answer_is_staged(folder: Path) -> None:
    model = Writer(NEW)
    finished, events = rewrite(folder, model, 5, 6)
    assert finished.outcome.status == "finished"
    (change,) = finished.context.changes.changes()
    assert change.after == CODE.replace("return 1", "return 2")
    assert (folder / "shop.py").read_text() == CODE
    assert events == [TextEvent(NEW[:5]), TextEvent(NEW[5:]), EditsEvent(("shop.py",))]
    assert model.prediction == "    def price(self):\n        return 1\n"


def test_the_model_sees_what_is_around(folder: Path) -> None:
    model = Writer(NEW)
    problem = Diagnostic(path="shop.py", line=6, severity="error", message="too cheap")
    elsewhere = Diagnostic(path="shop.py", line=8, severity="error", message="no tax")
    rewrite(folder, model, 5, 6, diagnostics=(problem, elsewhere))
    asked = model.messages[1]["content"]
    assert "Before the selection stands:\n```\nimport os\n\n\nclass Shop:\n```" in asked
    assert "After the selection stands:\n```\n    tax = 2\n```" in asked
    assert "The selection:\n```\n    def price(self):\n        return 1\n```" in asked
    assert "line 6: too cheap" in asked
    assert "no tax" not in asked
    assert asked.endswith("Rewrite the selection: Raise the price.")


def test_a_long_file_is_told_by_its_head(folder: Path) -> None:
    (folder / "shop.py").write_text("".join(f"x{number} = 1\n" for number in range(200)))
    model = Writer("y = 1\n")
    rewrite(folder, model, 150, 150)
    asked = model.messages[1]["content"]
    for line, is_told in {
        "x0": True,
        "x24": True,
        "x60": False,
        "x110": True,
        "x190": False,
    }.items():
        assert (f"{line} = 1\n" in asked) is is_told, line


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (Writer(NEW, finish="length"), "was cut"),
        (Writer(" \n"), "with nothing"),
        (Writer(NEW, finish="dies"), "the engine is gone"),
        (Writer(NEW, context_tokens=200), "too long for the model"),
        (Writer("x" * 400_001), "does not come to an end"),
    ],
    ids=["cut", "empty", "dead", "too long", "endless"],
)
def test_a_failure_stages_nothing_and_says_why(folder: Path, model: Writer, why: str) -> None:
    finished, _ = rewrite(folder, model, 5, 6)
    assert finished.outcome.status == "failed"
    assert why in finished.outcome.text
    assert not finished.context.changes


def test_a_file_that_is_hidden_is_not_shown(folder: Path) -> None:
    (folder / "shop.py").unlink()
    (folder / ".composerignore").write_text("shop.py\n")
    (folder / "shop.py").write_text(CODE)
    model = Writer(NEW)
    finished, _ = rewrite(folder, model, 5, 6)
    assert ".composerignore" in finished.outcome.text
    assert model.messages == ()


def test_the_transcript_has_question_and_answer(folder: Path) -> None:
    finished, _ = rewrite(folder, Writer(NEW), 5, 6)
    kinds = [entry["kind"] for entry in finished.transcript.entries]
    assert kinds == ["message", "message", "message", "changes", "end"]
    assert finished.transcript.header.mode == "selection"


def test_line_ends_and_the_rest_stay(folder: Path) -> None:
    text = CODE.replace("\n", "\r\n").removesuffix("\r\n")
    (folder / "shop.py").write_bytes(text.encode())
    finished, _ = rewrite(folder, Writer(NEW.removesuffix("\n")), 5, 6)
    (change,) = finished.context.changes.changes()
    assert change.after == text.replace("return 1", "return 2")


def lines_of(drawn: str) -> SelectedLines:
    """`«` and `»` stand at the beginnings of the first line and of that behind the last."""
    start = drawn[: drawn.index("«")].count("\n")
    end = drawn[: drawn.index("»")].count("\n") + (not drawn.split("»")[0].endswith(("\n", "«")))
    text = drawn.replace("«", "").replace("»", "")
    return SelectedLines(lines=text.splitlines(keepends=True), start=start, end=end)


METHOD = "class A:\n«    def f(self):\n        return 1\n»    x = 2\n"
GOOD = "    def f(self):\n        return 2\n"


@pytest.mark.parametrize(
    ("drawn", "reply", "expected"),
    [
        pytest.param(METHOD, GOOD, GOOD, id="as it should be"),
        pytest.param(METHOD, f"```python\n{GOOD}```", GOOD, id="fenced"),
        pytest.param(METHOD, f"Here is the new code:\n\n```\n{GOOD}```\nIt is 2.", GOOD, id="told"),
        pytest.param(METHOD, f"```python\n{GOOD}", GOOD, id="half a fence"),
        pytest.param(METHOD, f"\n\n{GOOD}\n\n", GOOD, id="blank lines around"),
        pytest.param(METHOD, "def f(self):\n    return 2", GOOD, id="dedented"),
        pytest.param(METHOD, "def f(self):\n        return 2", GOOD, id="first line dedented"),
        pytest.param(METHOD, GOOD.replace("\n", "\r\n"), GOOD, id="other line ends"),
        pytest.param("«\na = 1\n\n»b\n", "a = 2\n", "\na = 2\n\n", id="blank lines stay"),
        pytest.param("«a = 1»", "a = 2\n", "a = 2", id="no final line end"),
        pytest.param("a\n«\n»b\n", "c\n", "c\n", id="an empty line"),
        pytest.param("«»", "c", "c\n", id="an empty file"),
        pytest.param(
            "def a():\n\tif b:\n«\t\tc\n»\t\td\n", "    c = 1\n", "\t\tc = 1\n", id="tabs"
        ),
        pytest.param('«    """Says."""\n»', '    """Says it all, and loudly."""', None, id="docs"),
        pytest.param("«Say it.\n»", "Say it all and loudly.", None, id="a sentence for a sentence"),
        pytest.param("«a = '```'\n»", "b = '```'\n", None, id="a fence in the selection"),
    ],
)
def test_what_takes_the_selections_place(drawn: str, reply: str, expected: str | None) -> None:
    expected = f"{reply.rstrip()}\n" if expected is None else expected
    assert replacement(reply, lines_of(drawn), "a.py") == expected


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("", "with nothing"),
        ("```python\n```", "with nothing"),
        ("I cannot do that for you.", "an explanation"),
        (f"{GOOD}\nThis returns two instead of one.", "an explanation"),
        (f"Here it is:\n```python\n{GOOD}", "an explanation"),
        ("```\na\n```\nor\n```\nb\n```", "several pieces"),
        ("    def f(self):\n        return 1\n", "stands there already"),
    ],
)
def test_what_is_no_replacement_is_refused(reply: str, why: str) -> None:
    with pytest.raises(SelectionError, match=why):
        replacement(reply, lines_of(METHOD), "a.py")


def test_prose_may_be_prose_and_hold_fences() -> None:
    lines = lines_of("«Old words.\n»")
    text = "The new words are better.\n\n```sh\nls\n```\n"
    assert replacement(text, lines, "README.md") == text
    assert replacement(f"```markdown\n{text}```", lines, "README.md") == text
