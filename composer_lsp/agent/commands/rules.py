"""The user's rules for commands, and the small language they are written in.

A rule is a decision and a pattern. A pattern is the words of a program, quoted as in a shell:

- `git status` is that program with exactly these arguments.
- A `*` at the end, by itself, stands for any further arguments, or none: `pytest *`.
- A `*` by itself elsewhere stands for one argument.
- A `*` within a word stands for any characters but `/`: `npm run test:*`, `cat docs/*.md`. It does not
  match `..`.
- `NAME=value` words before the program's name stand for the environment that it is given:
  `PYTHONPATH=src pytest *`.
- `= LINE` is one whole command line, to the letter, whatever it runs.
"""

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from composer_lsp.agent.commands.command import Command, Program
from composer_lsp.agent.commands.git_options import split_git
from composer_lsp.agent.commands.words import Word

Decision = Literal["allow", "ask", "deny"]

TRUSTED_FOLDERS = ("/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/")


class RuleError(ValueError):
    """A rule that cannot be read; the message names it and says what is wrong."""


@dataclass(frozen=True, slots=True)
class Rule:
    decision: Decision
    pattern: str

    def __post_init__(self) -> None:
        """Raises: RuleError."""
        if not self.line and _words_of(self.pattern) in ((), ("=",)):
            raise RuleError(f"the rule {self.pattern!r} names no program")

    def __str__(self) -> str:
        return f"{self.decision} {self.pattern}"

    @property
    def line(self) -> str:
        """The whole line that it is about; "" for a rule about a program."""
        return self.pattern[2:].strip() if self.pattern.startswith("= ") else ""

    def matches_line(self, command: Command) -> bool:
        return bool(self.line) and self.line == command.line.strip()

    def matches(self, program: Program) -> bool:
        """An argument that is not known before the program runs is matched by a `*` by itself. To
        forbid, or to ask, a rule is matched as well by the program under another folder, and by git
        with options before its subcommand."""
        if self.line:
            return False
        forms = [_form(program)]
        if self.decision != "allow":
            forms.append(_form(program, is_loose=True))
        return any(_matches(_words_of(self.pattern), form) for form in forms)

    def names(self, texts: Iterable[str]) -> bool:
        """Whether it has each of these words to the letter; of `NAME=`, what begins so."""
        words = _words_of(self.pattern)
        return all(
            any(word.startswith(text) if text.endswith("=") else word == text for word in words)
            for text in texts
        )


def exact_rule(decision: Decision, program: Program) -> Rule | None:
    """The rule for a program with just its arguments; None if they are not known."""
    words = [
        *(f"{item.name}={item.value.text}" for item in program.assignments),
        *(word.text or "" for word in program.words),
    ]
    is_literal = all(item.value.is_literal for item in program.assignments) and all(
        word.is_literal for word in program.words
    )
    if not is_literal or any("*" in word for word in words):
        return None
    return Rule(decision, shlex.join(words))


def trusted_name(program: Program) -> str:
    """Its name, without the folders that only the system's own programs are in."""
    for folder in TRUSTED_FOLDERS:
        if program.name.startswith(folder) and "/" not in program.name[len(folder) :]:
            return program.name[len(folder) :]
    return program.name


@lru_cache(maxsize=512)
def _words_of(pattern: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(pattern))
    except ValueError as error:
        raise RuleError(f"the rule {pattern!r} cannot be read: {error}") from error


def _form(program: Program, *, is_loose: bool = False) -> list[Word]:
    name, args = trusted_name(program), list(program.args)
    assigned = [
        Word("", f"{item.name}={item.value.text}", "", item.value.is_literal)
        for item in program.assignments
    ]
    if is_loose:
        name, assigned = name.rpartition("/")[2], []
        if name == "git":
            args = split_git(args)[1]
    return [*assigned, Word(name, name, name, True), *args]


def _matches(pattern: Sequence[str], words: Sequence[Word]) -> bool:
    has_rest = bool(pattern) and pattern[-1] == "*"
    fixed = pattern[:-1] if has_rest else pattern
    if len(words) < len(fixed) or (len(words) > len(fixed) and not has_rest):
        return False
    return all(_matches_word(text, word) for text, word in zip(fixed, words, strict=False))


def _matches_word(pattern: str, word: Word) -> bool:
    if pattern == "*":
        return True
    if not word.is_literal or word.text is None:
        return False
    if "*" not in pattern:
        return pattern == word.text
    regex = "[^/]*".join(re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(regex, word.text) is not None and ".." not in word.text.split("/")
