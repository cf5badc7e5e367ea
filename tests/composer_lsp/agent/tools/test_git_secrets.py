from pathlib import Path

import pytest

from composer_lsp.agent.tools.git_secrets import secret_that_git_may_show
from tests.composer_index.files.trees import repository, run_git, write


def shown(line: str, folder: Path) -> str | None:
    secret = secret_that_git_may_show(line, folder)
    return None if secret is None else secret.what


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """Without a secret in any commit; `.env` was staged once, and is of no commit."""
    root = repository(tmp_path / "plain", "a.py", "b.py")
    write(root, ".env", text="KEY=hunter2\n")
    run_git(root, "add", ".env")
    run_git(root, "rm", "-q", "--cached", ".env")
    return root


@pytest.fixture
def tracked(tmp_path: Path) -> Path:
    return repository(tmp_path / "tracked", "a.py", ".env", "sub/x.py")


@pytest.fixture
def amended(tmp_path: Path) -> Path:
    """A reflog alone leads to the secret."""
    root = repository(tmp_path / "amended", "a.py", ".env")
    run_git(root, "rm", "-q", "--cached", ".env")
    run_git(root, "commit", "-q", "--amend", "-m", "Without")
    return root


def blob(root: Path) -> str:
    return run_git(root, "hash-object", ".env").strip()


@pytest.mark.parametrize(
    "line",
    [
        "git status -v",
        "git status -vv",
        "git status --verb",
        "git commit --dry-run -v",
        "git commit -v",
        "git add -p",
        "git log --check",
        "git -c alias.x=status x",
        "git --config-env=core.fsmonitor=PROGRAM status",
        "git config --blob HEAD:.env -l",
        "git for-each-ref --format='%(raw)'",
        'git show HEAD -- "*"',
        'git log -p -- a.py ".e*"',
        "git log -p -- a.py '.[e]nv'",
        "git show HEAD -- ':(icase).ENV'",
        "git --icase-pathspecs show HEAD -- .ENV",
        "GIT_ICASE_PATHSPECS=1 git show HEAD -- .ENV",
        "git log -p --full-diff -- a.py",
        "git log -p --follow -- a.py",
        "git log -g -p",
        "git tag x HEAD:.env",
        "cd sub && git show HEAD",
        "cd sub && git show HEAD -- ..",
    ],
)
def test_ways_to_a_tracked_secret(line: str, tracked: Path) -> None:
    assert shown(line, tracked) == ".env"


@pytest.mark.parametrize(
    "line",
    [
        "git status",
        "git status --short",
        "git commit -qm 'x'",
        "git log --stat",
        "git log -g",
        "git add a.py",
        "git tag v1",
        "git show HEAD -- a.py",
        "git --no-pager log -p -- a.py sub",
        "git diff HEAD -- a.py",
    ],
)
def test_what_shows_no_tracked_secret(line: str, tracked: Path) -> None:
    assert shown(line, tracked) is None


@pytest.mark.parametrize(
    "line",
    ["git show HEAD@{1}", "git show HEAD@{1}:.env", "git log -g -p", "git diff ORIG..HEAD"],
)
def test_a_reflog_leads_to_a_secret(line: str, amended: Path) -> None:
    old = run_git(amended, "rev-parse", "--short", "HEAD@{1}").strip()
    assert shown(line.replace("ORIG", old), amended) == ".env"


@pytest.mark.parametrize("line", ["git show OLD", "git show OLD~0", "git diff OLD HEAD"])
def test_a_commit_that_nothing_leads_to(line: str, amended: Path) -> None:
    old = run_git(amended, "rev-parse", "HEAD@{1}").strip()
    run_git(amended, "reflog", "expire", "--expire=now", "--all")
    assert shown("git show HEAD", amended) is None
    assert shown(line.replace("OLD", old), amended) == ".env"


@pytest.mark.parametrize(
    "line",
    [
        "git cat-file -p BLOB",
        "git show BLOB",
        "git show BLOB -- a.py",
        "git show named -- a.py",
        "git diff HEAD:a.py BLOB",
        "git update-index --add --cacheinfo 100644,BLOB,b.txt",
        "git tag x BLOB",
    ],
)
def test_a_file_that_no_path_leads_to(line: str, plain: Path) -> None:
    run_git(plain, "tag", "named", blob(plain))
    assert (shown(line.replace("BLOB", blob(plain)[:12]), plain) or "").startswith(
        "the file behind"
    )


@pytest.mark.parametrize(
    "line",
    [
        "git cat-file --batch-all-objects --batch",
        "git show $(git fsck --unreachable)",
        "git fsck --lost",
        "git fsck | xargs git show",
        "echo 1 | git show --stdin",
        "git --git-dir=sub/.git show",
        "GIT_DIR=sub/.git git show",
        "cd $X && git show HEAD",
    ],
)
def test_what_is_not_known_before_it_runs_is_asked_about(line: str, plain: Path) -> None:
    assert shown(line, plain) is not None


@pytest.mark.parametrize(
    "line",
    [
        "git show HEAD",
        "git show HASH",
        "git log -p HASH~0..HEAD",
        "git show HEAD:a.py",
        "git diff a.py",
        "git cat-file -p HEAD",
        "git commit -m \"$(cat <<'EOF'\nx\nEOF\n)\"",
        "cd sub; git diff",
    ],
)
def test_a_repository_without_secrets_is_not_asked_about(line: str, plain: Path) -> None:
    (plain / "sub").mkdir()
    head = run_git(plain, "rev-parse", "--short", "HEAD").strip()
    assert shown(line.replace("HASH", head), plain) is None


@pytest.mark.parametrize("line", ["git -C tracked show", "cd tracked && git show :.env"])
def test_a_repository_below_is_looked_into(line: str, tracked: Path) -> None:
    assert shown(line, tracked.parent) == ".env"
