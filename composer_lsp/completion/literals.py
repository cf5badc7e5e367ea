"""What of a text is no code: strings, comments and apostrophes, by language."""

import re
from functools import lru_cache

QUOTES = "\"'`"

_PROSE = frozenset({"plaintext", "markdown", "asciidoc", "latex", "restructuredtext", "git-commit"})
"""Languages in which `'` is an apostrophe."""
_CHAR_LITERALS = frozenset(
    {"c", "cpp", "csharp", "go", "haskell", "java", "kotlin", "ocaml", "rust", "scala", "zig"}
)
"""Languages in which `'` holds one character, or stands alone in a lifetime or a name."""

_LINE_COMMENTS = {
    "//": frozenset(
        {"c", "cpp", "csharp", "dart", "go", "java", "javascript", "javascriptreact", "kotlin"}
        | {"php", "rust", "scala", "swift", "typescript", "typescriptreact", "zig"}
    ),
    "#": frozenset(
        {"dockerfile", "elixir", "julia", "makefile", "perl", "php", "python", "r", "ruby"}
        | {"shellscript", "toml", "yaml"}
    ),
    "--": frozenset({"haskell", "lua", "sql"}),
}

_STRINGS = r"\"\"\"(?s:.)*?\"\"\"|\"(?:[^\"\\\n]|\\.)*\"|`(?:[^`\\\n]|\\.)*`"
"""Strings that end; a lone quote is an apostrophe or an open string."""
_SINGLE_QUOTED = r"(?:(?<!\w)|(?<=\b[bfruBFRU])|(?<=\b[bfrBFR]{2}))'(?:[^'\\\n]|\\.)*'"
"""A quote that follows a letter is an apostrophe, unless that is a prefix as in `f'…'`."""
_CHAR = r"'(?:[^'\\\n]|\\[^\n][^'\n]{0,8})'"
_LONE_QUOTE = re.compile(r"'(?=[^\W\d]\w*(?!['\w]))")
"""As in `&'a str`."""
_APOSTROPHE = re.compile(r"(?<=[^\W\d_])'(?=[^\W\d_])(?<!\b[bfruBFRU]')(?<!\b[bfrBFR]{2}')")


def line_comment(language_id: str) -> str:
    """What begins a comment that ends with its line; empty where nothing does, or it is unknown."""
    marks = (mark for mark, languages in _LINE_COMMENTS.items() if language_id in languages)
    return next(marks, "")


def blanked(text: str, language_id: str) -> str:
    """The text with blanks for its strings and comments."""
    return _literals(language_id).sub(lambda match: " " * len(match.group()), text)


def language_at(head: str, language_id: str) -> str:
    """The language at the end of a line's `head`: prose inside a comment."""
    is_comment = re.search(r"\S\s*\Z", head) and not blanked(head + ".", language_id)[-1:].strip()
    return "plaintext" if is_comment else language_id


def is_comment(line: str, language_id: str) -> bool:
    return not blanked(line, language_id).strip()


def count_quotes(text: str, quote: str, language_id: str) -> int:
    """How many times the quote opens or closes a string."""
    if quote == "'":
        if language_id in _PROSE:
            return 0
        text = (_LONE_QUOTE if language_id in _CHAR_LITERALS else _APOSTROPHE).sub("", text)
    return len(re.findall(rf"(?<!\\){quote}", text))


@lru_cache(maxsize=32)
def _literals(language_id: str) -> re.Pattern[str]:
    kinds = [_STRINGS]
    if language_id in _CHAR_LITERALS:
        kinds.append(_CHAR)
    elif language_id not in _PROSE:
        kinds.append(_SINGLE_QUOTED)
    for mark, languages in _LINE_COMMENTS.items():
        if language_id in languages:
            start = r"(?<!\S)#" if mark == "#" else mark
            kinds.append(rf"{start}[^\n]*")
            if mark == "//":
                kinds.append(r"/\*(?s:.)*?\*/")
    return re.compile("|".join(kinds))
