"""How a programmer's keys follow each other: pauses, slips and what mends them.

Times between keys are log-normal with medians of a fast typist (Dhakal et al. 2018, CHI, "Observations on
Typing from 136 Million Keystrokes": 238 ms on average, 120 ms for fast ones; 6% of all keys mend slips) and
a thought before each line. Every place of a text has its own seed, so that all clients see the same keys
wherever suggestions were taken.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

BACKSPACE = ""

_IN_WORD_S = 0.15
_NEW_WORD_S = 0.25
_SYMBOL_S = 0.28
_NEW_LINE_S = 0.9
_NOTICE_S = 0.4
"""From a slip to the first backspace."""
_SPREAD = 0.4
"""Of the logarithm."""
_SLIPS = 0.02
"""Part of the letters that are typed wrongly."""
_MAX_SLIP_KEYS = 2
_LETTERS = "etaoinshrdlucmfw"


@dataclass(frozen=True, kw_only=True, slots=True)
class Key:
    pause_s: float
    """Before it is pressed."""
    text: str
    """What it types; empty for Backspace."""


def keys_at(text: str, place: int, seed: int) -> Iterator[Key]:
    """The keys that bring what is typed from `text[:place]` a step on. Enter brings the next line's
    indentation along, as editors do."""
    chance = random.Random(f"{seed}:{place}")
    step = step_at(text, place)
    if step.isalpha() and chance.random() < _SLIPS:
        num_wrong = chance.randint(1, _MAX_SLIP_KEYS)
        for number in range(num_wrong):
            wrong = chance.choice([each for each in _LETTERS if number or each != step])
            yield Key(pause_s=_drawn(chance, _IN_WORD_S), text=wrong)
        for number in range(num_wrong):
            pause_s = _IN_WORD_S if number else _NOTICE_S
            yield Key(pause_s=_drawn(chance, pause_s), text=BACKSPACE)
    yield Key(pause_s=_drawn(chance, _median_s(text, place)), text=step)


def step_at(text: str, place: int) -> str:
    """What one right key types there."""
    if text[place] != "\n":
        return text[place]
    end = place + 1
    while text[end : end + 1] in {" ", "\t"}:
        end += 1
    return text[place:end]


def _median_s(text: str, place: int) -> float:
    above = text[:place].rpartition("\n")[2]
    if not above.strip() and text[place] != "\n":
        return _NEW_LINE_S
    char, previous = text[place], text[place - 1 : place]
    if not (char.isalnum() or char in "_ "):
        return _SYMBOL_S
    return _IN_WORD_S if previous.isalnum() or char == " " else _NEW_WORD_S


def _drawn(chance: random.Random, median_s: float) -> float:
    return median_s * math.exp(chance.gauss(0, _SPREAD))
