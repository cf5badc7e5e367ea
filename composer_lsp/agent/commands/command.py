"""What a shell command line would run, as far as that can be told before it runs."""

from dataclasses import dataclass

from composer_lsp.agent.commands.words import Word


@dataclass(frozen=True, slots=True)
class Assignment:
    name: str
    value: Word
    is_exported: bool
    """Programs see it in their environment, for sure."""


@dataclass(frozen=True, slots=True)
class Redirect:
    operator: str
    target: Word

    @property
    def writes(self) -> bool:
        return ">" in self.operator


@dataclass(frozen=True, slots=True)
class Program:
    """One simple command. Builtins of the shell are programs too."""

    words: tuple[Word, ...]
    """Its name, literal, then its arguments."""
    assignments: tuple[Assignment, ...] = ()
    """Those written before it."""
    runs_others: bool = False
    """A wrapper (`env`, `timeout`, `xargs`, `bash -c`) that does nothing but run other programs of
    the line."""

    @property
    def name(self) -> str:
        return self.words[0].text or ""

    @property
    def base_name(self) -> str:
        """Without the folder that it was called in."""
        return self.name.rpartition("/")[2]

    @property
    def args(self) -> tuple[Word, ...]:
        return self.words[1:]

    def __str__(self) -> str:
        return " ".join(word.source for word in self.words)


@dataclass(frozen=True, slots=True)
class Command:
    """A whole line: every program that may run, whether its branch is taken or not."""

    line: str
    programs: tuple[Program, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    """Of shell variables, loops' among them; not those before a program."""
    unknown: tuple[str, ...] = ()
    """What cannot be told before the line runs, as in "runs …". Empty: the rest is complete."""
    fork_bombs: tuple[str, ...] = ()
    """Functions that start several of themselves."""
