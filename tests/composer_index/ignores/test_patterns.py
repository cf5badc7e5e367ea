"""The pattern language: a table, and git itself as the judge of random trees."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from composer_index.ignores import ComposerIgnore, PatternError, hides, parse_pattern

LIMIT_S = 60


def is_hidden(patterns: str, path: str) -> bool:
    parsed = map(parse_pattern, patterns.split("|"))
    return hides([pattern for pattern in parsed if pattern is not None], path)


@pytest.mark.parametrize(
    ("patterns", "path", "hidden"),
    [
        ("*.py", "a/b.py", True),
        ("*.py", "a/b.pyc", False),
        ("vendor/", "x/vendor/y/a.py", True),
        ("vendor/", "x/vendor", False),
        ("/build", "build/a.py", True),
        ("/build", "src/build/a.py", False),
        ("src/gen", "x/src/gen", False),
        ("src/*.py", "src/a/b.py", False),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a/**/b", "xa/b", False),
        ("**/b", "x/b/c", True),
        ("a/**", "a/b", True),
        ("a/**", "a", False),
        ("a/**|!a/keep", "a/keep", False),
        ("a/|!a/keep", "a/keep", True),
        ("*|!*.py", "a.py", False),
        ("a**b", "axxb", True),
        ("a?c", "a/c", False),
        ("a?c", "aéc", True),
        ("[a-c]x", "bx", True),
        ("[!a-c]x", "bx", False),
        ("[^a-c]x", "dx", True),
        ("[]a]", "]", True),
        ("[a-]", "-", True),
        ("[[:digit:]_]x", "5x", True),
        ("[a/b]x", "ax", True),
        ("a[/]b", "a/b", False),
        (r"\[a]", "[a]", True),
        (r"\!a", "!a", True),
        (r"\#a", "#a", True),
        (r"a\ ", "a ", True),
        ("a  ", "a", True),
        ("#a", "#a", False),
        ("", "a", False),
        ("*", "new\nline", True),
    ],
)
def test_language(patterns: str, path: str, hidden: bool) -> None:
    assert is_hidden(patterns, path) is hidden


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("[a", '"[a" has a "[" without its "]"'),
        ("src/[!a", '"src/[!a" has a "["'),
        ("a\\", "ends with a backslash"),
        ("!", "names nothing"),
        ("/", "names nothing"),
        ("[z-a]", "range z-a"),
        ("[[:words:]]", "[:words:]"),
    ],
)
def test_line_that_is_no_pattern_is_told(line: str, says: str) -> None:
    with pytest.raises(PatternError) as caught:
        parse_pattern(line)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("line", "path"), [("*a" * 60 + "b", "a" * 4000), ("**/a/" * 60 + "b", "a/" * 1500 + "c")]
)
def test_no_pattern_takes_long(line: str, path: str) -> None:
    """In a process of its own: a regular expression that hangs cannot be interrupted."""
    code = (
        "import sys; from composer_index.ignores import parse_pattern;"
        "print(parse_pattern(sys.argv[1]).matches(sys.argv[2], is_folder=False))"
    )
    command = [sys.executable, "-c", code, line, path]
    assert subprocess.check_output(command, text=True, timeout=LIMIT_S) == "False\n"


FOLDERS = ["a", "b", "foo", "x", "[a]", "d d"]
FILES = ["a", "b", "ab", "foo", "foo.py", "b.py", "[a]", "a b", "x-y", ".env", "a*", "!n", "#h"]
GLOBS = [
    *("a", "b", "*", "**", "?", "foo", "*.py", "a*", "*b", "[ab]", "[!a]*", "[a-c]", "\\[a\\]"),
    *("x", "d d", "f*o", "*o*", "\\!n", "\\#h", "a\\*", "[[:alpha:]]", "[]a]*", "**b", "***"),
    *(".*", "[^.]*"),
]
"""Not `a**/b`: git treats that as `**/` behind a literal beginning, against its own manual."""


@pytest.mark.parametrize("seed", range(20))
def test_git_agrees(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    files = random_tree(tmp_path, rng)
    command = ["git", "ls-files", "-z", "-o", "-i", "--exclude-per-directory=.composerignore"]
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(["git", "init", "-q", tmp_path], env=env, check=True)
    listed = subprocess.check_output(command, cwd=tmp_path, env=env, text=True).split("\0")
    by_git = {tmp_path / name for name in listed if name} & files
    ignores = ComposerIgnore()
    assert {file for file in files if ignores.hidden_by(str(file))} == by_git


def random_tree(root: Path, rng: random.Random) -> set[Path]:
    """The files of a random tree with random `.composerignore` files in it."""
    folders = [root]
    for _ in range(rng.randint(1, 7)):
        folder = rng.choice(folders) / rng.choice(FOLDERS)
        folder.mkdir(exist_ok=True)
        folders.append(folder)
    places = [rng.choice(folders) / rng.choice(FILES) for _ in range(15)]
    files = {place for place in places if not place.is_dir()}
    for file in files:
        file.touch()
    for folder in set(rng.choices(folders, k=rng.randint(1, 3))):
        lines = [random_pattern(rng) for _ in range(rng.randint(1, 4))]
        (folder / ".composerignore").write_bytes("\n".join(lines).encode())
    return files


def random_pattern(rng: random.Random) -> str:
    globs = [rng.choice(GLOBS) for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 4]))]
    before = rng.choice(["", "", "", "!"]) + rng.choice(["", "", "/"])
    return before + "/".join(globs) + rng.choice(["", "", "/", " ", "\r"])
