"""What git says of a workspace, read without a lock and without changing or running anything."""

import asyncio
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from composer_index.ignores import HiddenFiles
from composer_index.ignores.git import OPTIONS, SETTING_NAMES, GitError, environment, filters_off
from composer_index.printable import printable
from composer_lsp.agent.diff import unified
from composer_lsp.agent.edits.change_set import FileChange

_TIME_LIMIT_S = 10.0
_MAX_DIFF_CHARS = 200_000
"""Of the uncommitted diff that a transcript holds."""
_MAX_NEW_FILES = 1000
_MAX_NAMED = 20
_STATUS = ("status", "--short", "--no-renames", "--ignore-submodules=dirty", "--", ".")
_DIFF = (
    *("-c", "diff.relative=false", "diff", "--no-ext-diff", "--no-textconv", "--no-renames"),
    *("--ignore-submodules=dirty", "--submodule=short"),
)
"""A submodule is not looked into: git would run what its own settings say."""
_NEW = ("ls-files", "-z", "--others", "--exclude-standard", "--full-name", "--", ".")


@dataclass(frozen=True, kw_only=True, slots=True)
class GitState:
    """Empty texts where there is no repository, or no git."""

    commit: str = ""
    branch: str = ""
    status: str = ""
    """As `git status --short` prints it."""
    diff: str = ""
    """What `git apply` makes of the commit the files as they are, new ones that git does not ignore
    too; hidden ones are left out. Files are whole or not there: what is too much, or no text, is named
    in lines that begin with `#`. Bytes that are no UTF-8 are lone surrogates."""


async def read_git(root: str) -> GitState:
    """Of the repository that a folder lies in. Asks git several times."""
    try:
        off = filters_off(await _git(root, *SETTING_NAMES))
    except GitError:
        return GitState()
    commit, branch, status, diff = await asyncio.gather(
        _text(root, "rev-parse", "HEAD"),
        _text(root, "branch", "--show-current"),
        _text(root, *off, *_STATUS),
        _diff(root, *off),
    )
    return GitState(
        commit=commit.strip(),
        branch=branch.strip(),
        status=status.rstrip(),
        diff=diff,
    )


async def _diff(root: str, *options: str) -> str:
    """Empty where it cannot be told which files are hidden."""
    diff = (*options, *_DIFF)
    try:
        top = os.fsdecode(await _git(root, "rev-parse", "--show-toplevel")).removesuffix("\n")
        names = await _git(root, *diff, "--name-only", "-z", "HEAD", "--", ".")
        hidden = await asyncio.to_thread(_hidden, top, os.fsdecode(names).split("\0"))
        left_out = [f":(top,literal,exclude){path}" for path in hidden]
        tracked = await _git(root, *diff, "HEAD", "--", ".", *left_out)
        new = await _git(root, *_NEW)
    except GitError:
        return ""
    text = tracked.decode("utf-8", "surrogateescape")
    return await asyncio.to_thread(_fitted, text, top, os.fsdecode(new).split("\0"))


def _fitted(tracked: str, top: str, new: Sequence[str]) -> str:
    """As much as there is room for, file by file."""
    room = _MAX_DIFF_CHARS
    kept: list[str] = []
    left_out: list[str] = []
    for name, part in chain(_parts(tracked), _new_files(top, new)):
        if part is None or len(part) > room:
            left_out.append(name)
        else:
            kept.append(part)
            room -= len(part)
    notes = [f"# left out: {name}\n" for name in left_out[:_MAX_NAMED]]
    if len(left_out) > _MAX_NAMED:
        notes.append(f"# left out: {len(left_out) - _MAX_NAMED:,} more\n")
    return "".join([*notes, *kept])


def _parts(diff: str) -> Iterator[tuple[str, str | None]]:
    """Of each file what is said of it, and its patch; None: it is no text."""
    for part in re.split(r"(?m)^(?=diff --git )", diff)[1:]:
        head, _, rest = part.partition("\n")
        name = head.removeprefix("diff --git ")
        yield name, None if re.search(r"(?m)^Binary files ", rest) else part


def _new_files(top: str, paths: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    listed = [path for path in paths if path]
    hidden = set(_hidden(top, listed[:_MAX_NEW_FILES]))
    for path in listed[:_MAX_NEW_FILES]:
        if path not in hidden:
            text = _text_of(Path(top, path))
            change = FileChange(path=path, before=None, after=text)
            yield f"new file {printable(path)}", None if text is None else unified([change])
    for _ in listed[_MAX_NEW_FILES:]:
        yield "new file", None


def _text_of(path: Path) -> str | None:
    """None: it is no file, no UTF-8, or too large."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode) or path.lstat().st_size > _MAX_DIFF_CHARS:
            return None
        return path.read_bytes().decode("utf-8")
    except (OSError, ValueError):
        return None


def _hidden(top: str, paths: Iterable[str]) -> list[str]:
    files = HiddenFiles()
    return [path for path in paths if path and files.why_hidden(f"{top}/{path}") is not None]


async def _text(root: str, *arguments: str) -> str:
    """What it prints, empty when it fails."""
    try:
        return (await _git(root, *arguments)).decode("utf-8", "replace")
    except GitError:
        return ""


async def _git(root: str, *arguments: str) -> bytes:
    """Raises: GitError."""
    try:
        process = await asyncio.create_subprocess_exec(
            "git",
            *OPTIONS,
            *arguments,
            cwd=root,
            env={**environment(), "LC_ALL": "C.UTF-8"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except (OSError, ValueError) as error:
        raise GitError(f"git does not start: {error}") from error
    try:
        async with asyncio.timeout(_TIME_LIMIT_S):
            output, _ = await process.communicate()
    except TimeoutError:
        raise GitError(f"git took over {_TIME_LIMIT_S:g} s") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode != 0:
        raise GitError(f"git failed in {root}")
    return output
