"""What a candidate is, beside what its text says: named like the question, a function, a test.

Weights were tuned on flask, scrapy, sympy, curl, zod, mongodb and xterm.js, and are round.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from composer_index.words import split_words

NAME_COVERED = 0.4
"""For a name all of whose words the question has."""
QUESTION_COVERED = 1.0
"""For a name that has all of the question's words."""
EXACT_NAME = 0.5
"""For a name that stands in the question as an identifier: `get_url`, `HTTPServer`."""
FUNCTION = 0.5
"""For the chunk in which a function begins: it is asked for what code does."""
TEST = 0.65
"""Times this, in a test: it repeats the words of what it tests."""
PROSE = 0.5
"""Times this, for documents and data."""

_PROSE_LANGUAGES = frozenset(
    [
        "markdown",
        "plaintext",
        "restructuredtext",
        "json",
        "jsonc",
        "yaml",
        "toml",
        "ini",
        "html",
        "css",
        "scss",
        "xml",
        "latex",
    ]
)
_TEST_PATH = re.compile(
    r"(^|/)(tests?|testing|testdata|__tests__|specs?|fixtures|examples?|bench\w*|mocks?)/"
    r"|(^|/)(test_|conftest)|_tests?\.|\.tests?\.|\.spec\.",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d]\w*")
_IDENTIFIER = re.compile(r".*(_|[a-z0-9][A-Z])")


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    path: str
    """POSIX, relative to the workspace's root."""
    language: str
    """LSP language id."""
    names: tuple[str, ...]
    """Of the definitions that begin in the chunk, and of the innermost that it lies in."""
    is_function: bool
    """A function, a method or a macro begins in it."""


def boost(query: str, words: Collection[str], candidate: Candidate) -> float:
    """Returns what to multiply the fused score by; `words` are the `query_words` of `query`."""
    factor = 1.0
    if candidate.names:
        found = [(name, len(name.intersection(words))) for name in _words_of(candidate.names)]
        factor += NAME_COVERED * max(count / len(name) for name, count in found)
        factor += QUESTION_COVERED * max(count for _, count in found) / max(1, len(words))
        factor += EXACT_NAME * (not _identifiers(query).isdisjoint(candidate.names))
    factor += FUNCTION * candidate.is_function
    if is_test(candidate.path):
        factor *= TEST
    if candidate.language in _PROSE_LANGUAGES:
        factor *= PROSE
    return factor


@lru_cache(maxsize=50_000)
def is_test(path: str) -> bool:
    """Whether a path looks like that of a test, an example or a benchmark."""
    return _TEST_PATH.search(path) is not None


@lru_cache(maxsize=5000)
def _words_of(names: tuple[str, ...]) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(split_words(name) or [name]) for name in names)


@lru_cache(maxsize=8)
def _identifiers(query: str) -> frozenset[str]:
    """The words of a question that are written as no prose is."""
    return frozenset(word for word in _WORD.findall(query) if _IDENTIFIER.match(word))
