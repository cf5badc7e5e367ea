"""The formats from their definitions, in Python's floats, which hold every intermediate exactly.

Shares nothing with the package: values are enumerated, and rounding searches among them.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

NAN = math.nan


@dataclass(frozen=True)
class Element:
    """A format of sign, exponent and mantissa, whose codes of rising magnitudes rise by one."""

    exponent_bits: int
    mantissa_bits: int
    bias: int
    max_code: int
    """Of the largest finite magnitude."""

    @property
    def sign_bit(self) -> int:
        return 1 << (self.exponent_bits + self.mantissa_bits)

    def magnitude(self, code: int) -> float:
        """Of a code without sign; those above `max_code` go on as if they were numbers."""
        exponent, mantissa = divmod(code, 1 << self.mantissa_bits)
        fraction = mantissa / (1 << self.mantissa_bits)
        if exponent == 0:
            return math.ldexp(fraction, 1 - self.bias)
        return math.ldexp(1 + fraction, exponent - self.bias)

    def value(self, code: int) -> float:
        magnitude_code = code & (self.sign_bit - 1)
        if magnitude_code > self.max_code:
            return NAN
        return math.copysign(self.magnitude(magnitude_code), -1 if code & self.sign_bit else 1)

    def round(self, magnitude: float) -> int:
        """The nearest code, the even one of two; `max_code + 1` for all that rounds above it."""
        midpoints = _midpoints(self)
        place = bisect_left(midpoints, magnitude)
        is_tie = place < len(midpoints) and midpoints[place] == magnitude
        return place + (place % 2 if is_tie else 0)


@cache
def _midpoints(element: Element) -> list[float]:
    """Midpoint i lies between the codes i and i + 1."""
    values = [element.magnitude(code) for code in range(element.max_code + 2)]
    return [(low + high) / 2 for low, high in pairwise(values)]


E4M3 = Element(exponent_bits=4, mantissa_bits=3, bias=7, max_code=0x7E)
E2M1 = Element(exponent_bits=2, mantissa_bits=1, bias=1, max_code=0x7)


def scale_value(code: int) -> float:
    return NAN if code == 255 else math.ldexp(1.0, code - 127)


def to_f32(value: float) -> float:
    """Infinity where f32 overflows; the values here need no other rounding."""
    return value if math.isnan(value) or abs(value) < 2.0**128 else math.copysign(math.inf, value)


def quantize_block(
    values: Sequence[float], element: Element, *, rule: str, nan_code: int
) -> tuple[list[int], int]:
    """Codes and the scale's code of one block."""
    amax = max(abs(value) for value in values)
    if not all(math.isfinite(value) for value in values):
        return [nan_code] * len(values), 255
    emax = math.frexp(element.magnitude(element.max_code))[1] - 1
    exponent = max(math.frexp(amax)[1] - 1 - emax, -127) if amax else -127
    if rule == "ceil" and element.round(math.ldexp(amax, -exponent)) > element.max_code:
        exponent += 1
    codes: list[int] = []
    for value in values:
        code = min(element.round(math.ldexp(abs(value), -exponent)), element.max_code)
        codes.append(code | (element.sign_bit if math.copysign(1, value) < 0 else 0))
    return codes, exponent + 127
