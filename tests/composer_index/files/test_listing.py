import os
import socket
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from composer_index.files.listing import File, Listing, list_files
from composer_index.ignores import git
from composer_index.ignores.rules import Rules
from tests.composer_index.files.trees import listed, repository, run_git, without_git, write

posix_only = pytest.mark.skipif(os.name == "nt", reason="links, pipes, sockets, modes")


@pytest.fixture(params=["git", "no git"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A work tree, or a folder in none."""
    if request.param == "git":
        return repository(tmp_path / "r")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    (tmp_path / "r").mkdir()
    return tmp_path / "r"


def test_what_is_to_be_indexed(root: Path) -> None:
    write(root, ".gitignore", text="*.log\nnode_modules/\n")
    write(root, ".composerignore", text="private/\n*.gen.py\n")
    write(root, "a.py", "sub/b.py", "x.log", "node_modules/m/i.js", "private/p.py", "sub/c.gen.py")
    write(root, ".env", "sub/id_rsa", ".aws/config", "kept.pem")
    listing = Listing()
    found = listed(root, listing, include_secret=("kept.pem",))
    assert found == {".gitignore", ".composerignore", "a.py", "sub/b.py", "kept.pem"}
    assert listing.skipped["secret"] == 3
    assert listing.skipped["composerignore"] == 2
    assert not listing.notices


def test_a_file_says_what_tells_a_change(root: Path) -> None:
    write(root, "a.py", text="12345")
    os.utime(root / "a.py", ns=(10**18, 10**18))
    (file,) = list_files(Rules(root))
    assert file == File("a.py", 5, (root / "a.py").stat().st_ctime_ns)


@posix_only
def test_adversarial_tree(root: Path, tmp_path: Path) -> None:
    write(tmp_path, "outside/secret.py")
    write(root, "a.py", "folder/b.py", ".env")
    links = {
        "good": "a.py",
        "folder/good": "../a.py",
        "bad": "../outside/secret.py",
        "env": ".env",
        "loop": "loop",
        "ping": "pong",
        "pong": "ping",
        "up": "..",
        "here": ".",
        "folder/again": "../folder",
        "etc": "/etc/passwd",
        "dead": "nowhere",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(root)  # a socket's path is short
        try:
            server.bind("socket")
        finally:
            os.chdir(here)
    odd = {"line\nbreak.py", "tab\there.py", "-rf", "\udcff\udcfe.py", "é.py", "e\u0301.py"}
    write(root, *(name for name in odd if "\udcff" not in name))
    Path(os.fsdecode(os.fsencode(root) + b"/\xff\xfe.py")).touch()
    deep = "/".join(["d"] * 200) + "/x.py"
    write(root, deep)
    listing = Listing()
    assert listed(root, listing) == {"a.py", "folder/b.py", "good", "folder/good", deep, *odd}
    # Git tells of neither pipes nor sockets.
    is_repository = (root / ".git").exists()
    assert listing.skipped["special"] == (0 if is_repository else 2)
    assert listing.skipped["outside"] == 3  # bad, up, etc
    assert listing.skipped["secret"] == 2  # .env, env
    assert listing.skipped["link"] == 6


@posix_only
def test_a_tracked_file_whose_place_a_link_or_a_pipe_took(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", "folder/a.py", "b.py", "c.py")
    write(tmp_path, "outside/a.py", "outside/b.py")
    (root / "folder" / "a.py").unlink()
    (root / "folder").rmdir()
    (root / "folder").symlink_to(tmp_path / "outside")
    (root / "b.py").unlink()
    os.mkfifo(root / "b.py")
    listing = Listing()
    assert listed(root, listing) == {"c.py"}
    assert listing.skipped["special"] == 1
    assert listing.skipped["link"] >= 1


@contextmanager
def _as_nobody() -> Generator[None]:
    """Root may read everything."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


@posix_only
@pytest.mark.parametrize("has_git", [True, False])
def test_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_git: bool) -> None:
    root = tmp_path / "r"
    write(root, "a.py", "b.py", "folder/c.py")
    if has_git:
        run_git(root, "init", "-q")
        (tmp_path / "gitconfig").write_text("[safe]\ndirectory = *\n")
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    for place in [root, *root.parents]:
        if place.stat().st_uid == os.geteuid() and place != Path("/"):
            place.chmod(place.stat().st_mode | 0o755)
    (root / "b.py").chmod(0)
    (root / "folder").chmod(0)
    listing = Listing()
    try:
        with _as_nobody():
            assert listed(root, listing) == {"a.py"}
    finally:
        (root / "folder").chmod(0o755)
    assert listing.skipped["unreadable"] == 2


def test_submodules_nested_repositories_and_work_trees(tmp_path: Path) -> None:
    library = repository(tmp_path / "library", "lib.py", "deep/er.py")
    root = repository(tmp_path / "r", "a.py")
    run_git(root, "submodule", "--quiet", "add", str(library), "sub")
    run_git(root, "commit", "-qm", "Submodule")
    repository(root / "nested", "n.py")
    repository(root / "ignored", "i.py")
    write(root, ".gitignore", text="*.log\n/ignored/\n")
    write(root, "sub/x.log", "nested/x.log", "x.log")
    inside = {"a.py", "sub/lib.py", "sub/deep/er.py"}
    others = {".gitmodules", ".gitignore", "nested/n.py", "sub/x.log", "nested/x.log"}
    assert listed(root) == inside | others
    run_git(root, "worktree", "add", "-q", str(tmp_path / "w"))
    assert listed(tmp_path / "w") == {"a.py", ".gitmodules"}  # its submodule is not checked out
    assert listed(root / "sub") == {"lib.py", "deep/er.py", "x.log"}


def test_several_repositories_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    root = tmp_path / "projects"
    for name in ("one", "deep/two"):
        repository(root / name, "a.py", "kept.log")
        write(root / name, ".gitignore", text="*.log\n")
        write(root / name, "b.log")
    write(root, "notes.md", "notes.tmp")
    write(root, ".gitignore", text="*.tmp\n")
    files = {f"{name}/{file}" for name in ("one", "deep/two") for file in ("a.py", "kept.log")}
    assert listed(root) == files | {
        "one/.gitignore",
        "deep/two/.gitignore",
        "notes.md",
        ".gitignore",
    }


def test_a_subfolder_and_a_sparse_checkout(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", "a.py", "sub/b.py", "other/c.py")
    write(root, ".gitignore", text="/sub/x.py\n")
    write(root, "sub/x.py", "sub/y.py")
    assert listed(root / "sub") == {"b.py", "y.py"}
    run_git(root, "sparse-checkout", "set", "sub")
    assert "other/c.py" not in listed(root)
    (root / "sub" / "b.py").unlink()
    assert "sub/b.py" not in listed(root)


def test_without_git_a_repository_is_read_by_its_ignore_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path / "r", "a.py")
    write(root, ".git/info/exclude", text="*.log\n")
    write(root, "b.log", "c.py")
    without_git(monkeypatch)
    listing = Listing()
    assert listed(root, listing) == {"a.py", "c.py"}
    assert "git is not installed" in listing.notices[0]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="gives a folder to another user")
def test_a_repository_of_somebody_else(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", "a.py")
    write(root, ".gitignore", text="*.log\n")
    write(root, "b.log")
    for place in (root, root / ".git"):
        os.chown(place, 12345, 12345)
    listing = Listing()
    assert listed(root, listing) == {"a.py", ".gitignore"}
    assert "safe.directory" in listing.notices[0]


@posix_only
def test_git_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = repository(tmp_path / "r", "a.py")
    os.mkfifo(root / ".gitignore")  # git waits for a writer
    monkeypatch.setattr(git, "TIMEOUT_S", 0.5)
    listing = Listing()
    assert listed(root, listing) == {"a.py"}
    assert "took over 0.5 s" in listing.notices[0]


def test_a_root_in_a_folder_of_secrets(tmp_path: Path) -> None:
    write(tmp_path, ".ssh/notes/a.py")
    assert listed(tmp_path / ".ssh" / "notes") == set()


def test_no_root(tmp_path: Path) -> None:
    assert listed(tmp_path / "gone") == set()
