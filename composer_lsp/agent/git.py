"""What git says of a workspace, read without a lock and without changing anything."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

_TIME_LIMIT_S = 10.0
_MAX_DIFF_CHARS = 200_000
"""Of the uncommitted diff that a transcript holds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GitState:
    """Empty texts where there is no repository, or no git."""

    commit: str = ""
    branch: str = ""
    status: str = ""
    """As `git status --short` prints it."""
    diff: str = ""
    """Of the tracked files against the commit; cut off at 200,000 characters."""


async def read_git(root: str) -> GitState:
    commit, branch, status, diff = await asyncio.gather(
        _git(root, "rev-parse", "HEAD"),
        _git(root, "branch", "--show-current"),
        _git(root, "status", "--short", "--no-renames", "--", "."),
        _git(root, "diff", "--no-ext-diff", "--no-textconv", "HEAD", "--", "."),
    )
    return GitState(
        commit=commit.strip(),
        branch=branch.strip(),
        status=status.rstrip(),
        diff=diff[:_MAX_DIFF_CHARS],
    )


async def _git(root: str, *arguments: str) -> str:
    """What it prints, empty when it fails."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "GIT_OPTIONAL_LOCKS": "0",
        "LC_ALL": "C.UTF-8",
    }
    # A repository's own settings must not run programs.
    safe: Sequence[str] = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
    try:
        process = await asyncio.create_subprocess_exec(
            "git",
            *safe,
            *arguments,
            cwd=root,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return ""
    try:
        async with asyncio.timeout(_TIME_LIMIT_S):
            output, _ = await process.communicate()
    except TimeoutError:
        return ""
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return output.decode("utf-8", "replace") if process.returncode == 0 else ""
