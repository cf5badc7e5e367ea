"""Measurements as a table, CSV and SVG."""

import csv
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

from benchmarks.timings import BASELINE, Measurement

_WIDTH, _BAR, _LABEL, _ROW = 900, 480, 400, 16


def line(row: Measurement, baseline_us: float | None) -> str:
    """One row of the table: time, floor, how near, and the speed over our own bf16."""
    floor = "" if row.floor_us is None else f"{row.floor_us:9.1f}"
    near = "" if row.floor_us is None else f"{row.floor_us / row.median_us:6.0%}"
    ratio = "" if baseline_us is None else f"{baseline_us / row.median_us:6.2f}x"
    return (
        f"{row.shape:22}{row.num_tokens:6}  {row.what:26}{row.median_us:11.1f}{floor:>10}{near:>7}"
        f"{ratio:>8}  {row.note}"
    )


HEADER = f"{'shape':22}{'tokens':>6}  {'':26}{'us':>11}{'floor':>10}{'near':>7}{'/bf16':>8}"


def baselines(rows: Sequence[Measurement]) -> dict[tuple[str, str, int], float]:
    """Times of our own bf16 by section, shape and tokens."""
    return {
        (row.section, row.shape, row.num_tokens): row.median_us
        for row in rows
        if row.what == BASELINE
    }


def write_csv(path: Path, rows: Sequence[Measurement]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Measurement)])
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def write_svg(path: Path, rows: Sequence[Measurement], title: str) -> None:
    """Bars by section, shape and tokens, each against the group's slowest; a mark at the floor."""
    groups: dict[tuple[str, str, int], list[Measurement]] = defaultdict(list)
    for row in rows:
        if math.isfinite(row.median_us):
            groups[row.section, row.shape, row.num_tokens].append(row)
    parts = [_text(8, 20, title, "bold")]
    y = 40
    for (section, shape, num_tokens), group in groups.items():
        parts.append(_text(8, y + 12, f"{section}: {shape}, {num_tokens} tokens", "bold"))
        y += _ROW + 4
        slowest = max(row.median_us for row in group)
        for row in group:
            width = _BAR * row.median_us / slowest
            color = "#4477aa" if row.what.startswith("ours") else "#bbbbbb"
            parts.append(_text(16, y + 12, row.what))
            parts.append(
                f'<rect x="{_LABEL - 190}" y="{y + 2}" width="{width:.1f}" height="12" fill="{color}"/>'
            )
            parts.append(_text(_LABEL - 185 + width, y + 12, f"{row.median_us:,.1f} us"))
            if row.floor_us is not None:
                x = _LABEL - 190 + _BAR * min(row.floor_us / slowest, 1)
                parts.append(f'<rect x="{x:.1f}" y="{y}" width="2" height="16" fill="#cc3311"/>')
            y += _ROW
        y += 8
    header = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{y}" '
        'font-family="sans-serif" font-size="11">'
    )
    path.write_text("\n".join([header, *parts, "</svg>"]) + "\n", encoding="utf-8")


def _text(x: float, y: float, words: str, weight: str = "normal") -> str:
    escaped = words.replace("&", "&amp;").replace("<", "&lt;")
    return f'<text x="{x:.1f}" y="{y}" font-weight="{weight}">{escaped}</text>'
