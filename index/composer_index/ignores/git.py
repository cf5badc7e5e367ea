"""Asks git which files of a folder are its own, which are ignored, and where it keeps its state.

Git only reads here. Whatever a repository says, no command of its configuration runs (a file
system monitor, a hook, a signature check), nothing is fetched, nobody is asked for a password,
and nothing is written: a folder that somebody opens may come from anywhere. None of the questions
asked here makes git convert a file's text; one that does needs `filters_off` as well.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_KEPT_VARIABLES = (
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
)
"""Of the variables whose names start with `GIT_`. The others speak of one repository: an editor
that `git commit` starts inherits `GIT_DIR` and `GIT_INDEX_FILE`."""

_SET_VARIABLES = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "LC_ALL": "C",
    "LANGUAGE": "",
}

OPTIONS = (
    "--no-pager",
    "-c",
    "core.fsmonitor=false",
    "-c",
    f"core.hooksPath={os.devnull}",
    "-c",
    "log.showSignature=false",
    "-c",
    "safe.bareRepository=explicit",
    "-c",
    "core.quotePath=false",
)
"""For every git that we start, before its subcommand."""

TIMEOUT_S = 30.0
_LIST = ("--literal-pathspecs", "ls-files", "-z")
_READ_BYTES = 1 << 16
_NUM_ARGUMENTS = 500


_NO_WORK_TREE = ("not a git repository", "must be run in a work tree", "cannot use bare repository")


class GitError(Exception):
    """Git cannot be asked about a folder; the message says why."""


class NoGitError(GitError):
    """There is no git."""


class NoRepositoryError(GitError):
    """The folder is in no work tree."""


class UnsafeRepositoryError(GitError):
    """Somebody else owns the repository, and git's `safe.directory` does not name it."""


class GitTimeoutError(GitError):
    """Git took too long, and was ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Repository:
    """Where the work tree that a folder lies in keeps its state."""

    toplevel: str
    git_dir: str
    """Holds `HEAD` and `index`. Outside of the work tree for a linked one or a submodule."""
    common_dir: str
    """Holds `config` and `info/exclude`; the same as `git_dir` but for a linked work tree."""

    @property
    def rule_files(self) -> set[str]:
        """The files, there or not, whose change may change what is ignored, `.gitignore` aside."""
        own = {f"{self.git_dir}/config.worktree", f"{self.common_dir}/config"}
        exclude = f"{self.common_dir}/info/exclude"
        return own | {exclude} | user_rule_files(self.toplevel)


def find_repository(folder: str) -> Repository:
    """Raises: GitError."""
    arguments = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir")
    lines = os.fsdecode(output(folder, "rev-parse", *arguments)).split("\n")
    if len(lines) != len(arguments) + 1:
        raise GitError(f"the repository of {folder} has a line break in its path")
    toplevel, git_dir, common_dir = lines[:-1]
    common_dir = os.path.normpath(Path(folder, common_dir))
    return Repository(toplevel=toplevel, git_dir=git_dir, common_dir=common_dir)


def list_files(folder: str, warnings: list[str] | None = None) -> Iterator[str]:
    """Paths below a folder, relative to it: tracked ones, on disk or not, and untracked ones that
    are not ignored. A submodule counts as one path, and so does a nested repository, which ends
    with a slash. Appends what git warns about, such as a folder that cannot be read, to
    `warnings`. Raises: GitError."""
    previous = None
    # Not --deduplicate, which git before 2.31 lacks: a path in conflict comes three times running.
    arguments = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for path in _records(folder, arguments, warnings):
        if path != previous:
            yield path
        previous = path


def list_ignored(folder: str) -> Iterator[str]:
    """Paths below a folder that are ignored and untracked: files, and folders, which end with a
    slash, in place of what they hold. Raises: GitError."""
    arguments = ("--others", "--ignored", "--exclude-standard", "--directory")
    return _records(folder, ("ls-files", "-z", *arguments))


def ignored(folder: str, paths: Iterable[str]) -> dict[str, str]:
    """Those of the paths that are ignored and untracked, each with the file that says so. None may
    lie beyond a link or in a submodule: git answers for none of them then. They need not exist,
    but one that does not counts as a file. Raises: GitError."""
    # Not left to check-ignore to see which are tracked: it looks through the index for each path,
    # and takes wildcards in a path for a pattern.
    matching = _matching(folder, paths)
    for start in range(0, len(matching), _NUM_ARGUMENTS):
        asked = list(matching)[start : start + _NUM_ARGUMENTS]
        for tracked in list(_records(folder, (*_LIST, "--cached", "--", *asked))):
            parts = tracked.split("/")
            for end in range(1, len(parts) + 1):
                matching.pop("/".join(parts[:end]), None)
    return matching


def _matching(folder: str, paths: Iterable[str]) -> dict[str, str]:
    # The dot keeps git from reading more than a name into a path such as ":(top)x".
    question = b"".join(b"./" + os.fsencode(path) + b"\0" for path in paths)
    arguments = ("check-ignore", "--no-index", "--stdin", "-z", "--verbose")
    answer = output(folder, *arguments, stdin=question, is_one_fine=True)
    fields = os.fsdecode(answer).split("\0")
    return {
        path.removeprefix("./"): source
        for source, pattern, path in zip(fields[0::4], fields[2::4], fields[3::4], strict=False)
        if not pattern.startswith("!")
    }


def excludes_file(toplevel: str = os.sep) -> str | None:
    """The user's own ignore file (`core.excludesFile`) for a work tree, or for all that do not name
    their own; it need not exist."""
    arguments = ("--type=path", "--get", "core.excludesFile")
    try:
        named = output(toplevel, "config", *arguments, is_one_fine=True)
    except GitError:
        named = b""
    if text := os.fsdecode(named).rstrip("\n"):
        return os.path.normpath(Path(toplevel, text))
    path = Path(_config_home(), "ignore")
    return str(path) if path.is_absolute() else None


def user_rule_files(toplevel: str = os.sep) -> set[str]:
    """The files, there or not, outside of a work tree that say what is ignored in it, or in all."""
    excludes = excludes_file(toplevel)
    return _config_files(toplevel) | ({excludes} if excludes else set())


def _config_files(toplevel: str) -> set[str]:
    """The files, there or not, that git's settings for a work tree come from, those of its own git
    folder left out."""
    home = os.environ.get("GIT_CONFIG_GLOBAL")
    found = [home] if home else ["~/.gitconfig", _config_home() / "config"]
    arguments = ("--list", "--name-only", "--show-origin", "-z")
    try:
        origins = os.fsdecode(output(toplevel, "config", *arguments)).split("\0")[0::2]
    except GitError:
        origins = []
    found += [each.removeprefix("file:") for each in origins if each.startswith("file:")]
    return {os.path.normpath(Path(toplevel, Path(each).expanduser())) for each in set(found)}


def _config_home() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser(), "git")


def recent_paths(folder: str, *, num_commits: int, timeout_s: float = 5.0) -> Iterator[str]:
    """Paths below a folder, relative to it, that recent commits changed, latest first, again and
    again if changed again. Raises: GitError."""
    arguments = ("--name-only", "-z", "--format=", "--relative", "--no-renames", "--no-ext-diff")
    command = ("log", f"--max-count={num_commits}", *arguments)
    return (path for path in _records(folder, command, timeout_s=timeout_s) if path)


def output(
    folder: str,
    *arguments: str,
    stdin: bytes = b"",
    is_one_fine: bool = False,
    timeout_s: float | None = None,
) -> bytes:
    """What git prints. `is_one_fine`: the exit status 1 says "nothing found". Raises: GitError."""
    done = _run(folder, arguments, stdin=stdin, is_one_fine=is_one_fine, timeout_s=timeout_s)
    return done.stdout


def _run(
    folder: str,
    arguments: tuple[str, ...],
    *,
    stdin: bytes = b"",
    stdout: IO[bytes] | int = subprocess.PIPE,
    is_one_fine: bool = False,
    timeout_s: float | None = None,
) -> subprocess.CompletedProcess[bytes]:
    timeout_s = timeout_s or TIMEOUT_S
    try:
        done = subprocess.run(
            ["git", "-C", folder, *OPTIONS, *arguments],
            input=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=environment(),
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError:
        raise NoGitError("git is not installed") from None
    except (OSError, ValueError) as error:
        raise GitError(f"git does not start: {error}") from error
    except subprocess.TimeoutExpired:
        raise _late(arguments[0], timeout_s) from None
    if done.returncode != 0 and not (is_one_fine and done.returncode == 1):
        raise _error(folder, arguments, done.stderr)
    return done


SETTING_NAMES = ("config", "--list", "--name-only", "-z")
"""Asks for what `filters_off` reads."""


def filters_off(names: bytes) -> Sequence[str]:
    """Options that keep git from running a repository's filters where it reads a file's text
    (`status`, `diff`), after `OPTIONS`. `names`: of all its settings, by `SETTING_NAMES`.

    Raises: GitError where a filter's name cannot be given as an option."""
    options: list[str] = []
    for name in dict.fromkeys(os.fsdecode(names).split("\0")):
        if not name.startswith("filter."):
            continue
        if "=" in name:
            raise GitError(f"the setting {name} cannot be turned off")
        options += ["-c", f"{name}={'false' if name.endswith('.required') else ''}"]
    return options


def environment() -> Mapping[str, str]:
    """For every git that we start."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name in _KEPT_VARIABLES
    }
    return kept | _SET_VARIABLES


def _records(
    folder: str,
    arguments: tuple[str, ...],
    warnings: list[str] | None = None,
    timeout_s: float | None = None,
) -> Iterator[str]:
    """By way of a file, so that either all paths come or none, and few are held at a time."""
    with _scratch() as file:
        told = _run(folder, arguments, stdout=file, timeout_s=timeout_s).stderr
        if warnings is not None:
            warnings += os.fsdecode(told).splitlines()
        file.seek(0)
        rest = b""
        while block := file.read(_READ_BYTES):
            *records, rest = (rest + block).split(b"\0")
            yield from map(os.fsdecode, records)


def _scratch() -> IO[bytes]:
    try:
        return tempfile.TemporaryFile()
    except OSError as error:
        raise GitError(f"no temporary file for what git says: {error.strerror}") from error


def _late(name: str, timeout_s: float) -> GitTimeoutError:
    return GitTimeoutError(f"git {name} took over {timeout_s:g} s")


def _error(folder: str, arguments: Iterable[str], told: bytes) -> GitError:
    text = told.decode(errors="backslashreplace").strip()
    if "dubious ownership" in text:
        return UnsafeRepositoryError(
            f"git does not trust the repository of {folder}, which somebody else owns; "
            "its own message names the setting safe.directory"
        )
    if any(sign in text for sign in _NO_WORK_TREE):
        return NoRepositoryError(f"{folder} is in no work tree of git")
    return GitError(f"git {next(iter(arguments))} in {folder}: {text[:500] or 'failed'}")
