"""Text that is not ours, made fit to be shown: to the user in a question, to the model in a line."""

import unicodedata


def shown(text: str, max_chars: int) -> str:
    """One line of at most about `max_chars` characters; says how many more there are."""
    cut = text if len(text) <= max_chars else text[:max_chars]
    rest = f"… ({len(text) - len(cut):,} more characters)" if len(cut) < len(text) else ""
    return " ".join(seen(cut).split()) + rest


def seen(text: str) -> str:
    """The text with all escaped that could move a cursor, hide words or turn their direction. Line
    ends and tabs stay."""
    return "".join(
        each if each in "\n\t" or unicodedata.category(each) not in _UNSEEN else _escaped(each)
        for each in text
    )


_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
