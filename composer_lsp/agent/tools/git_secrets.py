"""Secrets that git has a copy of: what covers a file on the disk does not cover those.

Known limits: a program other than git that reads the repository's own folder, a patch that names
an object which git applies, what the same line fetches, and a history that cannot be gone through
within seconds, of which only the index and the last commit count.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from composer_index.ignores import ComposerIgnore, is_secret_path
from composer_index.ignores.git import GitError, output
from composer_lsp.agent.commands import parse
from composer_lsp.agent.commands.command import Program
from composer_lsp.agent.commands.options import has_option
from composer_lsp.agent.commands.words import Word

_VALUED = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"}) | {
    "--attr-source",
    "--config-env",
}
_PLAIN = frozenset({"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"})
"""Options before the subcommand that change nothing of what it shows."""
_SHOW_NO_TEXT = frozenset(
    [
        "check-ignore",
        "clean",
        "count-objects",
        "describe",
        "fetch",
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
        "symbolic-ref",
        "version",
    ]
)
_PATCHES = (
    *("-p", "-u", "-L", "-G", "-S", "-c", "-m", "-U", "-W", "--patch", "--patch-with-stat", "--cc"),
    *("--patch-with-raw", "--unified", "--function-context", "--word-diff", "--color-words"),
    *("--full-diff", "--remerge-diff", "--diff-merges", "--dd", "--binary", "--pickaxe-all"),
    "--check",
)
_SHOW_BY_OPTION = {
    "add": ("-p", "-i", "-e", "--patch", "--interactive", "--edit"),
    "branch": ("--format",),
    "commit": (
        *("-v", "-p", "-c", "-e", "-z", "--verbose", "--dry-run", "--short", "--porcelain"),
        *("--long", "--null", "--patch", "--interactive", "--edit", "--reedit-message"),
    ),
    "config": ("--blob",),
    "for-each-ref": ("--format",),
    "status": ("-v", "--verbose"),
    "tag": ("-v", "--verify", "--format"),
    **dict.fromkeys(("log", "reflog", "whatchanged"), _PATCHES),
}
"""Show a file's text with one of the options alone."""
_NAME_OBJECTS = frozenset({"branch", "replace", "symbolic-ref", "tag", "update-ref"})
"""Give a name to what a later command shows."""
_BY_NO_NAME = frozenset({"add", "commit", "config", "status"})
"""Show nothing that a word names."""
_READ_NAMES = frozenset({"fast-import", "index-pack", "mktree", "pack-objects", "unpack-objects"})
_READING = ("--batch", "--batch-command", "--index-info", "--lost-found", "--stdin")
"""Those, and options, that show or name objects which the line does not name."""
_BEYOND_PATHS = ("--follow", "--full-diff", "--no-index", "--pathspec-from-file", "--stdin")
_WILDCARDS = frozenset("*?[\\:")
_HASH = re.compile(r"(?<![0-9A-Za-z])[0-9A-Fa-f]{4,64}(?![0-9A-Za-z])")
_REVISION = re.compile(r"[\w./@^:-][\w./@~^:-]*(?:[@^]\{\w*\}[\w./@~^:-]*)+|@\{\w*\}[\w./@~^:-]*")
"""With braces that the shell leaves as they are."""
_HISTORY_S = 3.0


def secret_that_git_may_show(line: str, folder: Path) -> str | None:
    """A hidden file whose text git may print when the line runs in `folder`: in the index, in the
    last commit, or in any that a branch or a reflog leads to. Or words for what may be one: an
    object that no path leads to, or that is not known before the line runs. Asks git: 10 ms and
    more, up to seconds."""
    command = parse(line)
    programs = [program for program in command.programs if _name(program) == "git"]
    shown = [program for program in programs if _may_show(program)]
    naming = [program for program in programs if _subcommand(program) in _NAME_OBJECTS]
    if not shown and not naming:
        return None
    for program in shown:
        if (unknown := _unknown(program)) is not None:
            return unknown
    has_settings = any(
        item.name.startswith("GIT_")
        for item in (*command.assignments, *(each for p in programs for each in p.assignments))
    )
    try:
        folders = list(dict.fromkeys(_folders(command.programs, folder)))
    except _UnknownFolderError as error:
        return str(error)
    for each in folders:
        objects = _Objects(each)
        found = objects.hidden_by_name([*shown, *naming])
        if found is None and shown:
            found = objects.secret_of(shown, may_be_apart=not has_settings and not naming)
        if found is not None:
            return found
    return None


class _UnknownFolderError(Exception):
    """Where git runs is not known; the text says what it may show."""


def _name(program: Program) -> str:
    return program.name.rpartition("/")[2]


def _split(program: Program) -> tuple[Sequence[Word], Sequence[Word]]:
    """Git's own options, with their values, and the subcommand with what follows."""
    words, at = program.args, 0
    while at < len(words) and words[at].may_be_option:
        at += 2 if words[at].text in _VALUED else 1
    return words[:at], words[at:]


def _subcommand(program: Program) -> str | None:
    words = _split(program)[1]
    return words[0].text if words and words[0].is_literal else None


def _may_show(program: Program) -> bool:
    options, words = _split(program)
    if not words:
        return any(not word.is_literal for word in options)
    name = _subcommand(program)
    if any(word.text in ("-c", "--config-env", "--exec-path") for word in options):
        return True
    if name in _SHOW_BY_OPTION:
        return has_option(words[1:], _SHOW_BY_OPTION[name])
    return name not in _SHOW_NO_TEXT


def _unknown(program: Program) -> str | None:
    """What it may show that cannot be told before it runs."""
    options, words = _split(program)
    by_name = () if _subcommand(program) in _BY_NO_NAME else _before_dashes(words)
    for word in (*options, *by_name):
        if _text(word) is None:
            return f"what {word.source} names"
    given = [word.text.partition("=")[0] for word in options if word.text]
    if any(name in ("--git-dir", "--work-tree") for name in given) or any(
        item.name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_OBJECT_DIRECTORY")
        for item in program.assignments
    ):
        return "what another repository holds"
    literal = [word for word in words if word.is_literal]
    if _subcommand(program) in _READ_NAMES or has_option(literal, _READING):
        return "objects that the line does not name"
    return None


def _text(word: Word) -> str | None:
    if word.text is None and _REVISION.fullmatch(word.source):
        return word.source
    return word.text


def _before_dashes(words: Sequence[Word]) -> Sequence[Word]:
    texts = [word.text for word in words]
    return words[: texts.index("--")] if "--" in texts else words


def _folders(programs: Iterable[Program], folder: Path) -> Iterator[Path]:
    """Where the line may run git. Raises: _UnknownFolderError."""
    yield folder
    at = folder
    for program in programs:
        if _name(program) in ("cd", "pushd"):
            at = _below(at, program.args[0] if program.args else None)
            yield at
        elif _name(program) == "git":
            options, _ = _split(program)
            there = at
            for option, value in pairwise(options):
                if option.text == "-C":
                    there = _below(there, value)
            yield there


def _below(folder: Path, word: Word | None) -> Path:
    if word is None or not word.is_literal or not word.text or word.text.startswith("-"):
        raise _UnknownFolderError(f"what lies in {'~' if word is None else word.source}")
    return Path(os.path.normpath(folder / word.text))


class _Objects:
    """Of the repository that a folder lies in; of none, there are none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            top = output(str(folder), "rev-parse", "--show-toplevel")
            self._top = os.fsdecode(top).removesuffix("\n")
        except GitError:
            self._top = ""
        self._ignore = ComposerIgnore()

    def secret_of(self, programs: Sequence[Program], *, may_be_apart: bool) -> str | None:
        for path in self._known():
            if self._is_hidden(path) and not (
                may_be_apart
                and all(
                    _is_kept_from(program, Path(self._top, path), self._folder)
                    for program in programs
                )
            ):
                return path
        return None

    def hidden_by_name(self, programs: Iterable[Program]) -> str | None:
        """What the programs name: a blob without its path, or a tree or an unknown commit with
        something hidden in it."""
        if not self._top:
            return None
        named = list(dict.fromkeys(name for program in programs for name in _named(program)))
        for name, kind in zip(named, self._kinds(named), strict=True):
            _, colon, path = name.partition(":")
            if kind == "ambiguous" or (kind == "blob" and not (colon and path)):
                return f"the file behind {name}"
            if kind == "blob" and self._is_hidden(path.removeprefix("./")):
                return path
            if kind in ("commit", "tree"):
                for found in self._names_in(name, kind):
                    if self._is_hidden(found):
                        return found
        return None

    def _is_hidden(self, path: str) -> bool:
        place = f"{self._top}/{path}"
        return is_secret_path(place) or self._ignore.hidden_by(place) is not None

    def _kinds(self, names: Sequence[str]) -> list[str]:
        """Empty for what names nothing."""
        asked = "".join(f"{name}^{{}}\n" if ":" not in name else f"{name}\n" for name in names)
        try:
            told = output(
                str(self._folder),
                *("cat-file", "--batch-check=%(objecttype)"),
                stdin=os.fsencode(asked),
            )
        except GitError:
            return ["ambiguous"] * len(names)
        lines = os.fsdecode(told).split("\n")[: len(names)]
        return [_kind(line) for line in lines]

    def _names_in(self, name: str, kind: str) -> list[str]:
        """Of a commit: those in it and before it that no branch and no reflog leads to."""
        if kind == "tree":
            return self._paths("ls-tree", "-r", "-z", "--name-only", "--full-tree", name)
        options = ("--name-only", "-z", "--format=", "--no-renames", "-m")
        others = ("--not", "--all", "--reflog", "HEAD")
        alone = self._paths("log", *options, name, *others, timeout_s=_HISTORY_S)
        return alone and [
            *alone,
            *self._paths("ls-tree", "-r", "-z", "--name-only", "--full-tree", name),
        ]

    def _known(self) -> list[str]:
        if not self._top:
            return []
        options = ("--name-only", "-z", "--format=", "--no-renames", "-m")
        paths = {
            *self._paths("ls-files", "-z"),
            *self._paths("ls-tree", "-r", "-z", "--name-only", "HEAD"),
            *self._paths("log", "--all", "--reflog", *options, timeout_s=_HISTORY_S),
        }
        return sorted(paths)

    def _paths(self, *arguments: str, timeout_s: float | None = None) -> list[str]:
        try:
            told = output(self._top, *arguments, timeout_s=timeout_s)
        except GitError:
            return []  # no commit yet, or a long history
        return [path for path in os.fsdecode(told).split("\0") if path]


def _kind(line: str) -> str:
    word = line.rpartition(" ")[2]
    return word if word in ("ambiguous", "blob", "commit", "tree") else ""


def _named(program: Program) -> Iterator[str]:
    """What may name objects among its words; an object's hash may be a part of one."""
    words = _split(program)[1]
    for word in _before_dashes(words[1:]):
        text = _text(word)
        if text and not text.startswith("-"):
            for name in re.split(r"\.{2,3}", text.removeprefix("^")):
                if name and name.isprintable() and " " not in name:
                    yield name
                    if not name.startswith(":"):
                        yield name.partition(":")[0]
    for word in words[1:]:
        if word.text:
            yield from _HASH.findall(word.text)


def _is_kept_from(program: Program, secret: Path, folder: Path) -> bool:
    """Whether it names paths after `--` that the secret is not in, and nothing by `COMMIT:PATH`."""
    options, words = _split(program)
    named = words[len(_before_dashes(words)) + 1 :]
    if not named or not all(word.text in _PLAIN for word in options):
        return False
    if any(":" in word.source for word in words) or has_option(
        _before_dashes(words)[1:], _BEYOND_PATHS
    ):
        return False
    return all(_is_apart(word, secret, folder) for word in named)


def _is_apart(word: Word, secret: Path, folder: Path) -> bool:
    if not word.is_literal or word.text is None or not _WILDCARDS.isdisjoint(word.text):
        return False
    path = os.path.normpath(folder / word.text)
    return not secret.is_relative_to(path)
