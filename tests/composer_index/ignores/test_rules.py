import os
import random
from contextlib import suppress
from pathlib import Path

import pytest

from composer_index.ignores.rules import Reason, Rules
from composer_index.ignores.secrets import SECRET_FILES, SECRET_FOLDERS, is_secret_path
from tests.composer_index.files.trees import listed, repository, run_git, without_git, write


@pytest.fixture(autouse=True)
def config(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("home") / "gitconfig"
    path.touch()
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(path.parent))
    return path


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("a.py", None),
        ("not/there/yet.py", None),
        ("a.log", "gitignore"),
        ("out/a.py", "gitignore"),
        ("out/tracked.py", None),
        (".git/config", "git"),
        ("sub/.git/HEAD", "git"),
        (".env", "secret"),
        ("deep/down/.env.local", "secret"),
        (".aws/notes.md", "secret"),
        ("sub/.aws/deep/down/notes.md", "secret"),
        ("private/a.py", "composerignore"),
        ("private/deep/down/a.py", "composerignore"),
        ("../a.py", "outside"),
        ("/etc/passwd", "outside"),
        ("a\0b", "outside"),
        ("", "outside"),
    ],
)
@pytest.mark.parametrize("has_git", [True, False])
def test_hidden(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    reason: Reason | None,
    has_git: bool,
) -> None:
    root = repository(tmp_path / "r", "a.py", "out/tracked.py")
    write(root, ".gitignore", text="*.log\nout/\n")
    write(root, ".composerignore", text="private/\n")
    write(root, "a.log", "out/a.py", ".env", "private/a.py")
    if not has_git:
        without_git(monkeypatch)
        if path == "out/tracked.py":
            reason = "gitignore"  # only git knows what is tracked
    assert Rules(root).hidden(path) == reason


@pytest.mark.skipif(os.name == "nt", reason="links and pipes")
def test_links_and_special_files(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", "a.py", "folder/b.py")
    write(root, ".gitignore", text="*.log\n")
    write(root, "x.log", ".env")
    write(tmp_path, "outside.py")
    links = {
        "ok": "a.py",
        "up": "../outside.py",
        "absolute": str(tmp_path / "outside.py"),
        "innocent": ".env",
        "ignored": "x.log",
        "git": ".git/config",
        "dead": "nowhere",
        "self": "self",
        "to-folder": "folder",
        "secret.key": "a.py",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    os.mkfifo(root / "pipe")
    assert Rules(root).hidden_many([*links, "pipe", "to-folder/b.py", "a.py"]) == {
        "up": "outside",
        "absolute": "outside",
        "innocent": "secret",
        "ignored": "gitignore",
        "git": "git",
        "dead": "link",
        "self": "link",
        "to-folder": "link",
        "secret.key": "secret",
        "to-folder/b.py": "link",
        "pipe": "special",
    }


def test_include_secret(tmp_path: Path) -> None:
    rules = Rules(tmp_path, include_secret=("config/test.key", ".env.example"))
    assert rules.hidden("config/test.key") is None
    assert rules.hidden("x/.env.example") is None
    assert rules.hidden("test.key") == "secret"
    assert rules.hidden("config/prod.key") == "secret"


def test_a_composerignore_hides_even_included_secrets(tmp_path: Path) -> None:
    write(tmp_path, ".composerignore", text=".env.example\n")
    rules = Rules(tmp_path, include_secret=(".env.example",))
    assert rules.hidden(".env.example") == "composerignore"


def test_a_submodule_and_a_nested_repository_have_their_own_rules(tmp_path: Path) -> None:
    library = repository(tmp_path / "library", "lib.py")
    root = repository(tmp_path / "r", "a.py")
    run_git(root, "submodule", "--quiet", "add", str(library), "sub")
    repository(root / "nested")
    repository(root / "hidden")
    write(root, ".gitignore", text="*.log\nhidden/\n")
    write(root / "sub", ".gitignore", text="*.tmp\n")
    rules = Rules(root)
    paths = [f"{folder}x.{end}" for folder in ("", "sub/", "nested/") for end in ("log", "tmp")]
    assert set(rules.hidden_many([*paths, "hidden/a.py"])) == {"x.log", "sub/x.tmp", "hidden/a.py"}


def test_a_root_that_its_repository_ignores(tmp_path: Path) -> None:
    home = repository(tmp_path / "home")
    write(home, ".gitignore", text="*\n")
    write(home, "project/a.py", "project/b.log")
    write(home, "project/.gitignore", text="*.log\n")
    rules = Rules(home / "project")
    assert rules.hidden("a.py") is None
    assert rules.hidden("b.log") == "gitignore"


def _change_gitignore(root: Path, config: Path) -> None:
    write(root, "sub/.gitignore", text="*.txt\n")


def _change_exclude(root: Path, config: Path) -> None:
    write(root, ".git/info/exclude", text="*.txt\n")


def _change_composerignore(root: Path, config: Path) -> None:
    write(root, ".composerignore", text="*.txt\n")


def _change_excludes_file(root: Path, config: Path) -> None:
    write(config.parent, "mine", text="*.txt\n")
    config.write_text(f"[core]\nexcludesFile = {(config.parent / 'mine').as_posix()}\n")


@pytest.mark.parametrize(
    "change", [_change_gitignore, _change_exclude, _change_composerignore, _change_excludes_file]
)
@pytest.mark.parametrize("has_git", [True, False])
def test_a_changed_ignore_file_counts_at_once(
    tmp_path: Path, config: Path, monkeypatch: pytest.MonkeyPatch, change: object, has_git: bool
) -> None:
    assert callable(change)
    root = repository(tmp_path / "r")
    write(root, "sub/a.txt")
    if not has_git and change is not _change_excludes_file:
        without_git(monkeypatch)
    rules = Rules(root)
    assert rules.hidden("sub/a.txt") is None
    assert "sub/a.txt" in listed(root)
    change(root, config)
    assert rules.hidden("sub/a.txt") is not None
    assert "sub/a.txt" not in listed(root)


def test_secrets_are_the_same_by_either_way(tmp_path: Path) -> None:
    source = random.Random(0)
    patterns = (*SECRET_FILES, *SECRET_FOLDERS)
    words = [pattern.strip("/*").replace("**/", "") for pattern in patterns]
    words += ["a", "x.pem", "my.env", ".env.x", "src", "config", "credentials.py", "b.key", ".kube"]
    rules = Rules(tmp_path)
    for _ in range(3000):
        path = "/".join(source.choices(words, k=source.randint(1, 3))).replace("/", "/", 1)
        *folders, _ = parts = path.split("/")
        ends = range(1, len(folders) + 1)
        by_rules = rules.is_secret(path) or any(
            rules.is_secret("/".join(parts[:end]), is_folder=True) for end in ends
        )
        assert by_rules == is_secret_path(rules.absolute(path)), path


def test_listing_and_single_files_agree(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", "a.py", "out/kept.py", "sub/b.py")
    write(root, ".gitignore", text="out/\n*.log\n!keep.log\n")
    write(root, "sub/.composerignore", text="c.*\n")
    write(
        root, "out/x.py", "keep.log", "x.log", "sub/c.py", "sub/d.py", ".env", "sub/credentials/x"
    )
    rules = Rules(root)
    everything = [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]
    assert listed(root) == set(everything) - set(rules.hidden_many(everything))


def _random_tree(source: random.Random, root: Path) -> list[str]:
    """Of few names, so that they meet; returns paths in it, and others."""
    names = [*"adef", "b.py", "c.log", "x.key", source.choice(["g", ".ssh", ".env"])]
    paths = ["/".join(source.choices(names, k=source.randint(1, 4))) for _ in range(40)]
    lines = ["*.log", "!c.log", "a/", "/d", "b.py", "!b.py", "a/d", "!a/"]
    for path in paths[:30]:
        place = root / path
        with suppress(OSError):  # a file where a folder is to be, or the other way round
            place.parent.mkdir(parents=True, exist_ok=True)
            match source.randrange(8):
                case 0:
                    place.symlink_to(source.choice([*names, "../a", "a/b.py", str(root.parent)]))
                case 1:
                    run_git(place.parent, "init", "-q")
                case 2 | 3:
                    name = source.choice([".gitignore", ".composerignore"])
                    write(place.parent, name, text="\n".join(source.choices(lines, k=2)))
                case _:
                    place.touch()
    return [
        *paths,
        *(f"{path}/{source.choice(names)}" for path in paths[::4]),
        "../a",
        "a//d",
        ".git/x",
    ]


@pytest.mark.skipif(os.name == "nt", reason="links")
@pytest.mark.parametrize("seed", range(6))
def test_many_paths_and_each_by_itself_get_the_same_answer(tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    root = tmp_path / source.choice(["r", "r", "r", ".ssh/r"]) / "root"
    root.mkdir(parents=True)
    if source.random() < 0.6:
        repository(root)
    paths = _random_tree(source, root)
    rules = Rules(root, include_secret=source.choice([(), ("a/", "*.key")]))

    alone = {path: reason for path in paths if (reason := rules.hidden(path)) is not None}
    assert rules.hidden_many(paths) == alone
    assert rules.hidden_many(reversed(paths)) == alone


def test_no_call_relies_on_an_earlier_one(tmp_path: Path) -> None:
    write(tmp_path, "a/b/c.py", "a/b/d.py")
    rules = Rules(tmp_path)
    assert rules.hidden_many(["a/b/c.py", "a/b/d.py"]) == {}
    write(tmp_path, "a/.composerignore", text="c.py\n")
    assert rules.hidden_many(["a/b/c.py", "a/b/d.py"]) == {"a/b/c.py": "composerignore"}
    (tmp_path / "a").rename(tmp_path / "e")
    (tmp_path / "a").symlink_to("e")
    assert rules.hidden_many(["a/b/d.py", "e/b/c.py"]) == {
        "a/b/d.py": "link",
        "e/b/c.py": "composerignore",
    }
