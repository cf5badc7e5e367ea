"""The order of scales in memory that `tcgen05.mma … block_scale` and cuBLAS read.

Scales `[M, S]`, S = ceil(K / 32), are cut into tiles of 128 x 4. A tile is 512 bytes in a row: 32
groups of 16 bytes, group g with the four scales of each of the rows g, g + 32, g + 64, g + 96:

    offset(m, s) = (m // 128 * ceil(S / 4) + s // 4) * 512
                 + m % 32 * 16 + m % 128 // 32 * 4 + s % 4

One copy (`tcgen05.cp … .32x128b.warpx4`) brings a tile to tensor memory as the instruction wants it.
Tiles at the edges are filled up with zeros.

Source: NVIDIA cuBLAS documentation, "1D Block Scaling Factors Layout"; PTX ISA, "tcgen05.mma",
scale factor layouts.
"""

from jaxtyping import UInt8
from torch import Tensor
from torch.nn import functional

from composer_kernels.errors import ShapeError

TILE_M = 128
TILE_S = 4
GROUPS = 32


def tile_scales(
    scales: UInt8[Tensor, "*batch M S"],
) -> UInt8[Tensor, "*batch tiles_m tiles_s 32 16"]:
    """Plain scales in tiles; contiguous. Raises `ShapeError` where they are no matrix."""
    if scales.dim() < 2:
        raise ShapeError("scales", scales.shape, "[*batch, M, S]")
    *batch, M, S = scales.shape
    padded = functional.pad(scales, (0, -S % TILE_S, 0, -M % TILE_M))
    tiles_m, tiles_s = padded.shape[-2] // TILE_M, padded.shape[-1] // TILE_S
    parts = padded.reshape(*batch, tiles_m, TILE_M // GROUPS, GROUPS, tiles_s, TILE_S)
    tiles = parts.movedim((-2, -3, -4), (-4, -3, -2))
    return tiles.reshape(*batch, tiles_m, tiles_s, GROUPS, 16)


def untile_scales(
    tiles: UInt8[Tensor, "*batch tiles_m tiles_s 32 16"], M: int, S: int
) -> UInt8[Tensor, "*batch M S"]:
    """The plain scales that `tile_scales` took; contiguous.

    Raises `ShapeError` where M rows of S scales are not what these tiles hold.
    """
    wanted = (-(-M // TILE_M), -(-S // TILE_S), GROUPS, 16)
    if tiles.shape[-4:] != wanted:
        asked = f"[..., {', '.join(map(str, wanted))}] for {M} rows of {S} scales"
        raise ShapeError("tiles", tiles.shape, asked)
    *batch, tiles_m, tiles_s, _, _ = tiles.shape
    parts = tiles.reshape(*batch, tiles_m, tiles_s, GROUPS, TILE_M // GROUPS, TILE_S)
    padded = parts.movedim((-4, -3, -2), (-2, -3, -4))
    plain = padded.reshape(*batch, tiles_m * TILE_M, tiles_s * TILE_S)
    return plain[..., :M, :S].contiguous()
