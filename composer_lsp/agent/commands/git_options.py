"""Git's own options, which stand before its subcommand."""

from collections.abc import Sequence

from composer_lsp.agent.commands.words import Word

_VALUED = frozenset(
    ["-C", "-c", "--attr-source", "--config-env", "--exec-path", "--git-dir", "--namespace"]
) | {"--super-prefix", "--work-tree"}
"""They may take the next word."""


def split_git(args: Sequence[Word]) -> tuple[list[Sequence[Word]], Sequence[Word]]:
    """Of git's arguments: its own options, each with the word that it may take, and the subcommand
    with what follows."""
    options: list[Sequence[Word]] = []
    at = 0
    while at < len(args) and args[at].may_be_option:
        width = 2 if args[at].text in _VALUED else 1
        options.append(args[at : at + width])
        at += width
    return options, args[at:]
