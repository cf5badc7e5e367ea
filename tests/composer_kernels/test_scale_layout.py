import pytest
import torch
from beartype import beartype
from jaxtyping import TypeCheckError, jaxtyped

from composer_kernels import ShapeError, tile_scales, untile_scales

SHAPES = [(1, 1), (128, 4), (129, 5), (200, 7), (300, 64)]


def scales(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(1, 256, shape, dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_each_scale_lies_where_cublas_looks_for_it(shape: tuple[int, int]):
    """cuBLAS, 1D block scaling factors layout: within a tile of 128 x 4, row r and column c are at
    r % 32 * 16 + r // 32 * 4 + c; tiles follow one another along the columns first."""
    plain = scales(*shape)
    flat = tile_scales(plain).flatten()
    tiles_across = -(-shape[1] // 4)
    wanted = torch.zeros_like(flat)
    for m in range(shape[0]):
        for s in range(shape[1]):
            r, c = m % 128, s % 4
            tile = m // 128 * tiles_across + s // 4
            wanted[tile * 512 + r % 32 * 16 + r // 32 * 4 + c] = plain[m, s]
    assert torch.equal(flat, wanted)


@pytest.mark.parametrize("shape", [*SHAPES, (3, 130, 9), (2, 2, 5, 3), (0, 4)], ids=str)
def test_tiles_come_back_as_they_were(shape: tuple[int, ...]):
    plain = scales(*shape)
    tiles = tile_scales(plain)
    assert tiles.is_contiguous()
    assert tiles.shape == (*shape[:-2], -(-shape[-2] // 128), -(-shape[-1] // 4), 32, 16)
    assert torch.equal(untile_scales(tiles, *shape[-2:]), plain)


def test_tiles_of_another_shape_are_named():
    tiles = tile_scales(scales(128, 4))
    with pytest.raises(
        ShapeError, match=r"tiles has shape \[1, 1, 32, 16\]; \[\.\.\., 2, 1, 32, 16\]"
    ):
        untile_scales(tiles, 129, 4)


def test_shapes_and_dtypes_are_checked_where_jaxtyping_is_switched_on():
    checked = jaxtyped(tile_scales, typechecker=beartype)
    with pytest.raises(TypeCheckError):
        checked(scales(7))
    with pytest.raises(TypeCheckError):
        checked(scales(128, 4).int())


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("shape", [(32, 16), (1, 1, 16, 32), (1, 1, 32, 8)], ids=str)
def test_what_is_no_tile_is_named(shape: tuple[int, ...]):
    """512 bytes in another order are no tile: they would come back as other rows' scales."""
    with pytest.raises(ShapeError, match=r"\[\.\.\., 1, 1, 32, 16\] for 100 rows"):
        untile_scales(scales(*shape), 100, 4)
    with pytest.raises(ShapeError, match=r"scales has shape \[4\]; \[\*batch, M, S\]"):
        tile_scales(scales(4))
