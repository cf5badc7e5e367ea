"""Words by which a command tells git what to run or to obey, whatever git does with the rest.

A rule such as `git *` means what git does; it is no leave to make git run something else.
"""

from collections.abc import Sequence

from composer_lsp.agent.commands.command import Program
from composer_lsp.agent.commands.words import Word

_SETTING = frozenset({"-c", "--bare", "--config-env", "--exec-path", "--git-dir"})
_VALUED = frozenset(
    ["-C", "-c", "--attr-source", "--config-env", "--exec-path", "--git-dir", "--namespace"]
) | {"--super-prefix", "--work-tree"}
"""Git's options before its subcommand that may take the next word."""
_READS_CONFIG = frozenset({"--get", "--get-all", "--get-regexp", "--list", "-l"})


def git_settings(program: Program) -> tuple[str, ...]:
    """Those words, which a rule that allows them has to the letter; `NAME=` for a variable. What is
    not known before it runs is named as it is written. Empty for other programs than git."""
    if program.name.rpartition("/")[2] != "git":
        return ()
    assigned = [item.name for item in program.assignments if item.name.startswith("GIT_")]
    return (*(f"{name}=" for name in assigned), *_words(list(program.args)))


def after_git_options(args: Sequence[Word]) -> list[Word]:
    """Git's subcommand and what follows."""
    return list(args[_num_options(args) :])


def _words(args: Sequence[Word]) -> list[str]:
    found: list[str] = []
    at, end = 0, _num_options(args)
    while at < end:
        width = _width(args[at])
        words = args[at : at + width]
        name = (args[at].text or "").partition("=")[0]
        if name in _SETTING or not all(word.is_literal for word in words):
            found += [word.text if word.is_literal and word.text else word.source for word in words]
        at += width
    rest = args[end:]
    if rest and not rest[0].is_literal:
        found.append(rest[0].source)
    elif rest and rest[0].text == "config" and not _only_reads(rest[1:]):
        found.append("config")
    return found


def _only_reads(args: Sequence[Word]) -> bool:
    return bool(args) and args[0].is_literal and args[0].text in _READS_CONFIG


def _num_options(args: Sequence[Word]) -> int:
    num = 0
    while num < len(args) and args[num].may_be_option:
        num += _width(args[num])
    return min(num, len(args))


def _width(option: Word) -> int:
    return 2 if option.text in _VALUED else 1
