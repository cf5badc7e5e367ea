import os
import tracemalloc
from pathlib import Path

import pytest

from composer_index.files.listing import File, list_files
from composer_index.files.reconcile import TICK_NS, UNSETTLED, reconcile, settled
from composer_index.ignores.rules import Rules
from tests.composer_index.files.trees import repository, run_git, write

_LONG_AGO = 10 * TICK_NS


def _known(root: Path) -> list[tuple[str, int, int]]:
    return [(file.path, file.size, file.changed_ns) for file in list_files(Rules(root))]


def _changed(known: list[tuple[str, int, int]], root: Path) -> tuple[set[str], set[str]]:
    difference = reconcile(iter(known), list_files(Rules(root)))
    return {file.path for file in difference.changed}, set(difference.gone)


def test_new_changed_and_gone() -> None:
    known = [("same", 1, 1), ("longer", 1, 1), ("later", 1, 1), ("earlier", 1, 2), ("gone", 1, 1)]
    files = [
        File("same", 1, 1),
        File("longer", 2, 1),
        File("later", 1, 2),
        File("earlier", 1, 1),
        File("new", 1, 1),
    ]
    difference = reconcile(known, files)
    assert [file.path for file in difference.changed] == ["longer", "later", "earlier", "new"]
    assert difference.gone == ("gone",)


def test_a_file_read_in_the_tick_of_its_change_is_looked_at_again() -> None:
    read_at_ns = 100 * TICK_NS
    assert settled(_LONG_AGO, read_at_ns) == _LONG_AGO
    racy = settled(read_at_ns - TICK_NS // 2, read_at_ns)
    assert racy == UNSETTLED
    written_again = File("a", 1, read_at_ns - TICK_NS // 2)
    assert reconcile([("a", 1, racy)], [written_again]).changed == (written_again,)
    assert settled(read_at_ns + _LONG_AGO, read_at_ns) == UNSETTLED, "a file from the future"


def test_same_size_and_time_set_back(tmp_path: Path) -> None:
    write(tmp_path, "a.py", text="one")
    os.utime(tmp_path / "a.py", ns=(_LONG_AGO, _LONG_AGO))
    known = _known(tmp_path)
    before = (tmp_path / "a.py").stat()
    while (tmp_path / "a.py").stat().st_ctime_ns == before.st_ctime_ns:
        write(tmp_path, "a.py", text="two")
        os.utime(tmp_path / "a.py", ns=(_LONG_AGO, _LONG_AGO))
    after = (tmp_path / "a.py").stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert _changed(known, tmp_path) == ({"a.py"}, set())


def test_a_hidden_file_is_gone(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    write(root, "a.py", "b/c.py", "b/d.py")
    known = _known(root)
    write(root, ".gitignore", text="b/c.py\n")
    write(root, "b/.composerignore", text="d.py\n")
    changed, gone = _changed(known, root)
    assert changed == {".gitignore", "b/.composerignore"}
    assert gone == {"b/c.py", "b/d.py"}


@pytest.mark.parametrize("num_files", [500, pytest.param(10_000, marks=pytest.mark.soak)])
def test_exact_after_a_checkout(tmp_path: Path, num_files: int) -> None:
    root = repository(tmp_path / "r")
    for branch in ("one", "two"):
        run_git(root, "checkout", "-q", "--orphan", branch)
        for number in range(num_files):
            name = f"d{number % 50}/f{number}.py"
            if number % 10 != (3 if branch == "one" else 7):  # each lacks a tenth
                same = number % 3 == 0
                write(root, name, text="same\n" if same else f"{branch}\n")
            else:
                (root / name).unlink(missing_ok=True)
        run_git(root, "add", "-A")
        run_git(root, "commit", "-qm", branch)
    known = _known(root)
    contents = {path: (root / path).read_text() for path, _, _ in known}
    run_git(root, "checkout", "-q", "one")
    changed, gone = _changed(known, root)
    now = {file.path: (root / file.path).read_text() for file in list_files(Rules(root))}
    assert gone == contents.keys() - now.keys()
    truly = {path for path, text in now.items() if contents.get(path) != text}
    assert changed >= truly
    assert not {path for path in changed - truly if now[path] == "same\n"}, "git left these alone"
    assert len(truly) > num_files // 2
    assert len(gone) == num_files // 10


def test_memory_is_of_the_known_files(tmp_path: Path) -> None:
    def known(number: int) -> tuple[str, int, int]:
        return f"some/folder/of/the/tree/file{number}.py", number, number

    num_files = 20_000
    tracemalloc.start()
    reconcile(map(known, range(num_files)), (File(*known(n)) for n in range(num_files)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 500 * num_files
