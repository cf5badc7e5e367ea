"""The problems of `bench.tab` and how their programs are run."""

import gzip
import hashlib
import json
import shutil
from pathlib import Path

import pytest

from bench.tab import problems
from bench.tab.problems import DataError, Problem, read_problems
from bench.tab.programs import passes

needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")


def problem(before: str, solution: str, after: str) -> Problem:
    return Problem(task_id="a", before=before, after=after, solution=solution, check="")


@pytest.mark.parametrize(
    ("before", "solution", "after", "document"),
    [
        ("def f():\n", "    x = 1\n", "    return x\n", "def f():\n\n    return x\n"),
        ("def f():\n    x = ", "1", "\n    return x\n", "def f():\n    x = \n    return x\n"),
        ("x = ", "1\n", "y = 2\n", "x = y = 2\n"),
        ("", "x = 1\n", "y = 2\n", "\ny = 2\n"),
    ],
)
def test_an_empty_line_stands_for_whole_lines(
    before: str, solution: str, after: str, document: str
) -> None:
    assert problem(before, solution, after).document == document


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = [
        {
            "task_id": f"SingleLineInfilling/HumanEval/{number}/L0",
            "entry_point": "f",
            "prompt": "def f():\n",
            "suffix": "",
            "canonical_solution": f"    return {number}\n",
            "test": "def check(f):\n    f()\n",
        }
        for number in range(40)
    ]
    data = gzip.compress("\n".join(map(json.dumps, rows)).encode())
    (tmp_path / "some.gz").write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    monkeypatch.setitem(problems._FILES, "single-line", ("some.gz", digest))  # pyright: ignore[reportPrivateUsage]
    return tmp_path


def test_the_halves_share_no_program(folder: Path) -> None:
    tune, evaluated, both = (
        {
            p.task_id
            for p in read_problems("single-line", folder=folder, split=split, num_problems=99)
        }
        for split in ("tune", "eval", None)
    )
    assert not tune & evaluated
    assert tune | evaluated == both
    assert len(tune) == len(evaluated) == 20


def test_the_same_ones_are_drawn_each_time(folder: Path) -> None:
    few, many = (
        [p.task_id for p in read_problems("single-line", folder=folder, split=None, num_problems=n)]
        for n in (5, 12)
    )
    assert few == many[:5]


def test_a_file_that_is_missing_or_another_is_named(folder: Path) -> None:
    with pytest.raises(DataError, match="MultiLineInfilling.jsonl.gz cannot be read"):
        read_problems("multi-line", folder=folder, split=None, num_problems=1)
    (folder / "some.gz").write_bytes(b"x")
    with pytest.raises(DataError, match="some.gz is not the published file"):
        read_problems("single-line", folder=folder, split=None, num_problems=1)


@needs_bubblewrap
@pytest.mark.parametrize(
    ("program", "has_passed"),
    [
        ("assert 1 + 1 == 2", True),
        ("assert 1 + 1 == 3", False),
        ("x = ", False),
        ("open('written', 'w')", False),
        ("import socket; socket.create_connection(('127.0.0.1', 9), 1)", False),
        ("x = bytearray(3 << 30)", False),
        ("raise SystemExit(0)", True),
    ],
)
def test_programs_run_by_themselves(program: str, has_passed: bool) -> None:
    assert passes(program) == has_passed


@needs_bubblewrap
def test_a_program_that_never_ends_has_not_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.tab.programs._LIMIT_S", 1)
    assert not passes("while True: pass")
