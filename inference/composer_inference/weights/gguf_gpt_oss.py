"""gpt-oss's experts: GGUF splits what the checkpoint holds as one, and orders MXFP4's nibbles
otherwise. Nothing is requantised: the codes move.

Dimensions: E experts, F expert hidden dim, D model dim, G = 2 F, gate and up interleaved by row.
"""

from collections.abc import Callable
from functools import partial
from math import prod

import torch
from torch import Tensor

from composer_inference.weights.gguf_file import MXFP4, GgufFile, as_tensor

_BLOCK = 32
_BLOCK_BYTES = 17
"""In GGUF: the scale's byte, then 16 bytes of codes."""

Read = tuple[tuple[int, ...], torch.dtype, Callable[[], Tensor]]
"""Shape, dtype, and how it is read."""


def expert_tensors(file: GgufFile, layer: int) -> dict[str, Read]:
    """By the name behind `mlp.experts.`: MXFP4 as `…_blocks` and `…_scales`, all else dequantised."""
    gate, up, down = (f"blk.{layer}.ffn_{part}_exps" for part in ("gate", "up", "down"))
    return {
        **_weight(file, "gate_up_proj", f"{gate}.weight", f"{up}.weight"),
        **_weight(file, "down_proj", f"{down}.weight"),
        "gate_up_proj_bias": _interleaved(file, f"{gate}.bias", f"{up}.bias"),
        "down_proj_bias": _interleaved(file, f"{down}.bias"),
    }


def _weight(file: GgufFile, name: str, *sources: str) -> dict[str, Read]:
    if all(file.kind(source) == MXFP4 for source in sources):
        E, F, D = file.shape(sources[0])
        G = F * len(sources)
        return {
            f"{name}_blocks": (
                (E, G, D // _BLOCK, _BLOCK // 2),
                torch.uint8,
                partial(_read_blocks, file, *sources),
            ),
            f"{name}_scales": (
                (E, G, D // _BLOCK),
                torch.uint8,
                partial(_read_scales, file, *sources),
            ),
        }
    shape, dtype, read = _interleaved(file, *sources)
    return {name: ((shape[0], shape[2], shape[1]), dtype, lambda: read().transpose(1, 2))}


def _interleaved(file: GgufFile, *sources: str) -> Read:
    E, F, *rest = file.shape(sources[0])
    dtype = file.dtype(sources[0])
    return (E, F * len(sources), *rest), dtype, partial(_read_interleaved, file, *sources)


def _read_interleaved(file: GgufFile, *sources: str) -> Tensor:
    return _interleave([file.tensor(source) for source in sources])


def _interleave(parts: list[Tensor]) -> Tensor:
    return torch.stack(parts, dim=2).flatten(1, 2)


def _read_blocks(file: GgufFile, *sources: str) -> Tensor:
    return _interleave([_repack(_blocks(file, source)[..., 1:]) for source in sources])


def _read_scales(file: GgufFile, *sources: str) -> Tensor:
    return _interleave([_blocks(file, source)[..., 0] for source in sources])


def _blocks(file: GgufFile, name: str) -> Tensor:
    E, F, D = file.shape(name)
    raw = as_tensor(file.raw(name))
    assert raw.numel() == prod((E, F, D)) // _BLOCK * _BLOCK_BYTES
    return raw.view(E, F, D // _BLOCK, _BLOCK_BYTES)


def _repack(codes: Tensor) -> Tensor:
    """Byte i of GGUF holds elements i and i + 16, byte i of the checkpoint 2 i and 2 i + 1; the
    first of the two in the low bits."""
    elements = torch.cat((codes & 0xF, codes >> 4), dim=-1)
    return elements[..., 0::2] | elements[..., 1::2] << 4
