"""The stripped copy of a tree, and the questions that it answers."""

from pathlib import Path

import pytest

from composer_index.evaluate.queries import Place, sample, strip_tree

_PYTHON = '''"""The module tells too much."""


class Store:
    """Holds all of it."""

    def close(self):
        """Close the store and free what it holds."""
        self.a = 1
        self.b = 2

    def only(self):
        """Have nothing in here but this docstring."""


def test_it():
    """Tests are not what one looks for here."""
    a = 1
    return a
'''
_C = """/* Free the memory that a list holds. */
void freeList(list *l)
{
    free(l->head);
}

// Trailing lines are kept as they are.

int last(void) { return 1; }
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    for path, text in (
        ("a/store.py", _PYTHON),
        ("list.c", _C),
        ("tests/list.c", _C.replace("memory", "room")),
        ("notes.md", "Free the memory that a list holds.\n"),
    ):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    (tree / "link.c").symlink_to(tree / "list.c")
    return tree


def test_prose_is_the_question_and_is_gone(tree: Path, tmp_path: Path) -> None:
    questions = strip_tree(tree, tmp_path / "copy")
    assert [(one.text, one.answers) for one in questions] == [
        (
            "Close the store and free what it holds",
            (Place(path="a/store.py", start_line=5, end_line=7),),
        ),
        (
            "Free the memory that a list holds",
            (Place(path="list.c", start_line=1, end_line=4),),
        ),
    ]
    copy = (tmp_path / "copy/a/store.py").read_text()
    assert copy == "\n\n" + (
        "class Store:\n\n"
        "    def close(self):\n        self.a = 1\n        self.b = 2\n\n"
        "    def only(self):\n        pass\n\n\n"
        "def test_it():\n    a = 1\n    return a\n"
    )
    compile(copy, "store.py", "exec")
    assert (tmp_path / "copy/list.c").read_text() == _C.split("\n", 1)[1]


def test_answers_are_the_function_s_lines(tree: Path, tmp_path: Path) -> None:
    for question in strip_tree(tree, tmp_path / "copy"):
        (answer,) = question.answers
        lines = (tmp_path / "copy" / answer.path).read_text().splitlines()
        assert lines[answer.start_line - 1].strip() in (
            "def close(self):",
            "void freeList(list *l)",
        )
        assert lines[answer.end_line - 1].strip() in ("self.b = 2", "}")


def test_other_files_are_copied_and_links_left_out(tree: Path, tmp_path: Path) -> None:
    strip_tree(tree, tmp_path / "copy")
    assert (tmp_path / "copy/notes.md").read_text() == (tree / "notes.md").read_text()
    assert "room" not in (tmp_path / "copy/tests/list.c").read_text()
    assert not (tmp_path / "copy/link.c").exists()


def test_a_sentence_of_many_functions_asks_for_nothing(tmp_path: Path) -> None:
    function = "/* Do what all of them do. */\nint f%d(int a)\n{\n    return a;\n}\n"
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/a.c").write_text("".join(function % i for i in range(5)))
    assert strip_tree(tmp_path / "tree", tmp_path / "copy") == []


def test_a_seed_fixes_the_sample(tree: Path, tmp_path: Path) -> None:
    questions = strip_tree(tree, tmp_path / "copy")
    assert sample(questions, 1, seed=3) == sample(iter(questions), 1, seed=3)
    assert len(sample(questions, 100, seed=3)) == 2
