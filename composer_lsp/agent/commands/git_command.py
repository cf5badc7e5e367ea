"""One call of git in a command line, and what of the repository it may show."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from composer_lsp.agent.commands.command import Assignment, Program
from composer_lsp.agent.commands.git_options import split_git
from composer_lsp.agent.commands.options import has_option
from composer_lsp.agent.commands.words import Word

_PLAIN = frozenset({"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"})
"""Options before the subcommand that change nothing of what it shows."""
_OBEYS = frozenset({"-c", "--config-env", "--exec-path"})
"""Make git run something else."""
_ELSEWHERE = frozenset({"--git-dir", "--work-tree"}) | {
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_OBJECT_DIRECTORY",
}
"""Name another repository, as an option or a variable."""
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


@dataclass(frozen=True, slots=True)
class GitCommand:
    options: Sequence[Sequence[Word]]
    """Git's own, each with its value."""
    words: Sequence[Word]
    """The subcommand with what follows."""
    assignments: Sequence[Assignment]

    @classmethod
    def of(cls, program: Program) -> "GitCommand | None":
        """None: it is not git that is called."""
        if program.base_name != "git":
            return None
        return cls(*split_git(program.args), program.assignments)

    @property
    def may_show(self) -> bool:
        """Files' text, from wherever git has it."""
        if not self.words:
            return any(not word.is_literal for word in self._option_words)
        if not _OBEYS.isdisjoint(self._option_names):
            return True
        if self._name in _SHOW_BY_OPTION:
            return has_option(self.words[1:], _SHOW_BY_OPTION[self._name])
        return self._name not in _SHOW_NO_TEXT

    @property
    def gives_names(self) -> bool:
        """To what a later command shows."""
        return self._name in _NAME_OBJECTS

    @property
    def unknown(self) -> str | None:
        """What it may show that cannot be told before it runs."""
        options = self._option_words
        by_name = () if self._name in _BY_NO_NAME else _before_dashes(self.words)
        for word in (*options, *by_name):
            if _text(word) is None:
                return f"what {word.source} names"
        assigned = {item.name for item in self.assignments}
        if not (_ELSEWHERE.isdisjoint(self._option_names) and _ELSEWHERE.isdisjoint(assigned)):
            return "what another repository holds"
        literal = [word for word in self.words if word.is_literal]
        if self._name in _READ_NAMES or has_option(literal, _READING):
            return "objects that the line does not name"
        return None

    @property
    def names(self) -> Iterator[str]:
        """What may name objects among its words; an object's hash may be a part of one."""
        for word in _before_dashes(self.words[1:]):
            text = _text(word)
            if text and not text.startswith("-"):
                for name in re.split(r"\.{2,3}", text.removeprefix("^")):
                    if name and name.isprintable() and " " not in name:
                        yield name
                        if not name.startswith(":"):
                            yield name.partition(":")[0]
        for word in self.words[1:]:
            if word.text:
                yield from _HASH.findall(word.text)

    def is_kept_from(self, secret: Path, folder: Path) -> bool:
        """Whether it names paths after `--` that the secret is not in, and nothing by
        `COMMIT:PATH`, when it runs in `folder`."""
        before = _before_dashes(self.words)
        named = self.words[len(before) + 1 :]
        if not named or not all(word.text in _PLAIN for word in self._option_words):
            return False
        if any(":" in word.source for word in self.words) or has_option(before[1:], _BEYOND_PATHS):
            return False
        return all(_is_apart(word, secret, folder) for word in named)

    @property
    def _name(self) -> str | None:
        return self.words[0].text if self.words and self.words[0].is_literal else None

    @property
    def _option_names(self) -> set[str]:
        return {word.text.partition("=")[0] for word in self._option_words if word.text}

    @property
    def _option_words(self) -> list[Word]:
        return [word for words in self.options for word in words]


def _text(word: Word) -> str | None:
    if word.text is None and _REVISION.fullmatch(word.source):
        return word.source
    return word.text


def _before_dashes(words: Sequence[Word]) -> Sequence[Word]:
    texts = [word.text for word in words]
    return words[: texts.index("--")] if "--" in texts else words


def _is_apart(word: Word, secret: Path, folder: Path) -> bool:
    if not word.is_literal or word.text is None or not _WILDCARDS.isdisjoint(word.text):
        return False
    path = os.path.normpath(folder / word.text)
    return not secret.is_relative_to(path)
