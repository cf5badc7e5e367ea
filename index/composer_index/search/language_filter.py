"""The languages that a search can be narrowed to."""

from difflib import get_close_matches

from composer_index.languages import LANGUAGES, language_named


class LanguageError(Exception):
    """No file is of that language; the message names it, and what may have been meant."""


def check_language(name: str) -> None:
    """Raises: LanguageError for what is no LSP language id that a file may have here."""
    if name in LANGUAGES:
        return
    called_so = language_named(name)
    near = [called_so.id] if called_so else get_close_matches(name.lower(), LANGUAGES)
    meant = f"; perhaps {' or '.join(near)}" if near else f"; there are {', '.join(LANGUAGES)}"
    raise LanguageError(f"{name!a} is no language that the index knows{meant}")
