"""Which models are led by the hand.

A model of a few billion parameters that is offered many tools repeats the question, takes a tool's
answer for its own, or reads the first line of a file again and again. So a question is answered in
one turn, from the code that a search for its words has found. A change is led by the harness
(`composer_lsp.agent.led`): what such a model cannot copy it can write anew.
"""

import re

from composer_lsp.config import Guidance

SMALL_BILLIONS = 5.0
"""A model with fewer parameters is small."""
_SIZE = re.compile(r"(?<![a-z0-9.])(\d+(?:\.\d+)?)([bm])(?![a-z0-9])", re.IGNORECASE)


def is_small(model: str) -> bool:
    """By the largest size that its name tells, as in `qwen2.5-coder:1.5b`; a model whose name tells
    none is not."""
    sizes = [float(number) / (1 if unit in "bB" else 1000) for number, unit in _SIZE.findall(model)]
    return bool(sizes) and max(sizes) < SMALL_BILLIONS


def is_led(model: str, guidance: Guidance) -> bool:
    return guidance == "always" or (guidance == "auto" and is_small(model))
