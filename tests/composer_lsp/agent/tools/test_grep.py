import asyncio
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from composer_lsp.agent.calls import CallRunner
from composer_lsp.agent.model import ToolCall
from composer_lsp.agent.tools import blocks, together
from composer_lsp.agent.tools.context import ToolContext
from composer_lsp.agent.tools.edit import delete_file, edit_file, write_file
from composer_lsp.agent.tools.grep import MAX_HITS, grep
from composer_lsp.agent.tools.tool import ToolError

Call = Callable[..., str]


def test_finds_lines_and_leaves_hidden_files_out(call: Call, context: ToolContext) -> None:
    assert call(grep, pattern="needle") == "src/util.py:2:    return 'needle'"
    assert context.reads.has_seen("src/util.py", 2, 2)


def test_searches_what_the_run_has_changed(call: Call) -> None:
    edits = [{"old": "os.getcwd()", "new": "'needle'"}]
    call(edit_file, path="src/app.py", edits=edits)
    call(write_file, path="new.py", text="needle = 2\n")
    call(delete_file, path="src/util.py")
    assert call(grep, pattern="needle").split("\n") == [
        "new.py:1:needle = 2",
        "src/app.py:5:    return 'needle'",
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"path": "src"}, "src/util.py:1:def helper():"),
        ({"path": "src/util.py"}, "src/util.py:1:def helper():"),
        ({"path": "README.md"}, "No line matches def helper."),
        ({"glob": "*.md"}, "No line matches def helper."),
        ({"glob": "src/*.py"}, "src/util.py:1:def helper():"),
    ],
)
def test_searches_where_it_is_told(call: Call, options: dict[str, str], expected: str) -> None:
    assert call(grep, pattern="def helper", **options) == expected


def test_case_matters_unless_it_is_said(call: Call) -> None:
    assert call(grep, pattern="DEF HELPER").startswith("No line")
    assert call(grep, pattern="DEF HELPER", ignore_case=True).startswith("src/util.py:1:")


def test_a_wrong_pattern_is_told(call: Call) -> None:
    with pytest.raises(ToolError, match="(?s)ripgrep refuses the pattern: .*unclosed group"):
        call(grep, pattern="(")


def test_a_pattern_is_no_option(call: Call) -> None:
    assert call(grep, pattern="--files") == "No line matches --files."


def test_many_lines_are_cut(call: Call, root: Path) -> None:
    (root / "many.txt").write_text("needle\n" * 500)
    shown = call(grep, pattern="needle").split("\n")
    assert len(shown) == MAX_HITS + 1
    assert shown[-1] == "[cut: 100 of 501 lines; narrow the search]"


def test_odd_files_do_no_harm(call: Call, root: Path) -> None:
    (root / "latin.py").write_bytes("# naïve needle é\n".encode("latin-1"))
    (root / "binary").write_bytes(b"needle\0\1\n")
    (root / "long.txt").write_text("needle" + "x" * 3_000_000 + "\n")
    shown = call(grep, pattern="needle")
    assert "latin.py:1:# na\ufffdve needle \ufffd" in shown
    assert "long.txt:1:needlexxx" in shown
    assert len(shown) < 2000


PATTERNS = ("needle", "^def (main|helper)", "import|return", "no such thing", "(?i)PROJECT", "e$")


def searched(context: ToolContext, *calls: tuple[str, bool]) -> list[str]:
    """The answers of searches that a model asks for in one turn."""

    async def search() -> list[str]:
        runner = CallRunner([grep], context, lambda event: None)
        asked = [
            ToolCall(id=str(n), name="grep", arguments=json.dumps({"pattern": p, "ignore_case": i}))
            for n, (p, i) in enumerate(calls)
        ]
        return [result.text for result in await runner.run(asked)]

    return asyncio.run(search())


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many patterns each pass over the files was made for."""
    seen: list[int] = []
    found = together._found  # pyright: ignore[reportPrivateUsage]

    async def noted(of: together.Pass, patterns: Sequence[str]) -> together.Together:
        seen.append(len(patterns))
        return await found(of, patterns)

    monkeypatch.setattr(together, "_found", noted)
    return seen


@pytest.mark.parametrize("num_bytes", [1 << 16, 100, 1], ids=["whole", "in blocks", "in bytes"])
def test_searches_of_one_turn_find_what_each_finds_alone(
    context: ToolContext,
    root: Path,
    passes: list[int],
    monkeypatch: pytest.MonkeyPatch,
    num_bytes: int,
) -> None:
    monkeypatch.setattr(blocks, "_BYTES", num_bytes)
    (root / "odd.txt").write_bytes(b"\xff\xfeneedle\r\n\xe9 return e\r\n\x0cneedle\nlast needle")
    (root / "utf16.txt").write_bytes("needle e\nreturn ü\n".encode("utf-16"))
    (root / "marked.txt").write_bytes(b"\xef\xbb\xbfneedle\ne\n")
    (root / "data.bin").write_bytes(b"needle\n\0\1\2needle\n" * 20)
    (root / "late.bin").write_bytes(b"needle\n" + b"x\n" * 200_000 + b"\0needle\n")
    (root / "a folder").mkdir()
    (root / "a folder" / "b:3:c.txt").write_text("needle: 4\n")
    alone = [searched(context, (pattern, False))[0] for pattern in PATTERNS]
    assert passes == []
    assert searched(context, *((pattern, False) for pattern in PATTERNS)) == alone
    assert passes == [len(PATTERNS)]
    assert any("utf16.txt:1:needle e" in answer for answer in alone)
    assert any("late.bin:1:needle" in answer for answer in alone)
    assert not any("private" in answer or "build" in answer for answer in alone)


def test_what_is_asked_in_another_way_is_searched_apart(
    context: ToolContext, passes: list[int]
) -> None:
    answers = searched(context, ("NEEDLE", True), ("NEEDLE", False), ("HELPER", True))
    assert [answer.startswith("src/util.py") for answer in answers] == [True, False, True]
    assert passes == [2]


@pytest.mark.parametrize("odd", ["(", r"\Aneedle", "a\nb"])
def test_a_pattern_that_does_not_go_with_others_spoils_none(context: ToolContext, odd: str) -> None:
    answers = searched(context, (odd, False), ("needle", False), ("import", False))
    assert answers[1:] == ["src/util.py:2:    return 'needle'", "src/app.py:1:import os"]
    assert "needle" not in answers[0] or "No line matches" in answers[0]


@pytest.mark.parametrize("name", ["secret\n.", "secret\n\n.", "secret\n1:x\n\n."])
def test_a_path_that_cannot_be_told_from_a_line_leads_nobody_astray(
    context: ToolContext, root: Path, name: str
) -> None:
    """A hidden folder whose name ends where another path seems to begin."""
    (root / ".composerignore").write_text("private/\nsecret*\n")
    (root / name).mkdir()
    (root / name / "README.md").write_text("needle of a secret\n")
    assert searched(context, ("needle", False), ("Project", False)) == [
        "src/util.py:2:    return 'needle'",
        "README.md:1:# Project",
    ]


def test_too_many_lines_are_searched_one_by_one(
    context: ToolContext, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(together, "_MAX_BYTES", 1000)
    (root / "many.txt").write_text("needle\n" * 500)
    answers = searched(context, ("needle", False), ("import", False))
    assert f"[cut: {MAX_HITS} of 501 lines; narrow the search]" in answers[0]
    assert answers[1] == "src/app.py:1:import os"


def test_a_frequent_pattern_takes_no_room_from_a_rare_one(context: ToolContext, root: Path) -> None:
    (root / "aaa.txt").write_text("needle\n" * 5000)
    answers = searched(context, ("needle", False), ("import", False))
    # Those of hidden files, which come in any order, were among them.
    assert re.search(rf"\[cut: {MAX_HITS} of at least (2000|199\d) lines; ", answers[0])
    assert answers[1] == "src/app.py:1:import os"


def test_an_expression_is_cut_as_a_text_is(context: ToolContext, root: Path) -> None:
    (root / "aaa.txt").write_text("needle\n" * 50_000)
    for answer in searched(context, ("need.*", False), ("needle|import", False), ("ne+dle", False)):
        assert answer.startswith("aaa.txt:1:needle\naaa.txt:2:needle\n")
        assert re.search(rf"\[cut: {MAX_HITS} of at least (2000|199\d) lines; ", answer)


def test_a_search_that_is_cancelled_leaves_the_others(context: ToolContext) -> None:
    async def search() -> str:
        first = asyncio.create_task(grep.call(context, {"pattern": "import"}))
        second = asyncio.create_task(grep.call(context, {"pattern": "needle"}))
        await asyncio.sleep(0)
        first.cancel()
        answer = await second
        assert first.cancelled()
        both = [asyncio.create_task(grep.call(context, {"pattern": p})) for p in ("x", "y")]
        await asyncio.sleep(0)
        for task in both:
            task.cancel()
        await asyncio.wait(both)
        assert len(asyncio.all_tasks()) == 1
        return answer

    assert asyncio.run(search()) == "src/util.py:2:    return 'needle'"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"pattern": "x", "glob": "["}, r"\["),
        ({"pattern": "a\0b"}, "the pattern holds the character NUL"),
        ({"pattern": "x" * 200_000}, "the pattern has 200,000 characters"),
    ],
    ids=["glob", "NUL", "long"],
)
def test_what_ripgrep_cannot_be_asked_is_told(
    call: Call, arguments: dict[str, str], error: str
) -> None:
    with pytest.raises(ToolError, match=error):
        call(grep, **arguments)
