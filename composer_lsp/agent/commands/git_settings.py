"""Words by which a command tells git what to run or to obey, whatever git does with the rest.

A rule such as `git *` means what git does; it is no leave to make git run something else.
"""

from collections.abc import Iterator, Sequence

from composer_lsp.agent.commands.command import Program
from composer_lsp.agent.commands.git_options import split_git
from composer_lsp.agent.commands.words import Word

_SETTING = frozenset({"-c", "--bare", "--config-env", "--exec-path", "--git-dir"})
_READS_CONFIG = frozenset({"--get", "--get-all", "--get-regexp", "--list", "-l"})


def git_settings(program: Program) -> tuple[str, ...]:
    """Those words, which a rule that allows them has to the letter; `NAME=` for a variable. What is
    not known before it runs is named as it is written. Empty for other programs than git."""
    if program.base_name != "git":
        return ()
    assigned = [item.name for item in program.assignments if item.name.startswith("GIT_")]
    return (*(f"{name}=" for name in assigned), *_words(program.args))


def _words(args: Sequence[Word]) -> Iterator[str]:
    options, rest = split_git(args)
    for words in options:
        name = (words[0].text or "").partition("=")[0]
        if name in _SETTING or not all(word.is_literal for word in words):
            for word in words:
                yield word.text if word.is_literal and word.text else word.source
    if rest and not rest[0].is_literal:
        yield rest[0].source
    elif rest and rest[0].text == "config" and not _only_reads(rest[1:]):
        yield "config"


def _only_reads(args: Sequence[Word]) -> bool:
    return bool(args) and args[0].is_literal and args[0].text in _READS_CONFIG
