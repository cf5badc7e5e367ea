"""How grouped GEMMs are cut into tiles, and the choices saved for each target, kind and load.

`choose_tiles` reads `tiles.json` beside this file and, over it, the file that the environment
variable `COMPOSER_KERNEL_TILES` names, which `composer_kernels.autotune` writes.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, cast

from composer_kernels.errors import KernelError
from composer_kernels.formats import BLOCK
from composer_kernels.target_info import Target

TILES_VARIABLE = "COMPOSER_KERNEL_TILES"
"""Names a JSON file of choices that go before those shipped."""
_SHIPPED = Path(__file__).with_name("tiles.json")


class Kind(StrEnum):
    """Formats of the two operands, activations first."""

    MXFP8_MXFP8 = "mxfp8_mxfp8"
    BF16_MXFP8 = "bf16_mxfp8"
    BF16_MXFP4 = "bf16_mxfp4"
    BF16_BF16 = "bf16_bf16"


class Regime(StrEnum):
    """What binds a grouped GEMM, by the rows that an expert gets on average."""

    DECODE = "decode"
    """Up to 16 rows: the time is that of reading the weights once."""
    MIXED = "mixed"
    """17 to 64 rows."""
    PREFILL = "prefill"
    """More: the time is that of the arithmetic."""


def regime_of(rows_per_expert: int) -> Regime:
    if rows_per_expert <= 16:
        return Regime.DECODE
    return Regime.MIXED if rows_per_expert <= 64 else Regime.PREFILL


@dataclass(frozen=True, kw_only=True, slots=True)
class Tiles:
    """One way to cut a grouped GEMM. Sizes are powers of two."""

    block_m: int
    """Rows of a tile, at least 16; divides the dispatch's `block_m`."""
    block_n: int
    """Columns of a tile, at least 16; 64 or more where SwiGLU's output is quantised."""
    block_k: int
    """Elements of the contracted dimension a step, at least 32. Where it does not divide K, loads
    are masked."""
    group_m: int
    """Tiles of rows that share their columns of weights in the L2 cache: the height of a band."""
    swap_operands: bool
    """Compute w x^T, with the weights on the long side of the matrix instruction. wgmma and tcgen05
    take 64 or 128 rows on that side, so a tile of 16 rows reaches them in this way alone."""
    num_warps: int
    num_stages: int
    """Steps of k whose loads are in flight."""
    programs_per_sm: int
    """Programs of the persistent grid for each multiprocessor."""

    def __post_init__(self) -> None:
        least = {"block_m": 16, "block_n": 16, "block_k": BLOCK, "num_warps": 1}
        for name, minimum in least.items():
            size: int = getattr(self, name)
            if size < minimum or size & (size - 1):
                raise KernelError(
                    f"{name} is {size}; a power of two from {minimum} on is asked for"
                )
        for name in ("group_m", "num_stages", "programs_per_sm"):
            if getattr(self, name) < 1:
                raise KernelError(f"{name} is {getattr(self, name)}; at least 1 is asked for")


@dataclass(frozen=True, kw_only=True, slots=True)
class TileKey:
    """What a choice is for."""

    capability: int
    """Of the target, as in `Target.capability`."""
    kind: Kind
    regime: Regime
    shape: tuple[int, int] | None = None
    """N and K of the weights; None: every shape without a choice of its own."""


TileTable = Mapping[TileKey, Tiles]


def choose_tiles(
    target: Target,
    kind: Kind,
    rows_per_expert: int,
    n: int,
    k: int,
    *,
    table: TileTable | None = None,
) -> Tiles:
    """The saved choice for a grouped GEMM `[rows, k] x [E, n, k]`.

    `rows_per_expert`: rows that an expert gets on average, see `mean_rows_per_expert`. A target
    without choices of its own takes those of the nearest one below it. `table`: None means the
    shipped choices under those of `COMPOSER_KERNEL_TILES`; raises `KernelError` where that file
    cannot be read, or no choice fits.
    """
    if table is None:
        table = _default_table(os.environ.get(TILES_VARIABLE))
    regime = regime_of(rows_per_expert)
    capabilities = {key.capability for key in table if key.capability <= target.capability}
    for capability in sorted(capabilities, reverse=True):
        for shape in ((n, k), None):
            key = TileKey(capability=capability, kind=kind, regime=regime, shape=shape)
            if key in table:
                return table[key]
    raise KernelError(f"no tiles are saved for {kind} {regime} on {target.name} or below it")


def mean_rows_per_expert(num_tokens: int, top_k: int, num_experts: int) -> int:
    """Rows that an expert gets on average, rounded up."""
    return -(-num_tokens * top_k // num_experts)


def load_tiles(path: Path) -> dict[TileKey, Tiles]:
    """The choices in a file. Raises `KernelError` that names it where it is not such a file."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(entries, list):
            raise TypeError("the outermost value is no list")
        return dict(_choice(entry) for entry in cast(list[Any], entries))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise KernelError(f"{path} is no file of tiles: {error!r}") from error


def _choice(entry: Any) -> tuple[TileKey, Tiles]:
    """JSON has more types than a field does: `"no"` would swap operands."""
    shape = entry["shape"]
    for name, value in {"capability": entry["capability"], **entry["tiles"]}.items():
        wanted = bool if name == "swap_operands" else int
        if type(value) is not wanted:
            raise TypeError(f"{name} is {value!r}; {wanted.__name__} is asked for")
    if shape is not None and [type(size) for size in shape] != [int, int]:
        raise TypeError(f"shape is {shape!r}; null or N and K are asked for")
    key = TileKey(
        capability=entry["capability"],
        kind=Kind(entry["kind"]),
        regime=Regime(entry["regime"]),
        shape=None if shape is None else (shape[0], shape[1]),
    )
    return key, Tiles(**entry["tiles"])


def save_tiles(path: Path, choices: Mapping[TileKey, Tiles]) -> None:
    """Write choices for `load_tiles`, in a fixed order, one a line."""
    entries = [{**asdict(key), "tiles": asdict(tiles)} for key, tiles in _ordered(choices)]
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def _ordered(choices: Mapping[TileKey, Tiles]) -> Iterable[tuple[TileKey, Tiles]]:
    def place(item: tuple[TileKey, Tiles]) -> tuple[int, str, int, tuple[int, int]]:
        key = item[0]
        return key.capability, key.kind, list(Regime).index(key.regime), key.shape or (0, 0)

    return sorted(choices.items(), key=place)


@cache
def _default_table(path: str | None) -> TileTable:
    return load_tiles(_SHIPPED) | (load_tiles(Path(path)) if path else {})
