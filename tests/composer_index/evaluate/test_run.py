"""Metrics by hand, and a whole evaluation of a small repository."""

import json
import subprocess
from pathlib import Path

import pytest

from composer_index.evaluate.__main__ import reference_searches
from composer_index.evaluate.commits import commit_questions, distinct_files
from composer_index.evaluate.metrics import first_right, quality
from composer_index.evaluate.queries import Place, Question
from composer_index.evaluate.run import evaluate

_FUNCTIONS = {
    "net.py": ("open_socket", "Connect to a host over the network", "s = socket.create_connection(a)"),
    "disk.py": ("save", "Write the records to a file on disk", "handle = open(a, 'wb')"),
    "mail.py": ("notify", "Send a message to the user by mail", "s = smtplib.SMTP(a)"),
}  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    tree.mkdir()
    for path, (name, prose, line) in _FUNCTIONS.items():
        source = f'def {name}(a):\n    """{prose}."""\n    {line}\n    return a\n'
        (tree / path).write_text(source)
    return tree


def _commit(tree: Path, subject: str) -> None:
    git = ["git", "-C", str(tree), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", subject], check=True)


def _place(path: str, start_line: int, end_line: int) -> Place:
    return Place(path=path, start_line=start_line, end_line=end_line)


@pytest.mark.parametrize(
    ("results", "rank"),
    [
        ([_place("a", 5, 9)], 1),
        ([_place("b", 5, 9), _place("a", 1, 4), _place("a", 9, 20)], 3),
        ([_place("a", 10, 20), _place("a", 1, 4)], None),
        ([_place("b", 1, 2)] * 10 + [_place("a", 5, 9)], None),
        ([], None),
    ],
)
def test_the_first_result_that_overlaps_counts(results: list[Place], rank: int | None) -> None:
    question = Question(text="q", answers=(_place("c", 1, 1), _place("a", 5, 9)))
    assert first_right(question, results) == rank


def test_metrics() -> None:
    found = quality([1, 2, None, 4])
    assert found.mrr == pytest.approx((1 + 1 / 2 + 1 / 4) / 4)
    assert found.recall == 0.75
    assert quality([]).mrr == 0


def test_ranks_every_method_on_the_same_questions(tree: Path) -> None:
    evaluation = evaluate(tree, reference_searches, number=3)
    assert [one.method for one in evaluation.functions][-1] == "BM25 + table + boost"
    assert {one.quality.num_questions for one in evaluation.functions} == {3}
    assert evaluation.functions[-1].quality.mrr == 1
    assert evaluation.commits == ()
    assert "BM25 + table + boost" in evaluation.as_text()
    assert json.loads(json.dumps(evaluation.as_json()))["functions"][0]["quality"]["mrr"] <= 1


def test_a_tree_without_prose_gives_no_questions(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    evaluation = evaluate(tmp_path, reference_searches)
    assert (evaluation.functions, evaluation.commits) == ((), ())


def test_commits_ask_for_the_files_they_changed(tree: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tree)], check=True)
    _commit(tree, "Begin")  # two words too few
    (tree / "mail.py").write_text("def notify(a):\n    pass\n")
    (tree / "gone.py").write_text("")
    _commit(tree, "Notify the user by mail")
    (tree / "gone.py").unlink()
    _commit(tree, "Remove what is used no more")
    (question,) = commit_questions(tree, 10, seed=1)
    assert question.text == "Notify the user by mail"
    assert [answer.path for answer in question.answers] == ["mail.py"]
    assert evaluate(tree, reference_searches).commits[-1].quality.mrr == 1


def test_no_repository_gives_no_commits(tmp_path: Path) -> None:
    assert commit_questions(tmp_path, 10, seed=1) == []


def test_files_are_ranked_by_their_first_place() -> None:
    places = [_place("a", 1, 2), _place("b", 1, 2), _place("a", 3, 4)]
    assert distinct_files(places) == places[:2]
