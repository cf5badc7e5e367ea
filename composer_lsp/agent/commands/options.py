"""Which options a program was given, read as carefully as a program reads them itself."""

from collections.abc import Iterable, Sequence

from composer_lsp.agent.commands.words import Word


def has_option(args: Sequence[Word], names: Iterable[str]) -> bool:
    """Whether any of the options is among the arguments, or may be: long ones may be shortened,
    short ones joined (`-xvo`), and an argument that is not known may be any of them. What follows a
    `--` is looked at as well."""
    names = tuple(names)
    return any(_may_be(word, names) for word in args)


def _may_be(word: Word, names: Sequence[str]) -> bool:
    if not word.may_be_option:
        return False
    if not word.is_literal or word.text is None:
        return True
    return any(_is_option(word.text, name) for name in names)


def _is_option(text: str, name: str) -> bool:
    if name.startswith("--"):
        given = text.partition("=")[0]
        return len(given) > 2 and name.startswith(given)
    if len(name) > 2:  # find's `-exec`
        return text == name
    return not text.startswith("--") and name[1] in text[1:]


def positional(args: Sequence[Word]) -> list[Word]:
    """The arguments that are no options. The value of an option counts as one."""
    return [word for word in args if not word.may_be_option]
