"""Text to words: the one tokenization that both BM25 and the embedding table read.

Identifiers are split at underscores, case changes and digits (`HTTPServer_v2` gives http, server,
v, 2), lower-cased and lightly stemmed. What an identifier splits to is remembered, so a chunk costs
one regular expression and one look-up an identifier.
"""

import re
from collections.abc import Iterable
from itertools import chain

_RUN = re.compile(r"\w+")
_PART = re.compile(
    r"[A-Z]{2,}s(?![^\W\d_A-Z])"  # the plural of an acronym: URLs
    r"|[A-Z]+(?=[A-Z][^\W\d_A-Z])"  # an acronym before a word: HTTP of HTTPServer
    r"|[A-Z]?[^\W\d_A-Z]+"  # a word; a letter outside of ASCII counts as a small one
    r"|[A-Z]+"
    r"|\d+"
)
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
"""Kana and Han: scripts that write no space between words."""

_VOWELS = "aeiouy"

_MAX_REMEMBERED = 200_000
"""Entries (about 35 MB) after which the memory is emptied: a bound, seldom met."""

_MAX_RUN = 200
"""Characters: a longer run of letters and digits is data (base64, a hash), not words."""


def split_words(text: str) -> list[str]:
    """Returns `text`'s words in order, duplicates kept: lower-case, identifiers split, stemmed."""
    return list(chain.from_iterable(map(_REMEMBERED.__getitem__, _RUN.findall(text))))


def query_words(query: str) -> list[str]:
    """Returns the distinct words of a question in order, without those that ask for nothing, unless
    there are no others."""
    words = list(dict.fromkeys(split_words(query)))
    return [word for word in words if word not in _STOP] or words


def written_words(text: str) -> dict[str, str]:
    """Returns how each of `text`'s words is written where it stands first: `Urls` for url."""
    written: dict[str, str] = {}
    for run in _RUN.findall(text):
        if len(run) <= _MAX_RUN:
            for part in _PART.findall(run):
                words = split_words(part)
                for word in words:
                    written.setdefault(word, part if len(words) == 1 else word)
    return written


def stem(word: str) -> str:
    """Takes the endings of plurals and verb forms off a lower-case English word.

    Both sides of a search go through it, so it has to be consistent rather than right: `queries`
    and `query` meet at `queri`; `caches`, `cached`, `caching` and `cache` at `cach`.
    """
    if len(word) < 3 or not word.isascii():
        return word
    bare = _without_ending(word)
    if len(bare) > 3 and bare[-1] == bare[-2] and bare[-1] in "bdgmnprt":
        return bare[:-1]
    if bare[-1] == "e":
        return bare[:-1]
    if bare[-1] == "y" and bare[-2] not in _VOWELS:
        return bare[:-1] + "i"
    return bare


def _without_ending(word: str) -> str:
    for ending in ("ies", "ied", "ing", "ed", "es", "s"):
        if not word.endswith(ending):
            continue
        bare = word[: -len(ending)]
        if ending[0] == "i" and ending[-1] != "g":
            return bare + "i"
        if ending == "s" and (len(word) < 4 or bare[-1] in "isu"):
            return word
        has_vowel = any(letter in _VOWELS for letter in bare)
        return bare if len(bare) > 1 and has_vowel and not word.endswith("eed") else word
    return word


def _split_run(run: str) -> Iterable[str]:
    for part in _PART.findall(run):
        if _UNSPACED.search(part) and len(part) > 1:
            yield from (part[i : i + 2] for i in range(len(part) - 1))
        elif len(part) > 2 and part[-1] == "s" and part[-2].isupper():
            yield part[:-1].lower()
        else:
            yield stem(part.lower())


class _Remembered(dict[str, tuple[str, ...]]):
    """What each run of word characters splits to, computed once."""

    def __init__(self) -> None:
        self._copies: dict[str, str] = {}
        """Runs share most of their words: one copy of each saves a third of the memory."""

    def __missing__(self, run: str) -> tuple[str, ...]:
        if len(run) > _MAX_RUN:
            return ()
        if len(self) >= _MAX_REMEMBERED:
            self.clear()
            self._copies.clear()
        words = self[run] = tuple(self._copies.setdefault(word, word) for word in _split_run(run))
        return words


_REMEMBERED = _Remembered()

_STOP = frozenset(
    split_words(
        "the a an of to in for and or is are if with on by be this that from as it its which when"
        " then than into at not will can has have was were been may so do does but"
    )
)
