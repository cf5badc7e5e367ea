import os
import stat
from pathlib import Path

import pytest

from composer_index.evaluate.commits import commit_questions
from composer_index.ignores import git
from composer_index.search.history import History
from tests.composer_index.files.trees import repository, run_git, write


@pytest.fixture(autouse=True)
def plain_git(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = tmp_path_factory.mktemp("home") / "gitconfig"
    config.touch()
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config.parent))
    return config


def test_tracked_files_stay_though_ignored(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", "kept.log")
    write(root, ".gitignore", text="*.log\nout/\n")
    write(root, "new.py", "new.log", "out/a.py")
    assert set(git.list_files(str(root))) == {"kept.log", "new.py", ".gitignore"}
    assert git.ignored(str(root), ["kept.log", "new.log", "new.py", "out/a.py"]) == {
        "new.log": ".gitignore",
        "out/a.py": ".gitignore",
    }
    assert set(git.list_ignored(str(root))) == {"new.log", "out/"}


def test_negated_patterns_do_not_count_as_ignored(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    write(root, ".gitignore", text="*.log\n!kept.log\n")
    assert list(git.ignored(str(root), ["kept.log", "gone.log"])) == ["gone.log"]


def test_odd_names(tmp_path: Path) -> None:
    root = repository(tmp_path / "r")
    names = {"a\nb.py", '"q".py', " leading", "*.py", ":(top)x", "é.py"}
    write(root, *names)
    if os.name == "posix":
        Path(os.fsdecode(os.fsencode(root) + b"/\xff\xfe.py")).touch()
        names.add("\udcff\udcfe.py")
    assert set(git.list_files(str(root))) == names
    write(root, ".gitignore", text="*.py\n")
    assert set(git.ignored(str(root), names)) == {name for name in names if name.endswith(".py")}


def test_a_path_in_conflict_comes_once(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", "a")
    run_git(root, "checkout", "-q", "-b", "other")
    write(root, "a", text="theirs\n")
    run_git(root, "commit", "-qam", "Theirs")
    run_git(root, "checkout", "-q", "-")
    write(root, "a", text="ours\n")
    run_git(root, "commit", "-qam", "Ours")
    with pytest.raises(Exception, match="merge"):
        run_git(root, "merge", "other")
    assert list(git.list_files(str(root))) == ["a"]


def test_a_subfolder_counts_from_itself(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", "a.py", "sub/b.py")
    assert list(git.list_files(str(root / "sub"))) == ["b.py"]


@pytest.mark.parametrize("name", ["GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_PREFIX"])
def test_variables_of_another_repository_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    root = repository(tmp_path / "r", "a.py")
    monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    assert list(git.list_files(str(root))) == ["a.py"]


def test_linked_work_tree(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", "a.py")
    run_git(root, "worktree", "add", "-q", str(tmp_path / "w"))
    found = git.find_repository(str(tmp_path / "w"))
    assert found.toplevel == str(tmp_path / "w")
    assert found.git_dir == str(root / ".git/worktrees/w")
    assert found.common_dir == str(root / ".git")


def test_no_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(git.NoRepositoryError):
        list(git.list_files(str(tmp_path)))
    root = repository(tmp_path / "r")
    with pytest.raises(git.NoRepositoryError):
        list(git.list_files(str(root / ".git")))


def test_no_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(git.NoGitError):
        list(git.list_files(str(tmp_path)))


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="gives a folder to another user")
def test_a_repository_of_somebody_else(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", "a.py")
    for place in (root, root / ".git"):
        os.chown(place, 12345, 12345)
    with pytest.raises(git.UnsafeRepositoryError, match=r"safe\.directory"):
        list(git.list_files(str(root)))


@pytest.fixture
def bait(tmp_path: Path) -> Path:
    """A program that leaves a trace when it runs."""
    program = tmp_path / "bait.sh"
    program.write_text(f"#!/bin/sh\ntouch '{tmp_path / 'ran'}'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


@pytest.mark.skipif(os.name == "nt", reason="a shell script")
def test_a_repository_runs_no_program(tmp_path: Path, bait: Path) -> None:
    root = repository(tmp_path / "r", "a.py")
    for name in ("core.fsmonitor", "gpg.program", "core.pager", "diff.external", "core.sshCommand"):
        run_git(root, "config", name, str(bait))
    run_git(root, "config", "log.showSignature", "true")
    sign(root)
    for name in ("filter.e.clean", "filter.e.smudge", "filter.e.process", "diff.e.textconv"):
        run_git(root, "config", name, str(bait))
    write(root, ".git/info/attributes", text="*.py filter=e diff=e\n")
    write(root, "a.py", text="changed\n")
    assert list(git.list_files(str(root))) == ["a.py"]
    assert list(git.recent_paths(str(root), num_commits=5)) == ["a.py"]
    git.ignored(str(root), ["a.py"])
    assert list(git.list_ignored(str(root))) == []
    History(str(root)).wait()
    commit_questions(root, 5, seed=0)
    assert not (tmp_path / "ran").exists()
    for tempted in (("ls-files", "--others"), ("-c", "core.fsmonitor=false", "log")):
        run_git(root, *tempted)
        assert (tmp_path / "ran").exists(), "the bait does not tempt git, so this shows nothing"
        (tmp_path / "ran").unlink()


def sign(root: Path) -> None:
    """The latest commit, with what is no signature."""
    text = run_git(root, "cat-file", "commit", "HEAD")
    lines = ("gpgsig -----BEGIN PGP SIGNATURE-----", "x", "-----END PGP SIGNATURE-----")
    write(root, ".git/signed", text=text.replace("\n\n", "\n" + "\n ".join(lines) + "\n\n", 1))
    signed = run_git(root, "hash-object", "-t", "commit", "-w", ".git/signed").strip()
    run_git(root, "update-ref", "HEAD", signed)


def test_a_folder_that_poses_as_a_bare_repository(tmp_path: Path) -> None:
    run_git(tmp_path, "init", "-q", "--bare", "r")
    with pytest.raises(git.GitError):
        git.find_repository(str(tmp_path / "r"))


def test_nothing_is_written(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", "a.py", "b/c.py")
    (root / "a.py").touch()  # the index is stale now, and `git status` would refresh it

    def state() -> dict[str, tuple[int, int]]:
        places = [root, *root.rglob("*")]
        return {str(p): (p.stat().st_mtime_ns, p.stat().st_ino) for p in places}

    before = state()
    list(git.list_files(str(root)))
    list(git.list_ignored(str(root)))
    list(git.recent_paths(str(root), num_commits=5))
    git.ignored(str(root), ["a.py", "x"])
    git.find_repository(str(root))
    assert state() == before


@pytest.mark.skipif(os.name == "nt", reason="named pipes")
def test_git_that_hangs_is_ended(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", "a.py")
    os.mkfifo(root / ".gitignore")  # git waits for a writer
    with pytest.raises(git.GitTimeoutError):
        git.output(str(root), "ls-files", "--others", "--exclude-standard", timeout_s=0.5)


def test_excludes_file(plain_git: Path, tmp_path: Path) -> None:
    assert git.excludes_file() == str(plain_git.parent / "git" / "ignore")
    plain_git.write_text(f"[core]\nexcludesFile = {tmp_path.as_posix()}/mine\n")
    assert git.excludes_file() == f"{tmp_path.as_posix()}/mine"


def test_recent_paths(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", "a.py", "sub/b.py")
    write(root, "sub/c.py", "d e.py")
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "Second")
    assert list(git.recent_paths(str(root), num_commits=9)) == [
        "d e.py",
        "sub/c.py",
        "a.py",
        "sub/b.py",
    ]
    assert list(git.recent_paths(str(root / "sub"), num_commits=9)) == ["c.py", "b.py"]
    assert list(git.recent_paths(str(root), num_commits=1)) == ["d e.py", "sub/c.py"]
