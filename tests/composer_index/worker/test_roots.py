"""Folders that come, go, lie in each other, are links, or hold far too much."""

import os
from pathlib import Path

import pytest

from tests.composer_index.files.trees import repository, write
from tests.support.workers import Worker

FIRST = "def total_price():\n    pass\n"
SECOND = "def sell_umbrella():\n    pass\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path / "shop", "shop.py", "till/till.py", text=FIRST)
    return tmp_path / "shop"


def test_a_root_that_is_gone_for_a_while(root: Path, tmp_path: Path):
    other = tmp_path / "other"
    other.mkdir()
    with Worker(tmp_path / "cache") as worker:
        worker.open(root)
        worker.open(other)
        worker.until_current(root)
        root.rename(tmp_path / "elsewhere")
        worker.until(lambda: any("is gone" in text for text in worker.messages), "a word of it")
        worker.tell("reconcile")
        worker.tell("changed", paths=[str(root / "shop.py")])
        worker.until_current(other)  # One thread changes all indices, in turn.
        assert worker.knows("total_price")
        assert worker.status(root)["num_files"] == 2
        (tmp_path / "elsewhere" / "shop.py").write_text(SECOND)
        (tmp_path / "elsewhere").rename(root)
        worker.until(lambda: worker.knows("sell_umbrella"), "what changed meanwhile")
        worker.until_current(root)
        (root / "till" / "till.py").unlink()
        worker.until(lambda: not worker.knows("total_price"), "a change after that")
        assert len([text for text in worker.messages if "gone" in text]) == 1
        assert not any("git" in text for text in worker.messages)


def test_a_root_that_is_not_there_yet(root: Path, tmp_path: Path):
    with Worker(tmp_path / "cache") as worker:
        worker.open(tmp_path / "later")
        worker.until(lambda: any("is gone" in text for text in worker.messages), "a word of it")
        root.rename(tmp_path / "later")
        worker.until(lambda: worker.knows("total_price"), "the folder")


def test_a_file_takes_the_place_of_the_root(root: Path, tmp_path: Path):
    with Worker(tmp_path / "cache") as worker:
        worker.open(root)
        worker.until_current(root)
        root.rename(tmp_path / "elsewhere")
        root.write_text(SECOND)
        worker.until(lambda: any("is gone" in text for text in worker.messages), "a word of it")
        worker.tell("reconcile")
        assert worker.knows("total_price")


@pytest.mark.skipif(os.name == "nt", reason="links")
def test_what_two_roots_share_is_found_once(root: Path, tmp_path: Path):
    """A folder within another one, and one folder by two names."""
    (tmp_path / "link").symlink_to(root)
    roots = [root, root / "till", tmp_path / "link"]
    with Worker(tmp_path / "cache", is_hurried=True) as worker:
        for each in roots:
            worker.open(each)
        places = [root / "shop.py", root / "till" / "till.py"]
        worker.until(lambda: len(worker.ask("definitions", name="total_price")) == 2, "both files")
        worker.until(lambda: all(worker.knows("total_price", each) for each in roots), "all roots")
        found = worker.search("total price")
        assert sorted(Path(each["root"], each["path"]).resolve() for each in found) == places
        assert len(worker.ask("symbols", query="total_price", limit=9)) == 2
        assert len(worker.ask("references", name="total_price", limit=9)) == 2
        assert [each["path"] for each in worker.search("total price", root / "till")] == ["till.py"]
        assert len(worker.search("total price", tmp_path / "link")) == 2
        (root / "till" / "till.py").write_text(SECOND)
        worker.until(
            lambda: all(worker.knows("sell_umbrella", each) for each in roots), "all to notice"
        )
        assert len(worker.ask("definitions", name="sell_umbrella")) == 1


@pytest.mark.skipif(os.name == "nt", reason="modes")
def test_a_root_that_cannot_be_written(root: Path, tmp_path: Path):
    folders = [root, root / "till"]
    for folder in folders:
        folder.chmod(0o555)
    try:
        with Worker(tmp_path / "cache") as worker:
            worker.open(root)
            worker.until(lambda: worker.knows("total_price"), "the index")
            assert worker.messages == []
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert sorted(path.name for path in root.iterdir()) == ["shop.py", "till"]


def test_a_whole_home_is_not_indexed_and_that_is_told(root: Path, tmp_path: Path):
    other = tmp_path / "other"
    write(other, "shop.py", text=SECOND)
    with Worker(tmp_path / "cache", environment=home(root / "till")) as worker:
        for wide in (root / "till", root, Path("/")):
            worker.open(wide)
            assert worker.ask("status") == []
            assert worker.messages[-1].startswith(f"{wide} is not indexed")
            assert "open the folder of a project" in worker.messages[-1]
        assert worker.search("total price") == []
        worker.open(other)
        worker.until(lambda: worker.knows("sell_umbrella"), "a folder beside it")


def test_a_home_that_is_a_work_tree_is_indexed(tmp_path: Path):
    root = repository(tmp_path / "dotfiles")
    write(root, "shop.py", text=FIRST)
    with Worker(tmp_path / "cache", environment=home(root)) as worker:
        worker.open(root)
        worker.until(lambda: worker.knows("total_price"), "the index")


def home(folder: Path) -> dict[str, str]:
    return {"HOME": str(folder), "USERPROFILE": str(folder)}
