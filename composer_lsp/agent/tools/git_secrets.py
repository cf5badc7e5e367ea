"""Secrets that git has a copy of: what covers a file on the disk does not cover those.

Known limits: a program other than git that reads the repository's own folder, and a history that
cannot be gone through within seconds, of which only the index and the last commit count.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from composer_index.ignores import ComposerIgnore, is_secret_path
from composer_index.ignores.git import GitError, output
from composer_lsp.agent.commands import parse
from composer_lsp.agent.commands.command import Program
from composer_lsp.agent.commands.options import has_option
from composer_lsp.agent.commands.words import Word

_VALUED = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"})
_SHOW_NO_TEXT = frozenset(
    [
        "add",
        "branch",
        "check-ignore",
        "clean",
        "commit",
        "config",
        "count-objects",
        "describe",
        "fetch",
        "for-each-ref",
        "gc",
        "init",
        "ls-files",
        "ls-remote",
        "ls-tree",
        "merge-base",
        "mv",
        "name-rev",
        "pull",
        "push",
        "remote",
        "rev-list",
        "rev-parse",
        "rm",
        "shortlog",
        "show-ref",
        "status",
        "symbolic-ref",
        "tag",
        "version",
    ]
)
_LOGS = frozenset({"log", "reflog", "whatchanged"})
_PATCHES = (
    *("-p", "-u", "-L", "-G", "-S", "-c", "-m", "-U", "-W", "--patch", "--patch-with-stat", "--cc"),
    *("--patch-with-raw", "--unified", "--function-context", "--word-diff", "--color-words"),
    *("--full-diff", "--remerge-diff", "--diff-merges", "--dd", "--binary", "--pickaxe-all"),
)
_HISTORY_S = 3.0


def secret_that_git_may_show(line: str, folder: Path) -> str | None:
    """A hidden file whose text git may print when the line runs in `folder`: in the index, in the
    last commit, or in any that a branch leads to. Asks git: 10 ms and more, up to seconds."""
    programs = [program for program in parse(line).programs if _may_show(program)]
    if not programs:
        return None
    top, paths = _known_to_git(folder)
    ignore = ComposerIgnore()
    secrets = [
        path
        for path in paths
        if is_secret_path(f"{top}/{path}") or ignore.hidden_by(f"{top}/{path}") is not None
    ]
    for path in secrets:
        if not all(_is_kept_from(program, Path(top, path), folder) for program in programs):
            return path
    return None


def _may_show(program: Program) -> bool:
    if program.name.rpartition("/")[2] != "git":
        return False
    words = list(program.args)
    while words and words[0].may_be_option:
        del words[: 2 if words[0].text in _VALUED else 1]
    if not words or words[0].text in _SHOW_NO_TEXT:
        return False
    return words[0].text not in _LOGS or has_option(words[1:], _PATCHES)


def _is_kept_from(program: Program, secret: Path, folder: Path) -> bool:
    """Whether it names paths after `--` that the secret is not in, and nothing by `COMMIT:PATH`."""
    texts = [word.text for word in program.args]
    if "--" not in texts or any(word.text in _VALUED for word in program.args):
        return False
    at = texts.index("--")
    named = program.args[at + 1 :]
    if not named or any(":" in word.source for word in program.args):
        return False
    return all(_is_apart(word, secret, folder) for word in named)


def _is_apart(word: Word, secret: Path, folder: Path) -> bool:
    if not word.is_literal or word.text is None:
        return False
    path = os.path.normpath(folder / word.text)
    return not secret.is_relative_to(path)


def _known_to_git(folder: Path) -> tuple[str, Sequence[str]]:
    """The repository's folder, and the paths in it; nothing where there is none."""
    try:
        top = os.fsdecode(output(str(folder), "rev-parse", "--show-toplevel")).rstrip("\n")
        found = output(top, "ls-files", "-z")
    except GitError:
        return "", ()
    more = (
        (("ls-tree", "-r", "-z", "--name-only", "HEAD"), None),
        (("log", "--all", "--name-only", "-z", "--format=", "--no-renames", "-m"), _HISTORY_S),
    )
    for arguments, timeout_s in more:
        try:
            found += output(top, *arguments, timeout_s=timeout_s)
        except GitError:
            continue  # no commit yet, or a long history
    return top, sorted({path for path in os.fsdecode(found).split("\0") if path})
