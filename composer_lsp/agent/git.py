"""What git says of a workspace, read without a lock and without changing or running anything."""

import asyncio
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from composer_index.ignores import HiddenFiles
from composer_index.ignores.git import OPTIONS, SETTING_NAMES, GitError, environment, filters_off

_TIME_LIMIT_S = 10.0
_MAX_DIFF_CHARS = 200_000
"""Of the uncommitted diff that a transcript holds."""
_STATUS = ("status", "--short", "--no-renames", "--ignore-submodules=dirty", "--", ".")
_DIFF = (
    *("-c", "diff.relative=false", "diff", "--no-ext-diff", "--no-textconv", "--no-renames"),
    *("--ignore-submodules=dirty", "--submodule=short"),
)
"""A submodule is not looked into: git would run what its own settings say."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GitState:
    """Empty texts where there is no repository, or no git."""

    commit: str = ""
    branch: str = ""
    status: str = ""
    """As `git status --short` prints it."""
    diff: str = ""
    """Of the tracked files against the commit, hidden ones left out; cut off at 200,000
    characters."""


async def read_git(root: str) -> GitState:
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
        diff=diff[:_MAX_DIFF_CHARS],
    )


async def _diff(root: str, *options: str) -> str:
    """Empty where it cannot be told which files are hidden."""
    diff = (*options, *_DIFF)
    try:
        top = os.fsdecode(await _git(root, "rev-parse", "--show-toplevel")).removesuffix("\n")
        names = await _git(root, *diff, "--name-only", "-z", "HEAD", "--", ".")
    except GitError:
        return ""
    hidden = await asyncio.to_thread(_hidden, top, os.fsdecode(names).split("\0"))
    left_out = [f":(top,literal,exclude){path}" for path in hidden]
    return await _text(root, *diff, "HEAD", "--", ".", *left_out)


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
