"""Commands see what is staged, and what they change comes back; with a real bubblewrap."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from composer_lsp.agent.commands import (
    Access,
    Answer,
    Approvals,
    CommandResult,
    CommandRunner,
    Offer,
    Policy,
    Question,
    RefusedError,
    SandboxError,
    Staged,
    outcome,
    runner,
)
from composer_lsp.agent.commands.bubblewrap import Bubblewrap
from composer_lsp.agent.commands.masks import mounts_below
from composer_lsp.agent.commands.overlay import Overlay, Overlays
from tests.composer_lsp.agent.commands.conftest import LIMIT_S
from tests.composer_lsp.agent.commands.test_sandbox import found, git, install, make_venv

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")

Tree = dict[str, tuple[str, int, bytes]]


class Yes:
    async def approve(self, question: Question) -> Answer:
        return "once"


class Staging:
    """Runs lines on a workspace with files staged over it."""

    def __init__(self, runner: CommandRunner, root: Path) -> None:
        self.runner = runner
        self.root = root
        self.staged: dict[Path, bytes | None] = {}
        self.offered: list[tuple[str, str, bool]] = []
        """Path, deed, whether it is ignored."""
        self.agrees = False

    def stage(self, path: str, text: str | None) -> None:
        self.staged[self.root / path] = None if text is None else text.encode()

    async def run(self, line: str, access: Access | None = None) -> CommandResult:
        return await self.runner.run(
            line,
            self.root,
            timeout_s=LIMIT_S,
            staged=self.staged,
            wanted=access or Access(),
            agree=self._agree,
        )

    async def _agree(self, offers: Sequence[Offer]) -> bool:
        self.offered += [
            (each.path.relative_to(self.root).as_posix(), each.deed, each.is_ignored)
            for each in offers
        ]
        return self.agrees

    def changes(self, result: CommandResult) -> dict[str, str | None]:
        return {
            path.relative_to(self.root).as_posix(): None if data is None else data.decode()
            for path, data in result.changes.items()
        }

    def named(self, paths: tuple[Path, ...]) -> list[str]:
        return sorted(path.relative_to(self.root).as_posix() for path in paths)


def runner_for(roots: list[Path], scratch: list[Path]) -> CommandRunner:
    return CommandRunner(
        roots,
        Approvals(Policy(()), Yes()),
        environ={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
        home=min(root.parent for root in roots),
        scratch=scratch,
    )


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


@pytest.fixture
def project(bubblewrap: Bubblewrap, workspace: Path) -> Path:
    """A commit, and folders that git ignores."""
    write(
        workspace,
        {
            ".gitignore": "build/\nnode_modules/\ntarget/\n*.log\n",
            "src/main.py": "print('disk')\n",
            "src/deep/er/other.py": "other = 1\n",
            "run.sh": "echo ran\n",
            "target/old": "old\n",
        },
    )
    git(workspace, "add", ".gitignore", "src", "run.sh", "README.md")
    git(workspace, "commit", "-qm", "first")
    return workspace


@pytest.fixture
async def staging(project: Path, tmp_path: Path) -> AsyncIterator[Staging]:
    runner = runner_for([project], [tmp_path / "scratch"])
    await runner.open()
    if not runner.shows_staged and "COMPOSER_REQUIRE_SANDBOX" not in os.environ:
        pytest.skip(str(runner.why_not_staged))
    assert runner.shows_staged, runner.why_not_staged
    yield Staging(runner, project)
    await runner.aclose()
    assert list((tmp_path / "scratch").iterdir()) == []


def tree(root: Path) -> Tree:
    """Every name, kind, mode and content."""
    return {
        path.relative_to(root).as_posix(): (
            "link" if path.is_symlink() else "file" if path.is_file() else "folder",
            path.lstat().st_mode,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in root.rglob("*")
    }


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_a_command_sees_what_is_staged(staging: Staging) -> None:
    staging.stage("src/main.py", "print('staged')\n")
    staging.stage("new/folder/file", "new\n")
    staging.stage("run.sh", None)
    staging.stage("never/there", None)
    before = tree(staging.root)

    result = await staging.run("cat src/main.py new/folder/file README.md; ls; ls src")

    assert result.output.splitlines() == [
        *("print('staged')", "new", "read me"),
        *("README.md", "new", "src", "target", "deep", "main.py"),
    ]
    assert result.changes == {}
    assert tree(staging.root) == before


@pytest.mark.parametrize(
    ("line", "changes"),
    [
        ("echo made > made", {"made": "made\n"}),
        ("mkdir -p a/b && echo made > a/b/c", {"a/b/c": "made\n"}),
        ("echo more >> src/main.py", {"src/main.py": "staged\nmore\n"}),
        ("rm src/main.py", {"src/main.py": None}),
        ("rm run.sh", {"run.sh": None}),
        ("rm new", {"new": None}),
        ("echo back > gone", {"gone": "back\n"}),
        ("rm -rf src", {"src/main.py": None, "src/deep/er/other.py": None}),
        (
            "rm -rf src && echo x > src",
            {"src/main.py": None, "src/deep/er/other.py": None, "src": "x\n"},
        ),
        (
            "rm -rf src && mkdir src && echo x > src/x",
            {"src/main.py": None, "src/deep/er/other.py": None, "src/x": "x\n"},
        ),
        ("rm run.sh && mkdir run.sh && echo x > run.sh/x", {"run.sh": None, "run.sh/x": "x\n"}),
        ("mv run.sh lines.sh", {"run.sh": None, "lines.sh": "echo ran\n"}),
        (
            "mv src lib",
            {
                "src/main.py": None,
                "src/deep/er/other.py": None,
                "lib/main.py": "staged\n",
                "lib/deep/er/other.py": "other = 1\n",
            },
        ),
        ("sed -i s/staged/changed/ src/main.py", {"src/main.py": "changed\n"}),
        ("sed -i s/other/another/ src/deep/er/other.py", {"src/deep/er/other.py": "another = 1\n"}),
        ("touch run.sh src/main.py && cp run.sh x && rm x", {}),
        ("echo x > x && chmod 000 x && chmod 000 src", {"x": "x\n"}),
        ("printf 'echo ran\\n' > run.sh; mkdir empty", {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_a_command_changes_comes_back_and_the_disk_stays(
    line: str, changes: dict[str, str | None], staging: Staging
) -> None:
    staging.stage("src/main.py", "staged\n")
    staging.stage("new", "new\n")
    write(staging.root, {"gone": "gone\n"})
    staging.stage("gone", None)
    before = tree(staging.root)

    result = await staging.run(line)

    assert result.exit_code == 0, result.output
    assert staging.changes(result) == changes
    assert (result.kept, result.left_out) == ((), ())
    assert tree(staging.root) == before


async def test_git_moves_a_file(staging: Staging) -> None:
    result = await staging.run("git mv run.sh lines.sh", Access(git=True))

    assert staging.changes(result) == {"run.sh": None, "lines.sh": "echo ran\n"}
    assert (staging.root / "run.sh").exists()


async def test_permissions_are_told_and_kept_for_the_next_command(staging: Staging) -> None:
    staging.stage("staged.sh", "echo staged\n")
    first = await staging.run(
        "chmod 755 staged.sh; echo x > x; echo 'echo new' > n; chmod +x n; echo k > k; chmod 600 k"
    )
    staging.staged |= first.changes
    second = await staging.run("./staged.sh; ./n")

    names = {path.name: mode for path, mode in first.modes.items()}
    assert names == {"staged.sh": 0o755, "n": 0o755, "k": 0o600}
    assert staging.changes(first) == {"x": "x\n", "n": "echo new\n", "k": "k\n"}
    assert second.output == "staged\nnew\n"
    assert second.modes == {}


async def test_permissions_of_the_disk_are_those_of_the_staged_file(staging: Staging) -> None:
    (staging.root / "run.sh").chmod(0o750)
    (staging.root / "src").chmod(0o750)
    staging.root.chmod(0o750)
    staging.stage("run.sh", "echo staged\n")
    staging.stage("src/main.py", "")

    result = await staging.run("./run.sh; stat -c %a run.sh src .")

    assert (result.output, result.modes) == ("staged\n750\n750\n750\n", {})


async def test_the_same_staged_text_keeps_its_time(staging: Staging) -> None:
    """Or every build would start anew; and another text gets another time, in whole seconds."""
    staging.stage("run.sh", "one\n")
    first = (await staging.run("stat -c %Y run.sh")).output
    again = (await staging.run("stat -c %Y run.sh")).output
    staging.stage("run.sh", "two\n")
    other = (await staging.run("stat -c %Y run.sh")).output

    assert first == again
    assert int(other) > int(first) > 0


async def test_what_git_ignores_arrives_on_the_disk(staging: Staging) -> None:
    root = staging.root
    write(root, {"build/kept": "", "build/sub/gone": "", "here.log": "old"})
    line = (
        "echo x > target/x; rm -r build/sub; mkdir -p build/new node_modules/p src/deep/__pycache__;"
        "echo y > build/new/y; echo z > node_modules/p/z; ln -s p/z node_modules/link; echo p > a.log;"
        "echo more > here.log; echo c > src/deep/__pycache__/c.pyc;"
        "mkdir .own_cache; echo '*' > .own_cache/.gitignore; echo o > .own_cache/o"
    )
    result = await staging.run(line)

    assert result.output == ""
    assert (result.changes, result.kept, result.left_out) == ({}, (), ())
    assert (root / "target" / "x").read_text() == "x\n"
    assert names(root / "build") == ["kept", "new"]
    assert (root / "build" / "new" / "y").read_text() == "y\n"
    assert (root / "node_modules" / "link").readlink() == Path("p/z")
    assert (root / "here.log").read_text() == "more\n"
    assert (root / ".own_cache" / "o").read_text() == "o\n"
    assert (root / "src" / "deep" / "__pycache__" / "c.pyc").read_text() == "c\n"


async def test_a_build_folder_may_be_made_anew(staging: Staging) -> None:
    write(staging.root, {"build/old/x": "old", "build/y": "old"})
    result = await staging.run("rm -rf build && mkdir build && echo new > build/y")

    assert result.exit_code == 0, result.output
    assert result.changes == {}
    assert names(staging.root / "build") == ["y"]
    assert (staging.root / "build" / "y").read_text() == "new\n"


async def test_a_staged_file_that_git_ignores_stays_staged(staging: Staging) -> None:
    write(staging.root, {"build/made": "disk\n", "build/gone": "disk\n"})
    staging.stage("build/made", "staged\n")
    staging.stage("build/gone", None)
    before = tree(staging.root)
    first = await staging.run("cat build/made; ls build")
    second = await staging.run("echo more >> build/made")

    assert first.output == "staged\nmade\n"
    assert (staging.changes(first), staging.changes(second)) == (
        {},
        {"build/made": "staged\nmore\n"},
    )
    assert tree(staging.root) == before


async def test_what_cannot_be_staged_is_named(staging: Staging) -> None:
    line = (
        "yes | head -c 10000001 > big; printf 'a\\0b' > binary; ln -s /etc/passwd link;"
        "mkfifo pipe; git init -q inner; rm README.md; ln -s run.sh README.md"
    )
    result = await staging.run(line)

    assert staging.named(result.kept) == ["big", "binary"]
    assert staging.named(result.left_out) == ["README.md", "inner/.git", "link", "pipe"]
    assert staging.changes(result) == {}
    assert (staging.root / "big").stat().st_size == 10_000_001
    assert (staging.root / "binary").read_bytes() == b"a\0b"
    assert "link" not in names(staging.root)
    assert not (staging.root / "inner").exists()
    assert (staging.root / "README.md").read_text() == "read me\n"


UNSHOWABLE = {
    "overwritten": ("printf 'b\\0c' > data.bin", "data.bin", "changed"),
    "made a text": ("echo text > data.bin", "data.bin", "changed"),
    "made none": ("printf 'b\\0c' > run.sh", "run.sh", "changed"),
    "too large": ("yes | head -c 10000001 > run.sh", "run.sh", "changed"),
    "other bytes, same text": ("printf '\\357\\273\\277echo ran\\n' > run.sh", "run.sh", "changed"),
    "deleted": ("rm data.bin", "data.bin", "deleted"),
    "with its folder": ("rm -r deep", "deep/data.bin", "deleted"),
    "permissions": ("chmod 750 run.sh", "run.sh", "changed the permissions of"),
}


@pytest.mark.parametrize("case", UNSHOWABLE)
@pytest.mark.parametrize("agrees", [False, True], ids=["refused", "agreed"])
async def test_what_cannot_be_shown_is_done_once_the_user_agrees(
    case: str, staging: Staging, *, agrees: bool
) -> None:
    line, path, deed = UNSHOWABLE[case]
    for name in ("data.bin", "deep/data.bin"):
        (staging.root / name).parent.mkdir(exist_ok=True)
        (staging.root / name).write_bytes(b"a\0b")
    before = tree(staging.root)
    staging.agrees = agrees
    result = await staging.run(line)

    assert result.exit_code == 0, result.output
    assert staging.offered == [(path, deed, False)]
    assert (result.changes, result.modes) == ({}, {})
    if agrees:
        assert (staging.named(result.kept), result.left_out) == ([path], ())
        assert tree(staging.root).get(path) != before[path]
    else:
        assert (result.kept, staging.named(result.left_out)) == ((), [path])
        assert tree(staging.root) == before


async def test_what_git_ignores_is_deleted_once_the_user_agrees(staging: Staging) -> None:
    write(staging.root, {".gitignore": "*.db\ndata/\nbuild/\nnode_modules/\n"})
    write(staging.root, dict.fromkeys(("prod.db", "data/deep/x", "build/x", "src/a.db"), "x"))
    write(staging.root, {"node_modules/p/x": "x", "node_modules/q": "x"})
    line = "rm -r prod.db data src build; rm -r node_modules/*; mkdir prod.db; echo y > prod.db/y"
    refused = await staging.run(line)

    deleted = [(path, "deleted", True) for path in ("data", "prod.db", "src/a.db")]
    assert staging.offered == [*deleted, ("prod.db/y", "changed", True)]
    assert staging.named(refused.left_out) == ["data", "prod.db", "prod.db/y", "src/a.db"]
    assert staging.named(refused.ignored) == ["build", "node_modules"]
    assert (staging.root / "data" / "deep" / "x").exists()
    assert not (staging.root / "build").exists()

    staging.agrees = True
    agreed = await staging.run(line)
    assert staging.named(agreed.kept) == ["data", "prod.db", "prod.db/y", "src/a.db"]
    assert not (staging.root / "data").exists()
    assert (staging.root / "prod.db" / "y").read_text() == "y\n"


async def test_what_git_ignores_is_named_when_it_is_changed(staging: Staging) -> None:
    write(staging.root, {"here.log": "x", "build/x.log": "x", "src/there.log": "x"})
    result = await staging.run("echo y | tee here.log build/x.log new.log; mv src/there.log src/y")

    assert staging.named(result.ignored) == ["here.log"]
    assert staging.offered == [("src/there.log", "deleted", True)]
    assert (staging.root / "here.log").read_text() == "y\n"


async def test_a_staged_text_that_is_none_any_more_stays_as_it_is(staging: Staging) -> None:
    staging.stage("run.sh", "echo staged\n")
    result = await staging.run("printf 'a\\0b' > run.sh")

    assert (staging.named(result.left_out), staging.offered) == (["run.sh"], [])
    assert (staging.root / "run.sh").read_text() == "echo ran\n"


async def test_no_more_comes_back_than_memory_holds(
    staging: Staging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcome, "_MAX_TOTAL_BYTES", 8)
    result = await staging.run("echo 123 > a; echo 4567 > b; echo 567 > c")

    assert staging.changes(result) == {"a": "123\n", "c": "567\n"}
    assert staging.named(result.kept) == ["b"]
    assert (staging.root / "b").read_text() == "4567\n"


def test_file_systems_in_the_workspace_are_known() -> None:
    assert Path("/proc") in mounts_below([Path("/")])
    assert mounts_below([Path("/nowhere")]) == []


async def test_what_a_command_changed_is_taken_to_the_end(
    staging: Staging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the run is stopped meanwhile: half of a build is no build."""
    taking, going_on = threading.Event(), threading.Event()

    def take(overlay: Overlay, filled_before: set[Path], since_ns: int | None) -> outcome.Outcome:
        taking.set()
        going_on.wait(LIMIT_S)
        return outcome.take(overlay, filled_before, since_ns)

    monkeypatch.setattr(runner, "take", take)
    running = asyncio.create_task(staging.run("mkdir build; echo x > build/x"))
    await asyncio.to_thread(taking.wait, LIMIT_S)
    running.cancel()
    done, _ = await asyncio.wait([running], timeout=0.1)
    going_on.set()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert done == set()
    assert (staging.root / "build" / "x").read_text() == "x\n"


async def test_nothing_leaves_the_workspace_by_a_planted_link(
    staging: Staging, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    write(staging.root, {"build/kept": "", "node_modules/kept": ""})
    line = (
        f"ln -s {outside} target/out; ln -s {outside} node_modules/out;"
        f"ln -s {outside}/new x.log; rm -r build; ln -s {outside} build"
    )
    planted = await staging.run(line)
    # Where a link is now, the next command makes a folder.
    through = await staging.run("rm -f build x.log; mkdir build; echo x > build/x; echo x > x.log")

    assert planted.exit_code == 0
    assert through.exit_code == 0, through.output
    assert names(outside) == ["kept"]
    assert (staging.root / "build" / "x").read_text() == "x\n"


async def test_a_link_that_comes_while_a_command_runs_is_not_followed(
    staging: Staging, tmp_path: Path
) -> None:
    """Planted by another that has the folder itself, such as one in the background."""
    outside = tmp_path / "outside"
    outside.mkdir()
    line = "mkdir -p build/a; echo x > build/a/x; touch target/made; while ! test -e target/go; do sleep 0.01; done"
    running = asyncio.create_task(staging.run(line))
    async with asyncio.timeout(LIMIT_S):
        while "made" not in names(staging.root / "target"):
            await asyncio.sleep(0.01)
    (staging.root / "build").mkdir()
    (staging.root / "build" / "a").symlink_to(outside)
    (staging.root / "target" / "go").touch()
    result = await running

    assert names(outside) == []
    assert staging.named(result.left_out) == ["build/a", "build/a/x"]
    assert result.changes == {}


async def test_secrets_stay_covered_and_new_ones_are_not_shown(staging: Staging) -> None:
    staging.stage("src/main.py", "staged\n")
    result = await staging.run("cat .env; umount .env; cat .env; echo KEY=hunter2 > src/.env")

    assert "hunter2" not in result.output
    assert result.changes == {}
    assert (staging.root / "src" / ".env").read_text() == "KEY=hunter2\n"


async def test_git_is_protected_as_ever(staging: Staging) -> None:
    staging.stage("src/main.py", "staged\n")
    refused = await staging.run("git status --short; echo x > .git/hooks/x; echo x > .git/index")
    allowed = await staging.run("git add src/main.py && git status --short", Access(git=True))

    assert refused.output.count("Read-only file system") == 2
    assert " M src/main.py" in refused.output
    assert "M  src/main.py" in allowed.output
    assert not (staging.root / ".git" / "hooks" / "x").exists()


@pytest.fixture
def environment(project: Path) -> Path:
    """There when the run opens."""
    local = project.parent / ".local"
    base = local / "share" / "uv" / "python" / "cpython-3"
    make_venv(project / ".venv", install(base, local / "bin" / "python3"))
    return project / ".venv"


async def test_pytest_runs_on_staged_code(environment: Path, staging: Staging) -> None:
    root = environment.parent
    write(root, {"adds.py": "def add(a, b):\n    return a - b\n"})
    write(
        root, {"test_adds.py": "from adds import add\ndef test_it():\n    assert add(1, 2) == 3\n"}
    )

    wrong = await staging.run(".venv/bin/python -m pytest -q")
    staging.stage("adds.py", "def add(a, b):\n    return a + b\n")
    right = await staging.run(".venv/bin/python -m pytest -q")

    assert "1 failed" in wrong.output, wrong.output
    assert "1 passed" in right.output, right.output
    assert (right.changes, right.kept, right.left_out) == ({}, (), ())
    assert (root / ".pytest_cache").is_dir()


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm")
async def test_npm_test_runs_on_staged_code(staging: Staging) -> None:
    write(
        staging.root,
        {
            "node_modules/adds/package.json": '{"name": "adds", "main": "i.js"}',
            "node_modules/adds/i.js": "module.exports = (a, b) => a + b;",
            "package.json": '{"scripts": {"test": "node --test t.js"}}',
        },
    )
    staging.stage(
        "t.js",
        "require('node:test')('adds', () =>"
        " require('node:assert').equal(require('adds')(1, 2), 3));\n",
    )
    result = await staging.run("npm test")

    assert result.exit_code == 0, result.output
    assert "pass 1" in result.output
    assert result.changes == {}


async def test_roots_in_each_other_and_with_odd_names(project: Path, tmp_path: Path) -> None:
    inner = project / "in ner, a:b"
    odd = project.parent / "o\"dd,\\: \n'x"
    write(inner, {"x": "inner\n"})
    write(odd, {"x": "odd\n"})
    runner = runner_for([inner, odd, project], [tmp_path / "scra tch,:"])
    await runner.open()
    assert runner.shows_staged, runner.why_not_staged
    staged: Staged = {inner / "x": b"staged\n", odd / "y": b"staged\n", project / "run.sh": None}

    line = "cat x; echo i > i; cd ..; ls run.sh; echo o > o"
    result = await runner.run(line, inner, timeout_s=LIMIT_S, staged=staged)
    second = await runner.run("cat x y; rm x y", odd, timeout_s=LIMIT_S, staged=staged)
    await runner.aclose()

    assert result.output == "staged\nls: cannot access 'run.sh': No such file or directory\n"
    assert result.changes == {inner / "i": b"i\n", project / "o": b"o\n"}
    assert second.output == "odd\nstaged\n"
    assert second.changes == {odd / "x": None, odd / "y": None}


async def test_a_command_in_the_background_sees_what_was_staged_when_it_started(
    staging: Staging,
) -> None:
    write(staging.root, {"build/x": ""})
    staging.stage("src/main.py", "first\n")
    line = "while ! test -e target/go; do sleep 0.01; done; cat src/main.py; echo lost > lost; echo b > build/b"
    name = await staging.runner.start(line, staging.root, staged=staging.staged)
    staging.stage("src/main.py", "second\n")
    foreground = await staging.run("cat src/main.py; touch target/go")
    async with asyncio.timeout(LIMIT_S):
        while staging.runner.background.list()[0].is_running:
            await asyncio.sleep(0.01)
    read, _ = await staging.runner.background.read(name)

    assert (foreground.output, read) == ("second\n", "first\n")
    assert not (staging.root / "lost").exists()
    assert (staging.root / "build" / "b").read_text() == "b\n"


async def test_a_toolchain_in_a_temporary_folder_is_there_for_all_commands_at_once(
    project: Path, tmp_path: Path
) -> None:
    venv = tmp_path / "venv"
    write(venv, {"lib/x": "library\n"})
    (venv / "bin").mkdir()
    (venv / "lib64").symlink_to("lib")
    runner = CommandRunner(
        [project],
        Approvals(Policy(()), Yes()),
        environ={"PATH": f"{venv}/bin:/usr/bin:/bin"},
        home=project.parent,
        scratch=[tmp_path / "scratch"],
    )
    await runner.open()
    line = f"cat {venv}/lib64/x"
    ruin = f"while ! test -e target/go; do mv {tmp_path} /tmp/x; rm {venv}/lib64; done 2> /dev/null"
    name = await runner.start(f"{line}; {ruin}", project)
    results = [
        await runner.run(line, project, timeout_s=LIMIT_S),
        await runner.check(line, project, timeout_s=LIMIT_S),
        await runner.run(f"{line}; touch target/go", project, timeout_s=LIMIT_S),
    ]
    async with asyncio.timeout(LIMIT_S):
        while runner.background.list()[0].is_running:
            await asyncio.sleep(0.01)
    read, _ = await runner.background.read(name)
    await runner.aclose()

    assert [result.output for result in results] == ["library\n"] * 3
    assert read == "library\n"


async def test_a_check_is_apart_from_the_disk_and_from_the_user(staging: Staging) -> None:
    staging.stage("src/main.py", "staged\n")
    before = tree(staging.root)
    checked = await staging.runner.check(
        ["sh", "-c", "cat src/main.py; echo odd >&2; echo x > src/main.py; exit 3", "a b"],
        staging.root,
        staged=staging.staged,
        timeout_s=LIMIT_S,
    )
    line = await staging.runner.check(": < /dev/tcp/127.0.0.1/9", staging.root, timeout_s=LIMIT_S)

    assert (checked.output, checked.errors, checked.exit_code) == ("staged\n", "odd\n", 3)
    assert checked.changes == {}
    assert tree(staging.root) == before
    assert line.output == ""
    assert line.errors != ""
    with pytest.raises(RefusedError, match="outside of the workspace"):
        await staging.runner.check("ls", staging.root.parent, timeout_s=LIMIT_S)


async def test_where_nothing_can_be_an_overlay_the_disk_is_bound(
    project: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    runner = runner_for([project], [project / "scratch", tmp_path / "file"])
    await runner.open()
    assert not runner.shows_staged
    assert "no overlay can be mounted" in (runner.why_not_staged or "")

    result = await runner.run("echo x > x", project, timeout_s=LIMIT_S, staged={project / "y": b""})
    checked = await runner.check("echo y > y", project, timeout_s=LIMIT_S)
    await runner.aclose()

    assert result.changes == {}
    assert (project / "x").read_text() == "x\n"
    assert "Read-only file system" in checked.errors
    assert not (project / "scratch").exists()


def test_files_of_another_group_cannot_be_overlaid(
    bubblewrap: Bubblewrap, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel does not copy what belongs to somebody whom a namespace does not know."""
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    monkeypatch.setattr(os, "getgid", lambda: project.stat().st_gid + 1)
    with pytest.raises(SandboxError, match="belongs to another user or group"):
        Overlays.open([project], bubblewrap, [tmp_path / "scratch"])


async def test_without_a_sandbox_there_is_no_check(workspace: Path) -> None:
    runner = CommandRunner(
        [workspace],
        Approvals(Policy(()), Yes()),
        environ={"PATH": "/nowhere"},
        home=workspace.parent,
    )
    await runner.open()

    assert not runner.shows_staged
    with pytest.raises(SandboxError, match="not installed"):
        await runner.check("ls", workspace, timeout_s=LIMIT_S)


async def test_a_command_that_is_ended_leaves_nothing(staging: Staging, tmp_path: Path) -> None:
    result = await staging.runner.run(
        "echo x > x; sleep 1000", staging.root, timeout_s=1, staged={staging.root / "y": b""}
    )

    assert (result.ended, staging.changes(result)) == ("timed_out", {"x": "x\n"})


KILLED = """
import asyncio, sys
from pathlib import Path
from tests.composer_lsp.agent.commands.test_staged import runner_for

async def main(root: Path, scratch: Path) -> None:
    runner = runner_for([root], [scratch])
    await runner.open()
    assert runner.shows_staged
    line = "echo x > x; exec -a composer-test-orphan-of-an-overlay sleep 1000"
    await runner.run(line, root, timeout_s=1000, staged={root / "y": b""})

asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
"""


def test_a_killed_parent_leaves_no_process_and_no_mount(project: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "other scratch"
    arguments = [sys.executable, "-c", KILLED, str(project), str(scratch)]
    with subprocess.Popen(arguments, cwd=Path(__file__).parents[4]) as parent:
        orphan = found("composer-test-orphan-of-an-overlay")
        wrappers = orphan.parents()
        wrappers = wrappers[: [process.pid for process in wrappers].index(parent.pid)]
        parent.kill()
    _, alive = psutil.wait_procs([orphan, *wrappers], timeout=LIMIT_S)

    assert alive == []
    assert not any(str(tmp_path / "other") in text for text in mounts_of_all_processes())
    assert not (project / "x").exists()
    (left,) = scratch.iterdir()
    os.utime(left, (0, 0))
    asyncio.run(runner_for([project], [scratch]).open())
    assert left not in scratch.iterdir()


def mounts_of_all_processes() -> Iterator[str]:
    for process in psutil.process_iter():
        with suppress(OSError):
            yield Path(f"/proc/{process.pid}/mountinfo").read_text()


AS_SOMEBODY = """
import asyncio, concurrent.futures.thread, encodings.idna, os, sys, tempfile
from pathlib import Path
from composer_lsp.agent.commands import parse
from tests.composer_lsp.agent.commands.test_staged import runner_for

parse("echo $(x) | y")  # All that is to be loaded, before it cannot be any more.
os.setgroups([])
os.setgid(65534)
os.setuid(65534)

async def main(top: Path) -> None:
    root = top / "home" / "project"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a").write_text("disk")
    (root / ".env").write_text("hunter2")
    runner = runner_for([root], [top / "scratch"])
    await runner.open()
    assert runner.why_no_sandbox is None, runner.why_no_sandbox
    assert runner.shows_staged, runner.why_not_staged
    line = "id -u; cat src/a b .env; umount .env; ulimit -u; rm -r src; echo c > c; mkdir src; chmod 700 b;"
    line += "mkdir d; echo d > d/d; chmod 000 d/d d"
    staged = {root / "src" / "a": b"staged\\n", root / "b": b"b\\n"}
    result = await runner.run(line, root, timeout_s=100, staged=staged)
    await runner.aclose()
    assert result.output.startswith("65534\\nstaged\\nb\\numount: "), result.output
    assert result.output.endswith("\\n2048\\n"), result.output
    assert result.changes == {root / "src" / "a": None, root / "c": b"c\\n", root / "d/d": b"d\\n"}
    assert result.modes == {root / "b": 0o700, root / "d/d": 0}, result.modes
    assert (root / "src" / "a").read_text() == "disk"
    assert not any((top / "scratch").iterdir())

asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.mark.skipif(
    sys.platform == "linux" and os.geteuid() != 0, reason="all tests run as somebody"
)
def test_who_is_not_root_sees_what_is_staged(bubblewrap: Bubblewrap) -> None:
    with tempfile.TemporaryDirectory() as top:
        os.chown(top, 65534, 65534)
        done = subprocess.run(
            [sys.executable, "-c", AS_SOMEBODY, top],
            cwd=Path(__file__).parents[4],
            env={**os.environ, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
