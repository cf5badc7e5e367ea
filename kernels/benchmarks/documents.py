"""Write the tables of `docs/kernels.md` that follow from a run: `python -m benchmarks.documents`.

- `peaks`, `bytes`, `floors`: reckoned by `roofline` in no time
- `ahead-of-time`: registers, shared memory, spills and instructions from compiling every launch,
  some ten minutes on two cores, and seconds from Triton's cache

Only the text between `<!-- NAME:begin -->` and `<!-- NAME:end -->` is written. `--check` writes
nothing and fails when something is stale; it compiles nothing: the compiled table carries a digest
of all that decides what is compiled.
"""

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from benchmarks.ahead_of_time import CAPABILITIES, Compiled, compile_all, digest
from benchmarks.roofline import bytes_table, floors_table, peaks_table
from benchmarks.shapes import MODELS, NUM_TOKENS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "kernels.md"
COMPILED = "ahead-of-time"
RECKONED: dict[str, Callable[[], str]] = {
    "peaks": peaks_table,
    "bytes": lambda: bytes_table(MODELS, NUM_TOKENS),
    "floors": lambda: floors_table(MODELS, NUM_TOKENS),
}


def write(page: Path, compile_launches: Callable[[], Iterable[Compiled]]) -> None:
    """Bring the page up to date; compiles only where the digest says so."""
    text = _reckoned(page.read_text(encoding="utf-8"))
    current = digest()
    if _digest_of(text) != current:
        text = replace_block(text, COMPILED, compiled_tables(list(compile_launches()), current))
    page.write_text(text, encoding="utf-8")


def stale(page: Path) -> list[str]:
    """What `write` would change."""
    text = page.read_text(encoding="utf-8")
    names = [name for name in RECKONED if block(text, name) != RECKONED[name]()]
    return names if _digest_of(text) == digest() else [*names, COMPILED]


def compiled_tables(rows: Sequence[Compiled], current: str) -> str:
    """Markdown: the grouped GEMM by its tiles, and the other kernels by target."""
    return f"<!-- digest {current} -->\n{_gemm_table(rows)}\n\n{_other_table(rows)}"


def _gemm_table(rows: Sequence[Compiled]) -> str:
    """One line for all launches of a tile: the most registers, shared memory and spills of them."""
    groups: dict[tuple[str, str, str, str], list[Compiled]] = defaultdict(list)
    for row in rows:
        if row.kind and row.regime and row.tiles:
            groups[row.target, row.kind, row.regime, row.tiles].append(row)
    lines = [
        "| Target | operands | load | tiles | registers | shared, KiB | spilled, bytes | instruction |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (target, kind, regime, tiles), group in groups.items():
        shared = max(row.shared_bytes for row in group) / 1024
        lines.append(
            f"| {target} | {kind} | {regime} | {tiles} | {max(row.registers for row in group)} | "
            f"{shared:.0f} | {max(row.stack_bytes for row in group)} | {_instructions(group)} |"
        )
    return "\n".join(lines)


def _instructions(group: Sequence[Compiled]) -> str:
    found = {name for row in group for name in row.instructions}
    return ", ".join(f"`{short_instruction(name)}`" for name in sorted(found))


def short_instruction(name: str) -> str:
    """What tells one from another: family, shape, kind, operands' types."""
    parts = name.split(".")
    dull = {"sync", "aligned", "row", "col", "cta_group::1"}
    return ".".join([*parts[:2], *(part for part in parts[2:] if part not in dull)])


def _other_table(rows: Sequence[Compiled]) -> str:
    """Registers / shared bytes of each kernel on each target; what spills is named."""
    targets = list(dict.fromkeys(row.target for row in rows))
    cells: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for row in rows:
        if row.kind is None:
            spilled = f", {row.stack_bytes} spilled" if row.stack_bytes else ""
            cells[row.launch, row.kernel][row.target] = (
                f"{row.registers} / {row.shared_bytes:,}{spilled}"
            )
    lines = [f"| Launch | kernel | {' | '.join(targets)} |", "|---|---|" + "---|" * len(targets)]
    for (launch, kernel), by_target in cells.items():
        columns = " | ".join(by_target.get(target, "") for target in targets)
        lines.append(f"| {launch} | `{kernel}` | {columns} |")
    return "\n".join(lines)


def _reckoned(text: str) -> str:
    for name, table in RECKONED.items():
        text = replace_block(text, name, table())
    return text


def _digest_of(text: str) -> str | None:
    found = re.match(r"<!-- digest (\w+) -->", block(text, COMPILED))
    return found[1] if found else None


def block(text: str, name: str) -> str:
    """What stands between the markers of `name`. Raises `ValueError` where they are not there."""
    found = re.search(rf"<!-- {name}:begin -->\n(.*?)\n?<!-- {name}:end -->", text, re.DOTALL)
    if not found:
        raise ValueError(f"<!-- {name}:begin --> and, after it, <!-- {name}:end --> are missing")
    return found[1]


def replace_block(text: str, name: str, content: str) -> str:
    """`text` with what stands between the markers of `name` replaced."""
    block(text, name)
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, rest = text.split(begin, 1)
    _, after = rest.split(end, 1)
    return f"{before}{begin}\n{content}\n{end}{after}"


def main(arguments: Sequence[str] | None = None, page: Path = PAGE) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.documents")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if any is stale")
    if parser.parse_args(arguments).check:
        names = stale(page)
        for name in names:
            print(f"{name} in {page} is stale: run make docs", file=sys.stderr)
        return 1 if names else 0
    write(page, lambda: compile_all(CAPABILITIES))
    return 0


if __name__ == "__main__":
    sys.exit(main())
