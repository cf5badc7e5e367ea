"""How grouped GEMMs and the gradients of their weights are cut into tiles, and the choices saved for
each target, kind and load.

`choose_tiles` and `choose_wgrad_tiles` read `tiles.json` beside this file and, over it, the file that
the environment variable `COMPOSER_KERNEL_TILES` names, which `composer_kernels.autotune` writes. No
choice that is shipped was measured on a GPU: each compiles ahead of time without spills.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

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
        _check_sizes(self, {"block_m": 16, "block_n": 16, "block_k": BLOCK, "num_warps": 1})
        _check_counts(self, "group_m", "num_stages", "programs_per_sm")


@dataclass(frozen=True, kw_only=True, slots=True)
class WgradTiles:
    """One way to cut the gradients of experts' weights. Sizes are powers of two."""

    block_n: int
    """Rows of a tile of the gradient, at least 16."""
    block_k: int
    """Columns of it, at least 16."""
    block_r: int
    """Rows of the permuted buffer a step, at least 32."""
    group_n: int
    """Tiles of rows that share their columns of x in the L2 cache: the height of a band."""
    num_warps: int
    num_stages: int
    """Steps whose loads are in flight."""

    def __post_init__(self) -> None:
        _check_sizes(self, {"block_n": 16, "block_k": 16, "block_r": BLOCK, "num_warps": 1})
        _check_counts(self, "group_n", "num_stages")


def _check_sizes(tiles: Tiles | WgradTiles, least: Mapping[str, int]) -> None:
    for name, minimum in least.items():
        size: int = getattr(tiles, name)
        if size < minimum or size & (size - 1):
            raise KernelError(f"{name} is {size}; a power of two from {minimum} on is asked for")


def _check_counts(tiles: Tiles | WgradTiles, *names: str) -> None:
    for name in names:
        if getattr(tiles, name) < 1:
            raise KernelError(f"{name} is {getattr(tiles, name)}; at least 1 is asked for")


@dataclass(frozen=True, kw_only=True, slots=True)
class TileKey:
    """What a choice is for."""

    capability: int
    """Of the target, as in `Target.capability`."""
    kind: Kind
    regime: Regime
    shape: tuple[int, int] | None = None
    """N and K of the weights; None: every shape without a choice of its own."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WgradKey:
    """What a choice for gradients of weights is for."""

    capability: int
    kind: Kind
    """Of the gradient of the outputs and x: both MXFP8, or both bf16."""


TileTable = Mapping[TileKey, Tiles]
WgradTable = Mapping[WgradKey, WgradTiles]


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedTiles:
    """What a file of tiles holds."""

    gemm: TileTable = field(default_factory=dict[TileKey, Tiles])
    wgrad: WgradTable = field(default_factory=dict[WgradKey, WgradTiles])

    def over(self, other: "SavedTiles") -> "SavedTiles":
        """These choices, and the other's where these have none."""
        return SavedTiles(gemm={**other.gemm, **self.gemm}, wgrad={**other.wgrad, **self.wgrad})


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
        table = _default_tiles(os.environ.get(TILES_VARIABLE)).gemm
    regime = regime_of(rows_per_expert)
    for capability in _capabilities(table, target):
        for shape in ((n, k), None):
            key = TileKey(capability=capability, kind=kind, regime=regime, shape=shape)
            if key in table:
                return table[key]
    raise KernelError(f"no tiles are saved for {kind} {regime} on {target.name} or below it")


def choose_wgrad_tiles(
    target: Target, kind: Kind, *, table: WgradTable | None = None
) -> WgradTiles:
    """The saved choice for gradients of weights; targets and `table` as in `choose_tiles`."""
    if table is None:
        table = _default_tiles(os.environ.get(TILES_VARIABLE)).wgrad
    for capability in _capabilities(table, target):
        key = WgradKey(capability=capability, kind=kind)
        if key in table:
            return table[key]
    raise KernelError(f"no tiles are saved for {kind} wgrad on {target.name} or below it")


def _capabilities(keys: Iterable[TileKey | WgradKey], target: Target) -> list[int]:
    """Those that have choices, from the target's own down."""
    return sorted(
        {key.capability for key in keys if key.capability <= target.capability}, reverse=True
    )


def mean_rows_per_expert(num_tokens: int, top_k: int, num_experts: int) -> int:
    """Rows that an expert gets on average, rounded up."""
    return -(-num_tokens * top_k // num_experts)


def load_tiles(path: Path) -> SavedTiles:
    """The choices in a file. Raises `KernelError` that names it where it is not such a file."""
    try:
        tables = json.loads(path.read_text(encoding="utf-8"))
        return SavedTiles(
            gemm=dict(_gemm_choice(entry) for entry in tables["grouped_gemm"]),
            wgrad=dict(_wgrad_choice(entry) for entry in tables["grouped_wgrad"]),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise KernelError(f"{path} is no file of tiles: {error!r}") from error


def _gemm_choice(entry: Any) -> tuple[TileKey, Tiles]:
    _check_types(entry)
    shape = entry["shape"]
    if shape is not None and [type(size) for size in shape] != [int, int]:
        raise TypeError(f"shape is {shape!r}; null or N and K are asked for")
    key = TileKey(
        capability=entry["capability"],
        kind=Kind(entry["kind"]),
        regime=Regime(entry["regime"]),
        shape=None if shape is None else (shape[0], shape[1]),
    )
    return key, Tiles(**entry["tiles"])


def _wgrad_choice(entry: Any) -> tuple[WgradKey, WgradTiles]:
    _check_types(entry)
    key = WgradKey(capability=entry["capability"], kind=Kind(entry["kind"]))
    return key, WgradTiles(**entry["tiles"])


def _check_types(entry: Any) -> None:
    """JSON has more types than a field does: `"no"` would swap operands."""
    for name, value in {"capability": entry["capability"], **entry["tiles"]}.items():
        wanted = bool if name == "swap_operands" else int
        if type(value) is not wanted:
            raise TypeError(f"{name} is {value!r}; {wanted.__name__} is asked for")


def save_tiles(path: Path, saved: SavedTiles) -> None:
    """Write choices for `load_tiles`, in a fixed order, one a line."""
    tables = {
        "grouped_gemm": _lines(saved.gemm, _gemm_place),
        "grouped_wgrad": _lines(saved.wgrad, _wgrad_place),
    }
    text = ",\n".join(f"{json.dumps(name)}: [{lines}\n]" for name, lines in tables.items())
    path.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


_Key = TypeVar("_Key", TileKey, WgradKey)


def _lines(
    choices: Mapping[_Key, Tiles | WgradTiles], place: Callable[[_Key], tuple[object, ...]]
) -> str:
    entries = [{**asdict(key), "tiles": asdict(choices[key])} for key in sorted(choices, key=place)]
    return ",".join(f"\n{json.dumps(entry)}" for entry in entries)


def _gemm_place(key: TileKey) -> tuple[int, str, int, tuple[int, int]]:
    return key.capability, key.kind, list(Regime).index(key.regime), key.shape or (0, 0)


def _wgrad_place(key: WgradKey) -> tuple[int, str]:
    return key.capability, key.kind


@cache
def _default_tiles(path: str | None) -> SavedTiles:
    shipped = load_tiles(_SHIPPED)
    return load_tiles(Path(path)).over(shipped) if path else shipped
