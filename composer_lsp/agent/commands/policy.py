"""May this command run: decided from what it would run and the user's rules, never by the model.

Each part of a line is decided by itself; deny goes before ask, and ask before allow.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

from composer_lsp.agent.commands.access import Access, needed_access
from composer_lsp.agent.commands.command import Assignment, Command, Program, Redirect
from composer_lsp.agent.commands.forbidden import why_forbidden
from composer_lsp.agent.commands.git_settings import git_settings
from composer_lsp.agent.commands.harmless import is_harmless
from composer_lsp.agent.commands.rules import Decision, Rule, trusted_name
from composer_lsp.agent.commands.words import Word

_HARMLESS_VARIABLES = frozenset(
    [
        "CI",
        "COLUMNS",
        "FORCE_COLOR",
        "LANG",
        "LANGUAGE",
        "LC_ALL",
        "LC_COLLATE",
        "LC_CTYPE",
        "LC_MESSAGES",
        "LC_NUMERIC",
        "LC_TIME",
        "LINES",
        "NODE_ENV",
        "NO_COLOR",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONHASHSEED",
        "PYTHONUNBUFFERED",
        "RUST_BACKTRACE",
        "TERM",
        "TZ",
    ]
)
_READABLE_FOLDERS = ("/usr", "/bin", "/lib", "/lib64", "/opt", "/nix/store", "/tmp", "/dev/fd")
_READABLE_FILES = frozenset(
    ["/dev/null", "/dev/stdin", "/dev/zero", "/etc/os-release", "/proc/cpuinfo", "/proc/meminfo"]
)
_WRITABLE_FILES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})
_PRIVATE_FOLDER = "/tmp"
_NAMES_NO_FILES = frozenset(["[", "basename", "dirname", "echo", "printf", "test"])
_NONE = Access()
_ORDER: tuple[Decision, ...] = ("allow", "ask", "deny")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command would run."""

    cwd: Path
    roots: tuple[Path, ...]
    """The workspace's folders. All paths are absolute and without links."""
    is_sandboxed: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    decision: Decision
    reason: str
    """Why, for the user and the model: a sentence without its subject, as in "writes out.txt"."""
    part: str = ""
    """The program, file or assignment that decided; "" for the line as a whole."""
    access: Access = _NONE
    """What it gets if it runs."""


class Policy:
    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self.rules = tuple(rules)

    def decide(self, command: Command, place: Place, *, wanted: Access = _NONE) -> Verdict:
        """`wanted`: what was asked for beyond what the line's programs need."""
        needed = reduce(Access.__or__, map(needed_access, command.programs), wanted)
        findings = [*self._of_line(command), *self._of_parts(command, place)]
        if wanted != _NONE:
            findings.append(Verdict("ask", f"wants {wanted}"))
        findings += self._of_sharing(command, needed)
        if not place.is_sandboxed:
            findings.append(Verdict("ask", "would run outside of a sandbox"))
        worst = max(findings, key=lambda found: _ORDER.index(found.decision))
        return Verdict(worst.decision, worst.reason, worst.part, needed)

    def _of_line(self, command: Command) -> Iterator[Verdict]:
        for rule in self.rules:
            if rule.decision != "allow" and rule.matches_line(command):
                yield _by_rule(rule, command.line)
        if not command.programs and not command.unknown:
            yield Verdict("ask", "runs no program")

    def _of_parts(self, command: Command, place: Place) -> Iterator[Verdict]:
        for part, why in why_forbidden(command, str(place.cwd)):
            yield Verdict("deny", why, part)
        for program in command.programs:
            for rule in self.rules:
                if rule.decision != "allow" and rule.matches(program):
                    yield _by_rule(rule, str(program))
        allowing = [rule for rule in self.rules if rule.decision == "allow"]
        for rule in allowing:
            if rule.matches_line(command):
                yield _by_rule(rule, command.line)
                return
        for why in command.unknown:
            yield Verdict("ask", why)
        for redirect in command.redirects:
            yield _of_redirect(redirect, place)
        for assignment in command.assignments:
            yield _of_assignment(assignment)
        for program in command.programs:
            yield self._of_program(program, allowing, place)

    def _of_program(self, program: Program, allowing: Sequence[Rule], place: Place) -> Verdict:
        part = str(program)
        if self._hides_a_rule(program):
            return Verdict("ask", "has arguments that are not known, which a rule may forbid", part)
        settings = git_settings(program)
        for rule in allowing:
            if rule.matches(program) and rule.names(settings):
                return _by_rule(rule, part)
        if settings:
            why = f"tells git by {settings[0]} what to run or obey, which no rule of yours names"
            return Verdict("ask", why, part)
        for assignment in program.assignments:
            if (found := _of_assignment(assignment)).decision != "allow":
                return found
        if program.runs_others:
            return Verdict("allow", "runs other programs of the line", part)
        if not is_harmless(program):
            return Verdict("ask", "is not known to be harmless", part)
        if trusted_name(program) not in _NAMES_NO_FILES:
            for word in program.args:
                if (path := _foreign_path(word, place)) is not None:
                    return Verdict("ask", f"reads {path}, outside of the workspace", part)
        return Verdict("allow", "only reads", part)

    def _hides_a_rule(self, program: Program) -> bool:
        """Whether an unknown argument may make it one that a rule forbids or asks about."""
        return not all(word.is_literal for word in program.args) and any(
            rule.decision != "allow" and rule.pattern.split(" ")[0] == trusted_name(program)
            for rule in self.rules
        )

    def _of_sharing(self, command: Command, needed: Access) -> Iterator[Verdict]:
        """A line is given access as a whole, so what gets it must not be shared."""
        others = [
            program
            for program in command.programs
            if not program.runs_others
            and needed_access(program) != needed
            and not is_harmless(program)
        ]
        if needed != _NONE and others:
            yield Verdict("ask", f"would share {needed} with other programs", str(others[0]))


def _by_rule(rule: Rule, part: str) -> Verdict:
    return Verdict(rule.decision, f"matches your rule “{rule}”", part)


def _of_assignment(assignment: Assignment) -> Verdict:
    """A variable of the shell alone, in small letters, reaches no program."""
    name = assignment.name
    is_harmless_name = name in _HARMLESS_VARIABLES or (
        not assignment.is_exported
        and name.islower()
        and not name.endswith("_proxy")
        and not name.startswith("npm_")
    )
    if is_harmless_name:
        return Verdict("allow", "is a harmless variable", name)
    return Verdict("ask", f"sets {name}, which may change what runs", name)


def _of_redirect(redirect: Redirect, place: Place) -> Verdict:
    text = redirect.target.text
    if redirect.operator.endswith("&") and (text or "").rstrip("-").isdigit():
        return Verdict("allow", "joins two streams")
    if not redirect.writes:
        path = _foreign_path(redirect.target, place)
        if path is None:
            return Verdict("allow", "reads a file")
        return Verdict("ask", f"reads {path}, outside of the workspace", redirect.target.source)
    if redirect.target.is_literal and text in _WRITABLE_FILES:
        return Verdict("allow", "writes nothing")
    if redirect.target.is_literal and place.is_sandboxed and _is_private(text or "", place):
        return Verdict("allow", "writes to the sandbox's own folder")
    return Verdict("ask", f"writes {redirect.target.source}", redirect.target.source)


def _is_private(text: str, place: Place) -> bool:
    path = Path(os.path.normpath(place.cwd / text))
    return path.is_relative_to(_PRIVATE_FOLDER) and not _is_in(path, place.roots)


def _foreign_path(word: Word, place: Place) -> str | None:
    """The path outside of the workspace that an argument names, if such a file is there; the
    machine's own programs and libraries are nobody's secret."""
    text = word.prefix if word.text is None else word.text
    if text.startswith("-"):
        text = text.partition("=")[2] or text[2:]
    if text.startswith("~"):
        return text
    if not text.startswith("/") and ".." not in text.split("/"):
        return None
    path = Path(os.path.normpath(place.cwd / text))
    nearest = path if word.is_literal else path.parent
    is_known = _is_in(path, place.roots) or str(path) in _READABLE_FILES
    if is_known or _is_in(path, map(Path, _READABLE_FOLDERS)) or not os.path.lexists(nearest):
        return None
    return str(path)


def _is_in(path: Path, folders: "Sequence[Path] | map[Path]") -> bool:
    return any(path.is_relative_to(folder) for folder in folders)
