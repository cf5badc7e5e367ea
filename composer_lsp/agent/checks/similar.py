"""How alike two functions are: by their names, and by what their bodies say.

A body is read as tokens without comments, and without what the author was free to choose: names of
parameters and variables are all the same, while what is called, attributes and literals stay.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TypeVar

from composer_index.words import split_words

K = TypeVar("K")

MIN_TOKENS = 30
"""Shorter functions are alike by chance: accessors, wrappers."""
_SHINGLE = 3
"""Tokens that stand for one place of a body."""

_TOKEN = re.compile(
    r"""(?xs)
    (?P<doc>\"{3}.*?\"{3}|'{3}.*?'{3})
    | (?P<string>"(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' | `(?:\\.|[^`\\])*`)
    | (?P<comment>/\*.*?\*/ | //[^\n]* | (?:(?<=\s)|^)(?:\#|--)(?=[\s!:\#-])[^\n]*)
    | (?P<number>\d[\w.]*)
    | (?P<word>[^\W\d]\w*)
    | (?P<sign>\S)
    """
)
_KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """and as assert async await break case catch class const continue def default defer del do elif
    else end ensure enum except export extends extern False finally fn for foreach from func function
    global go if impl import in instanceof interface is lambda let local loop match mut namespace new
    nil nonlocal None not null of or package pass private protected public raise range rescue return
    select self static struct super switch then this throw True true false try type typeof undefined
    union unless until use using var void when where while with yield""",
    )
)


@dataclass(frozen=True, slots=True)
class Shape:
    """What a function's text says, apart from its name."""

    num_tokens: int
    shingles: Counter[tuple[str, ...]]
    words: Counter[str]
    """Of what it calls, of attributes and of literals; split and stemmed."""

    @property
    def is_trivial(self) -> bool:
        return self.num_tokens < MIN_TOKENS


def shape_of(text: str, name: str) -> Shape:
    """`text`: the whole definition. `name`: its own, which does not count, nor does its head."""
    matches = [each for each in _TOKEN.finditer(text) if each.lastgroup not in ("doc", "comment")]
    texts = [each[0] for each in matches]
    start = _body_start(texts)
    own = {name, *_parameters(texts[:start]), *_assigned(texts)} - _KEYWORDS
    tokens: list[str] = []
    words: Counter[str] = Counter()
    for number in range(start, len(matches)):
        token, kind = texts[number], matches[number].lastgroup
        if kind == "word" and token not in _KEYWORDS and not _is_named(texts, number, own):
            token = "_"
        elif kind in ("word", "string") and token not in _KEYWORDS:
            words.update(split_words(token))
        tokens.append(token)
    shingles = Counter(zip(*(tokens[offset:] for offset in range(_SHINGLE)), strict=False))
    return Shape(len(tokens), shingles, words)


def _body_start(texts: Sequence[str]) -> int:
    """Where the head ends: behind the first brace or colon that is in no parentheses."""
    depth = 0
    for number, token in enumerate(texts):
        depth += (token in "([") - (token in ")]")
        if depth == 0 and token in "{:":
            return number + 1
    return 0


def _parameters(head: Sequence[str]) -> Iterator[str]:
    """Their names; where types stand before names, those too, which does no harm."""
    for before, token in pairwise(head):
        if token.isidentifier() and before not in (":", ">", ".", "="):
            yield token


def _assigned(texts: Sequence[str]) -> Iterator[str]:
    """Names that the text gives values to; those of `==` and of keyword arguments too, which does
    no harm."""
    for number in range(1, len(texts) - 1):
        if texts[number] == "=" and texts[number - 1].isidentifier():
            yield texts[number - 1]
        elif texts[number] in ("for", "as", "let", "const", "var"):
            yield texts[number + 1]


def _is_named(texts: Sequence[str], number: int, own: Collection[str]) -> bool:
    """Whether the author was not free to choose the word: an attribute, what is called, a module."""
    before = "".join(texts[max(number - 2, 0) : number])
    if before.endswith((".", "::", "->")):
        return True
    after = texts[number + 1] if number + 1 < len(texts) else ""
    return texts[number] not in own and after in ("(", ".", "!", ":")


def likeness(one: Shape, other: Shape) -> float:
    """From 0 to 1, how much of both bodies is the same: their shingles, as multisets."""
    return _jaccard(one.shingles, other.shingles)


def words_alike(one: Shape, other: Shape) -> float:
    """From 0 to 1, how many of the words of both are the same."""
    return _jaccard(one.words, other.words)


@cache
def name_words(name: str) -> frozenset[str]:
    return frozenset(split_words(name))


def names_alike(one: str, other: str) -> float:
    """From 0 to 1: `to_slug` and `slugify` have none, `parse_urls` and `parseUrl` all words."""
    first, second = name_words(one), name_words(other)
    both = len(first | second)
    return len(first & second) / both if both else 0.0


def _jaccard(one: Counter[K], other: Counter[K]) -> float:
    if len(one) > len(other):
        one, other = other, one
    both = sum(min(count, other[key]) for key, count in one.items() if key in other)
    either = one.total() + other.total() - both
    return both / either if either else 0.0
