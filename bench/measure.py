"""Medians, percentiles and tables."""

import statistics
from collections.abc import Sequence


def p50(values: Sequence[float]) -> float:
    return statistics.median(values)


def p10(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=10, method="inclusive")[0]


def p90(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=10, method="inclusive")[-1]


def row(name: str, *cells: str) -> None:
    print(f"{name:44}" + "".join(f"{cell:>16}" for cell in cells), flush=True)
