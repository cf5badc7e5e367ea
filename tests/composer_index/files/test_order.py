from pathlib import Path

from composer_index.files.order import in_order, recently_committed
from tests.composer_index.files.trees import repository, run_git, write


def test_in_order() -> None:
    paths = [
        "z.py",
        "README.md",
        "a/data.json",
        "a/open.py",
        "a/beside.py",
        "a/beside.md",
        "b/recent.py",
        "b/beside.py",
        "data.csv",
        "c/far.py",
    ]
    order = in_order(
        paths, open_paths=["a/open.py"], recent=["b/recent.py", "gone.py", "a/open.py"]
    )
    # A file at the top has been committed and deleted, so the top's files are beside it.
    assert order == [
        "a/open.py",
        "b/recent.py",
        "a/beside.py",
        "b/beside.py",
        "z.py",
        "a/beside.md",
        "README.md",
        "a/data.json",
        "data.csv",
        "c/far.py",
    ]


def test_without_anything_known() -> None:
    assert in_order(["d.json", "b.md", "c.py", "a.py"]) == ["a.py", "c.py", "b.md", "d.json"]


def test_recently_committed(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", "old.py", "sub/old.py")
    write(root, "new.py", text="1\n")
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "Second")
    write(root, "old.py", text="2\n")
    run_git(root, "commit", "-qam", "Third")
    assert recently_committed(str(root)) == ["old.py", "new.py", "sub/old.py"]


def test_no_commit_and_no_repository(tmp_path: Path) -> None:
    assert recently_committed(str(tmp_path)) == []
    run_git(tmp_path, "init", "-q")
    assert recently_committed(str(tmp_path)) == []
