"""Held to git itself."""

import os
import random
import time
from pathlib import Path

import pytest

from composer_index.ignores import git, layered
from tests.composer_index.files.trees import run_git, write


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    (folder / "gitconfig").touch()
    (folder / "git").mkdir()
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(folder / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    return folder


def walked(root: Path) -> set[str]:
    def fail(path: str, error: OSError) -> None:
        raise error

    folder = layered.opened(str(root), str(root))
    found = layered.walk(folder, on_error=fail)
    return {path for path, entry in found if not entry.is_dir(follow_symlinks=False)}


def assert_as_git(root: Path) -> None:
    run_git(root.parent, "init", "-q", str(root))
    expected = set(git.list_files(str(root)))
    rules = {str(path): path.read_bytes() for path in root.rglob(".gitignore") if path.is_file()}
    assert walked(root) == expected, rules
    folder = layered.opened(str(root), str(root))
    everything = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }
    everything = {path for path in everything if not path.startswith(".git/")}
    assert {path for path in everything if not layered.hidden_by(folder, path)} == expected, rules
    hidden = layered.hidden_among(folder, everything)
    assert sorted(hidden) == sorted(set(everything) - expected), rules


_NAMES = ["a", "b", "ab", "abc", "a.b", "b.c", "foo", "bar", "x y", "#c", "!d", "A", "é", "[g]"]
_POSIX_NAMES = ["a*", "e\\f"]
_TEXT = (
    "a b c ab foo bar b.c . é * * ** ? / / / [ab] [!a] [a-c] [^b] [[:alpha:]] []a] [a-] **/ /** /**/"
    " \\* x\\_y x_y \\ [c-a] [b-ac] [ [a/b] *** [[:foo:]] [é]"
)
_PIECES = [piece.replace("_", " ") for piece in _TEXT.split()]


def _pattern(source: random.Random) -> str:
    text = "".join(source.choices(_PIECES, k=source.randint(1, source.choice([2, 3, 6]))))
    for chance, changed in (
        (0.2, "!" + text),
        (0.15, text + "/"),
        (0.1, "/" + text),
        (0.05, text + "  "),
        (0.03, "#" + text),
        (0.03, "\\" + text),
        (0.03, text + "\t"),
    ):
        if source.random() < chance:
            text = changed
    return text


def _plant(source: random.Random, folder: Path, depth: int = 0) -> None:
    folder.mkdir()
    if source.random() < (0.9 if depth == 0 else 0.35):
        ending = source.choice(["\n", "\r\n"])
        lines = [_pattern(source) for _ in range(source.randint(1, 4))]
        bom = "\ufeff" if source.random() < 0.1 else ""
        text = bom + ending.join(lines) + source.choice([ending, ""])
        (folder / ".gitignore").write_bytes(text.encode())
    names = _NAMES + _POSIX_NAMES if os.name == "posix" else _NAMES
    for name in source.sample(names, source.randint(2, 5)):
        if depth < 3 and source.random() < 0.5:
            _plant(source, folder / name, depth + 1)
        else:
            (folder / name).write_text("x")


@pytest.mark.parametrize("seed", range(40))
def test_random_patterns_and_trees(tmp_path: Path, home: Path, seed: int) -> None:
    source = random.Random(seed)
    root = tmp_path / "r"
    _plant(source, root)
    (home / "git" / "ignore").write_text(_pattern(source) + "\n", encoding="utf-8")
    write(root, ".git/info/exclude", text=_pattern(source) + "\n")
    assert_as_git(root)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1000, 3000, 100))
def test_many_random_patterns_and_trees(tmp_path: Path, home: Path, first: int) -> None:
    for seed in range(first, first + 100):
        folder = tmp_path / str(seed)
        folder.mkdir()
        test_random_patterns_and_trees(folder, home, seed)


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param("foo**/bar", id="stars after a name"),
        pytest.param("/foo**/bar", id="rooted"),
        pytest.param("foo**/**", id="stars after a name, twice"),
        pytest.param("foo**/x/**", id="stars after a name, and at the end"),
        pytest.param("foo**/x/", id="stars after a name, folders only"),
        pytest.param("!foo**/bar", id="negated"),
        pytest.param("foo**/", id="stars at the end"),
        pytest.param("**\\/bar", id="stars before an escaped slash"),
        pytest.param("/**\\/", id="stars and a backslash at the end"),
        pytest.param("[z-a]", id="backward range"),
        pytest.param("[!z-a]oo", id="negated backward range"),
        pytest.param("foo\\", id="backslash at the end"),
        pytest.param("f?o", id="question mark"),
        pytest.param("?", id="one byte, not one character"),
        pytest.param("foo/*\n!foo/bar", id="file brought back"),
        pytest.param("foo\n!foo/bar", id="not brought back from a hidden folder"),
        pytest.param("*\n!*/\n!*.py", id="by extension only"),
        pytest.param("*.py\n!foo/", id="a folder brought back is not its files"),
        pytest.param("foo\0bar", id="zero byte ends the line"),
    ],
)
def test_as_git(tmp_path: Path, pattern: str) -> None:
    root = tmp_path / "r"
    write(root, "foo/bar", "foo/x/bar", "foox/bar", "foobar", "z", "é", "foo/a.py", "b.py", "x/f.o")
    write(root, ".gitignore", text=pattern + "\n")
    assert_as_git(root)


@pytest.mark.skipif(os.name == "nt", reason="links")
def test_links_are_files_and_ignore_files_no_links(tmp_path: Path) -> None:
    root = tmp_path / "r"
    write(root, "folder/a", "rules")
    write(root, ".gitignore", text="link/\n")
    (root / "link").symlink_to("folder")
    (root / "loop").symlink_to(".")
    write(tmp_path, "elsewhere", text="a\n")
    (root / "folder" / ".gitignore").symlink_to(tmp_path / "elsewhere")
    assert_as_git(root)


@pytest.mark.skipif(os.name == "nt", reason="named pipes")
def test_a_pipe_by_the_name_of_an_ignore_file_is_not_waited_for(tmp_path: Path) -> None:
    write(tmp_path, "a.py")
    os.mkfifo(tmp_path / ".gitignore")
    assert "a.py" in walked(tmp_path)


def test_a_subfolder_of_a_repository(tmp_path: Path) -> None:
    write(tmp_path, ".gitignore", text="/sub/a\n*.log\n")
    write(tmp_path, "sub/a", "sub/b", "sub/c.log", ".git/HEAD", "sub/x/d")
    folder = layered.opened(str(tmp_path / "sub"), layered.toplevel(str(tmp_path / "sub")))
    found = layered.walk(folder, on_error=lambda path, error: None)
    assert {path for path, entry in found if entry.is_file()} == {"b", "x/d"}


def test_a_nested_repository_is_not_entered(tmp_path: Path) -> None:
    write(tmp_path, "a", "nested/.git/HEAD", "nested/b")
    assert walked(tmp_path) == {"a"}


def test_deep_trees(tmp_path: Path) -> None:
    folder, depth = tmp_path, 400
    for _ in range(depth):
        folder = folder / "d"
        folder.mkdir()
    (folder / "a").write_text("x")
    assert walked(tmp_path) == {"d/" * depth + "a"}


def test_patterns_made_to_be_slow(tmp_path: Path) -> None:
    write(tmp_path, ".gitignore", text="*a" * 40 + "b\n" + "**/a/" * 20 + "b\n")
    write(tmp_path, "a" * 200, "a/" * 40 + "c")
    start = time.monotonic()
    assert "a" * 200 in walked(tmp_path)
    assert time.monotonic() - start < 30, "backtracking without a bound"
