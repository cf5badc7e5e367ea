"""Medians, percentiles and tables."""

import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from composer_inference.hardware import read_hardware

Product = tuple[Callable[[Any], Any], int]
"""A linear map of rows, and the dim of its input."""


@dataclass(frozen=True, slots=True)
class Seconds:
    """By the clock, and of this process's processors: the second says more on a busy machine."""

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> "Seconds":
        return cls(time.perf_counter(), time.process_time())

    def __sub__(self, other: "Seconds") -> "Seconds":
        return Seconds(self.wall - other.wall, self.cpu - other.cpu)

    def __truediv__(self, number: float) -> "Seconds":
        return Seconds(self.wall / number, self.cpu / number)


def p50(values: Sequence[float]) -> float:
    return statistics.median(values)


def p10(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=10, method="inclusive")[0]


def p90(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=10, method="inclusive")[-1]


def row(name: str, *cells: str) -> None:
    print(f"{name:44}" + "".join(f"{cell:>16}" for cell in cells), flush=True)


def print_machine() -> None:
    """What the figures below it were taken on."""
    hardware = read_hardware()
    print(
        f"{platform.processor() or platform.machine()}, {hardware.num_usable_cores} cores, "
        f"{hardware.total_memory_bytes / 1e9:.0f} GB, {platform.system()}; Python "
        f"{platform.python_version()}, pygls {version('pygls')}, xllamacpp {version('xllamacpp')}"
    )
