"""Attention of several sequences' new tokens over a paged cache of keys and values, read in place.

    out[t, n] = sum_l softmax_l(scale * q[t, n] . k[l, h(n)]) v[l, h(n)]

t a new token, l the places of its sequence up to its own, n a query head and h(n) = n // (N / H).

CUDA tensors are computed by two kernels in `attention_details`, CPU tensors by
`reference.paged_attention`. What changes from step to step lies on the device, and the grid follows from
shapes and `BlockTable.max_queries` alone: nothing waits for the device, and a launch can be captured as a
CUDA graph and replayed on other lengths. So that few sequences with long contexts fill the machine, their
keys are split into parts; a second launch joins them.

Dimensions: T new tokens of all sequences, B sequences, N query heads, H key-value heads, K and V dims of
a key and a value, S slots of the cache, X blocks. The `_launch` function runs the kernels on any device
that Triton takes, its interpreter included; tests call it.
"""

from dataclasses import dataclass
from math import e, log2
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from composer_kernels import reference
from composer_kernels.errors import (
    KernelError,
    ShapeError,
    check_device,
    check_dtype,
    check_shape,
)
from composer_kernels.target_info import Target, num_multiprocessors, target_of

CACHE_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
MAX_PARTS = 64
_PARTS_AT_A_TIME = 8
_PROGRAMS_PER_SM = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockTable:
    """Where the keys of several sequences lie, and which new tokens are theirs; on the cache's device.

    A sequence's place l has its key in the slot `block * block_size + l % block_size`, where block is
    `blocks_X[block_starts_B[b] + l // block_size]`.
    """

    blocks_X: Int64[Tensor, " X"]
    """One sequence's blocks after another's; others may follow."""
    block_starts_B: Int64[Tensor, " B"]
    num_tokens_B: Int64[Tensor, " B"]
    """Places of each sequence, the new tokens' among them, which are the last."""
    query_starts_C: Int64[Tensor, " B_and_1"]
    """Each sequence's first new token among the T; the last is T."""
    max_queries: int
    """New tokens of a sequence, at most."""
    block_size: int
    """Tokens of a block."""

    @property
    def num_sequences(self) -> int:
        return self.block_starts_B.shape[0]


def paged_attention(
    q_TNK: Float[Tensor, "T N K"],
    keys_SHK: Float[Tensor, "S H K"],
    values_SHV: Float[Tensor, "S H V"] | None,
    table: BlockTable,
    *,
    scale: float,
    window: int | None = None,
    sinks_N: Float[Tensor, " N"] | None = None,
    value_dim: int | None = None,
) -> Float[Tensor, "T N V"]:
    """Attention of each new token to the places of its sequence up to its own, which must be in the
    cache. bf16, f16 or f32, sums in f32.

    `window`: places that a token sees, its own included; None: all. `sinks_N`: a logit of each head that
    takes part in the softmax and has no value. `values_SHV` None: the first `value_dim` dims of the keys
    are the values (None: all).

    No gradient is kept on CUDA. Raises a `KernelError` that names the tensor where shapes, dtypes, devices
    or strides do not fit; what the table's tensors hold is not looked at.
    """
    values = keys_SHK[..., :value_dim] if values_SHV is None else values_SHV
    _check(q_TNK, keys_SHK, values, table, window=window, sinks_N=sinks_N)
    target = target_of(q_TNK)
    if target.capability == 0:
        return reference.paged_attention(
            q_TNK, keys_SHK, values, table, scale=scale, window=window, sinks_N=sinks_N
        )
    return _launch(
        q_TNK,
        keys_SHK,
        values,
        table,
        scale=scale,
        window=window,
        sinks_N=sinks_N,
        values_are_keys=values_SHV is None,
        num_parts=choose_num_parts(q_TNK, keys_SHK, table),
        target=target,
    )


def choose_num_parts(q_TNK: Tensor, keys_SHK: Tensor, table: BlockTable) -> int:
    """A power of two that gives each multiprocessor some programs. Lengths have no say, since they lie on
    the device: a part without keys ends at once."""
    num_kv_heads = keys_SHK.shape[1]
    num_rows = table.max_queries * q_TNK.shape[1] // num_kv_heads
    num_tiles = -(-num_rows // _block_r(num_rows, q_TNK.shape[2]))
    programs = max(1, num_tiles * table.num_sequences * num_kv_heads)
    wanted = num_multiprocessors(q_TNK.device) * _PROGRAMS_PER_SM // programs
    return min(MAX_PARTS, _power_of_two(max(1, wanted)))


def _check(
    q_TNK: Tensor,
    keys_SHK: Tensor,
    values_SHV: Tensor,
    table: BlockTable,
    *,
    window: int | None,
    sinks_N: Tensor | None,
) -> None:
    """Raises a `KernelError` unless the operands fit together."""
    for name, tensor in (("q", q_TNK), ("keys", keys_SHK), ("values", values_SHV)):
        if tensor.dim() != 3:
            raise ShapeError(name, tensor.shape, "three dimensions, tokens, heads, dims,")
        check_dtype(name, tensor, CACHE_DTYPES if name == "q" else [q_TNK.dtype])
        if tensor.stride(2) != 1 and tensor.shape[2] > 1:
            raise KernelError(
                f"{name} has stride {tensor.stride(2)} along its last dimension, not 1"
            )
    num_heads, key_dim = q_TNK.shape[1:]
    num_slots, num_kv_heads = keys_SHK.shape[:2]
    check_shape("keys", keys_SHK, [num_slots, num_kv_heads, key_dim])
    check_shape("values", values_SHV, [num_slots, num_kv_heads, values_SHV.shape[2]])
    if num_heads % num_kv_heads:
        raise KernelError(f"{num_heads} query heads do not share {num_kv_heads} key-value heads")
    if window is not None and window < 1:
        raise KernelError(f"window is {window}; at least 1 is asked for")
    num_sequences = table.num_sequences
    check_shape("table.num_tokens", table.num_tokens_B, [num_sequences])
    check_shape("table.query_starts", table.query_starts_C, [num_sequences + 1])
    tensors = {"q": q_TNK, "keys": keys_SHK, "values": values_SHV, "table": table.blocks_X}
    if sinks_N is not None:
        check_shape("sinks", sinks_N, [num_heads])
        check_dtype("sinks", sinks_N, CACHE_DTYPES)
        tensors["sinks"] = sinks_N
    check_device(**tensors)


# Triton is imported where kernels are launched: a CPU's users do without it.


def _launch(
    q_TNK: Tensor,
    keys_SHK: Tensor,
    values_SHV: Tensor,
    table: BlockTable,
    *,
    scale: float,
    window: int | None = None,
    sinks_N: Tensor | None = None,
    values_are_keys: bool = False,
    num_parts: int,
    target: Target,
) -> Tensor:
    """`values_are_keys`: the values are the first dims of the keys. `num_parts`: a power of two; 1: one launch does all."""
    from composer_kernels.attention_details import _paged_attention

    T, N, K = q_TNK.shape
    H, V = values_SHV.shape[1:]
    out_TNV = q_TNK.new_empty(T, N, V)
    if T == 0 or table.num_sequences == 0:
        return out_TNV
    is_whole = num_parts == 1
    part_PTNV, max_PTN, sum_PTN = (
        None if is_whole else q_TNK.new_empty((num_parts, T, N, *dims), dtype=torch.float32)
        for dims in ((V,), (), ())
    )
    switches = kernel_switches(
        num_kv_heads=H,
        group=N // H,
        key_dim=K,
        value_dim=V,
        values_are_keys=values_are_keys,
        dtype=q_TNK.dtype,
        window=window,
        table=table,
        target=target,
    )
    num_tiles = -(-table.max_queries * (N // H) // _block_r(table.max_queries * (N // H), K))
    details: Any = _paged_attention
    details.paged_attention_kernel[(num_tiles, table.num_sequences * H, num_parts)](
        out_TNV if is_whole else None,
        part_PTNV,
        max_PTN,
        sum_PTN,
        q_TNK,
        keys_SHK,
        values_SHV,
        sinks_N if is_whole else None,
        table.blocks_X,
        table.block_starts_B,
        table.num_tokens_B,
        table.query_starts_C,
        scale * log2(e),
        T,
        q_TNK.stride(0),
        q_TNK.stride(1),
        keys_SHK.stride(0),
        keys_SHK.stride(1),
        values_SHV.stride(0),
        values_SHV.stride(1),
        **switches,
    )
    if not is_whole:
        details.join_parts_kernel[(T * N,)](
            out_TNV,
            part_PTNV,
            max_PTN,
            sum_PTN,
            sinks_N,
            T * N,
            NUM_HEADS=N,
            VALUE_DIM=V,
            BLOCK_V=switches["BLOCK_V"],
            NUM_PARTS=num_parts,
            BLOCK_P=min(num_parts, _PARTS_AT_A_TIME),
            INTERPRETED=target.interpreted,
        )
    return out_TNV


def kernel_switches(
    *,
    num_kv_heads: int,
    group: int,
    key_dim: int,
    value_dim: int,
    values_are_keys: bool,
    dtype: torch.dtype,
    window: int | None,
    table: BlockTable,
    target: Target,
) -> dict[str, object]:
    """The kernel's `tl.constexpr` arguments and its launch options. `group`: query heads of a key-value
    head."""
    main = max(16, _power_of_two(key_dim))
    rest = key_dim - main
    block_v = _padded(value_dim)
    block_r = _block_r(table.max_queries * group, key_dim)
    is_f32, is_wide = dtype == torch.float32, key_dim > 256
    return {
        "NUM_KV_HEADS": num_kv_heads,
        "GROUP": group,
        "KEY_DIM": key_dim,
        "VALUE_DIM": value_dim,
        "WINDOW": window,
        "CACHE_BLOCK": table.block_size,
        "MAIN": main,
        "REST": _padded(rest) if rest > 0 else 0,
        "BLOCK_V": block_v,
        "SHARED": values_are_keys and block_v == main,
        "BLOCK_R": block_r,
        "BLOCK_L": 16 if is_f32 else 32 if is_wide else 64,
        "INTERPRETED": target.interpreted,
        "num_warps": 8 if is_wide or is_f32 or block_r == 64 else 4,
        "num_stages": 2,
    }


def _block_r(num_rows: int, key_dim: int) -> int:
    """Rows of a tile: as few as hold those of a sequence and a head, up to what registers hold."""
    return min(_padded(num_rows), 32 if key_dim > 256 else 64)


def _padded(size: int) -> int:
    """The least power of two, from 16 on, that holds so many."""
    return max(16, 1 << (size - 1).bit_length())


def _power_of_two(size: int) -> int:
    """The largest that is not more."""
    return 1 << (size.bit_length() - 1)
