"""Files and edited versions of them, and what it takes to decode these with drafts."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from composer_inference.drafts.drafter import Drafter

_WORD = re.compile(r"[^\W\d]\w*")
_PIECE = re.compile(r"\n+| ?\w{1,8}| ?[^\w\s]{1,2}|\s+(?!\S)|\s+")
"""About what a model's vocabulary makes of code: 3 to 4 bytes a token."""


class Pieces:
    """Token ids of pieces of text."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}

    def encode(self, text: str) -> list[int]:
        return [self._ids.setdefault(piece, len(self._ids)) for piece in _PIECE.findall(text)]


def library_lines(module: str, num_lines: int, *, first: int = 0) -> list[str]:
    """Of the standard library's source, each with its end."""
    text = (Path(random.__file__).parent / module).read_text(encoding="utf-8")
    return text.splitlines(keepends=True)[first : first + num_lines]


def edited(lines: Sequence[str], num_changed: int, draw: random.Random, news: Sequence[str]) -> str:
    """With so many lines replaced, inserted (from `news`), deleted, moved, or with a word changed."""
    result = list(lines)
    words = sorted({word for line in [*lines, *news] for word in _WORD.findall(line)})
    while num_changed > 0:
        place = draw.randrange(len(result))
        match draw.choice(["word", "word", "replace", "insert", "delete", "move"]):
            case "word":
                line = _WORD.sub(lambda _: draw.choice(words), result[place], count=1)
                num_changed -= line != result[place]
                result[place] = line
            case "replace":
                result[place] = draw.choice(news)
                num_changed -= 1
            case "insert":
                result.insert(place, draw.choice(news))
                num_changed -= 1
            case "delete":
                del result[place]
                num_changed -= 1
            case _:
                block = result[place : place + min(num_changed, draw.randint(2, 8))]
                del result[place : place + len(block)]
                target = draw.randrange(len(result))
                result[target:target] = block
                num_changed -= len(block)
    return "".join(result)


@dataclass(kw_only=True, slots=True)
class Decoding:
    """What greedy decoding of one text took."""

    token_ids: list[int] = field(default_factory=list[int])
    num_steps: int = 0
    num_drafted: int = 0

    @property
    def num_wasted(self) -> int:
        """Drafted tokens that were wrong."""
        return self.num_drafted - (len(self.token_ids) - self.num_steps)


def decode(target: Sequence[int], drafter: Drafter, *, max_draft_tokens: int = 64) -> Decoding:
    """As a model would that says `target`: of each draft what agrees, and a token more."""
    done = Decoding()
    while (place := len(done.token_ids)) < len(target):
        draft = drafter.propose(min(max_draft_tokens, len(target) - place - 1))
        decoded: list[int] = []
        for expected, drafted in zip(target[place:], [*draft, None], strict=False):
            decoded.append(expected)
            if drafted != expected:
                break
        drafter.observe(decoded)
        done.token_ids += decoded
        done.num_steps += 1
        done.num_drafted += len(draft)
    return done
