"""Attention over a paged cache: the keys of a sequence in parts, and a second launch that joins them.

    out[t, n] = sum_l softmax_l(scale * q[t, n] . k[l, h(n)]) v[l, h(n)]

t a new token of sequence b, n a query head, h(n) its key-value head, l the places of b that t sees: up
to its own, and with WINDOW no more than so many. A sink is one more logit of the softmax, without a
value. The rows of a tile are the query heads of one key-value head and the new tokens of one sequence,
so that a key is loaded once for all of them.

Exponents are of base 2: `scale` has log2(e) in it. Each part keeps its largest logit, the sum of its
exponentials and the weighted sum of values, all f32 (the online softmax, arXiv 1805.02867; parts as in
Flash-Decoding, 2023). Sums are in an order fixed by the shapes and the lengths: no atomics.

Dimensions: B sequences, T new tokens of all, N query heads, H key-value heads, K and V dims of a key and
a value, S slots of the cache, P parts.
"""

import triton
import triton.language as tl

from composer_kernels.mxfp8_details._decode import f32_to_bf16, to_f32

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _load_rows(rows, columns, in_rows, DIM: tl.constexpr, WIDTH: tl.constexpr):
    """`[rows, WIDTH]`, of which those from DIM on are zeros."""
    mask = in_rows[:, None]
    if DIM != WIDTH:
        mask = mask & (columns < DIM)[None, :]
    return tl.load(rows[:, None] + columns[None, :], mask=mask, other=0.0)


@triton.jit
def _product(x, y, acc, INTERPRETED: tl.constexpr):
    """x y + acc. f32 operands are not rounded to TF32."""
    if INTERPRETED:
        x = to_f32(x, INTERPRETED)
        y = to_f32(y, INTERPRETED)
    return tl.dot(x, y, acc, input_precision="ieee")


@triton.jit
def _rounded(y, dtype: tl.constexpr, INTERPRETED: tl.constexpr):
    if dtype == tl.bfloat16:
        result = f32_to_bf16(y, INTERPRETED)
    else:
        result = y.to(dtype)
    return result


@triton.jit
def _finite(largest):
    """Of a row that has seen no key, whose largest logit is -inf: anything to subtract."""
    return tl.where(largest == float("-inf"), 0.0, largest)


@triton.jit(do_not_specialize=["num_new"])
def paged_attention_kernel(
    out_ptr,  # [T, N, V], or None: the parts go to the next three
    part_ptr,  # f32 [P, T, N, V]
    part_max_ptr,  # f32 [P, T, N]
    part_sum_ptr,  # f32 [P, T, N]
    q_ptr,  # [T, N, K]
    keys_ptr,  # [S, H, K]
    values_ptr,  # [S, H, V]
    sinks_ptr,  # [N], or None
    blocks_ptr,  # the blocks of all sequences, one sequence after another
    block_starts_ptr,  # [B], into those
    num_tokens_ptr,  # [B], cached and new
    query_starts_ptr,  # [B + 1], rows of q
    scale,
    num_new,  # T
    stride_q_t,
    stride_q_n,
    stride_keys_s,
    stride_keys_h,
    stride_values_s,
    stride_values_h,
    NUM_KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    WINDOW: tl.constexpr,
    CACHE_BLOCK: tl.constexpr,
    MAIN: tl.constexpr,
    REST: tl.constexpr,
    BLOCK_V: tl.constexpr,
    SHARED: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_L: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """Grid: (tiles of rows of one sequence and head, B * H, P). A key is multiplied in two pieces, of
    MAIN and REST dims, since a tile's sizes are powers of two (576 is 512 and 64). SHARED: the values
    are the keys' main pieces."""
    sequence = tl.program_id(1) // NUM_KV_HEADS
    kv_head = tl.program_id(1) % NUM_KV_HEADS
    first_query = tl.load(query_starts_ptr + sequence)
    num_queries = (tl.load(query_starts_ptr + sequence + 1) - first_query).to(tl.int32)
    num_tokens = tl.load(num_tokens_ptr + sequence).to(tl.int32)
    num_cached = num_tokens - num_queries
    first_row = tl.program_id(0) * BLOCK_R
    if first_row < num_queries * GROUP:
        r = first_row + tl.arange(0, BLOCK_R)
        in_r = r < num_queries * GROUP
        token = first_query + r // GROUP
        head = kv_head * GROUP + r % GROUP
        position = num_cached + r // GROUP
        main = tl.arange(0, MAIN)
        q_rows = q_ptr + token.to(tl.int64) * stride_q_t + head * stride_q_n
        q = _load_rows(q_rows, main, in_r, min(KEY_DIM, MAIN), MAIN)
        if REST:
            rest = tl.arange(0, REST)
            q_rest = _load_rows(q_rows + MAIN, rest, in_r, KEY_DIM - MAIN, REST)

        # Of the places that any row of the tile sees, those of this part.
        seen = 0
        if WINDOW is not None:
            seen = tl.maximum(0, num_cached + first_row // GROUP + 1 - WINDOW)
        end = tl.minimum(num_cached + (first_row + BLOCK_R - 1) // GROUP + 1, num_tokens)
        steps = tl.cdiv(tl.cdiv(end - seen, tl.num_programs(2)), BLOCK_L)
        first = seen + tl.program_id(2) * steps * BLOCK_L
        last = tl.minimum(first + steps * BLOCK_L, end)

        blocks = blocks_ptr + tl.load(block_starts_ptr + sequence)
        keys = keys_ptr + kv_head * stride_keys_h
        values = values_ptr + kv_head * stride_values_h
        v = tl.arange(0, BLOCK_V)
        largest = tl.full((BLOCK_R,), float("-inf"), tl.float32)
        total = tl.zeros((BLOCK_R,), tl.float32)
        acc = tl.zeros((BLOCK_R, BLOCK_V), tl.float32)
        for start in range(first, last, BLOCK_L):
            place = start + tl.arange(0, BLOCK_L)
            in_l = place < last
            block = tl.load(blocks + place // CACHE_BLOCK, mask=in_l, other=0)
            slot = block.to(tl.int64) * CACHE_BLOCK + place % CACHE_BLOCK
            key_rows = keys + slot * stride_keys_s
            key = _load_rows(key_rows, main, in_l, min(KEY_DIM, MAIN), MAIN)
            logits = tl.zeros((BLOCK_R, BLOCK_L), tl.float32)
            logits = _product(q, tl.trans(key), logits, INTERPRETED)
            if REST:
                key_rest = _load_rows(key_rows + MAIN, rest, in_l, KEY_DIM - MAIN, REST)
                logits = _product(q_rest, tl.trans(key_rest), logits, INTERPRETED)
            is_seen = in_l[None, :] & (place[None, :] <= position[:, None])
            if WINDOW is not None:
                is_seen = is_seen & (place[None, :] > position[:, None] - WINDOW)
            logits = tl.where(is_seen, logits * scale, float("-inf"))
            larger = tl.maximum(largest, tl.max(logits, 1))
            weights = tl.exp2(logits - _finite(larger)[:, None])
            shrink = tl.exp2(largest - _finite(larger))
            total = total * shrink + tl.sum(weights, 1)
            if SHARED:
                value = key
            else:
                value_rows = values + slot * stride_values_s
                value = _load_rows(value_rows, v, in_l, VALUE_DIM, BLOCK_V)
            if not INTERPRETED:
                weights = weights.to(value.dtype)
            acc = _product(weights, value, acc * shrink[:, None], INTERPRETED)
            largest = larger

        row_out = token.to(tl.int64) * (NUM_KV_HEADS * GROUP) + head
        mask = in_r[:, None] & (v < VALUE_DIM)[None, :]
        if out_ptr is not None:
            if sinks_ptr is not None:
                sink = to_f32(tl.load(sinks_ptr + head), INTERPRETED) * LOG2_E
                larger = tl.maximum(largest, sink)
                shrink = tl.exp2(largest - larger)
                total = total * shrink + tl.exp2(sink - larger)
                acc = acc * shrink[:, None]
            result = _rounded(acc / total[:, None], out_ptr.dtype.element_ty, INTERPRETED)
            tl.store(out_ptr + (row_out * VALUE_DIM)[:, None] + v[None, :], result, mask=mask)
        else:
            num_out = tl.cast(num_new, tl.int64) * (NUM_KV_HEADS * GROUP)
            row_out += tl.program_id(2) * num_out
            tl.store(part_max_ptr + row_out, largest, mask=in_r)
            tl.store(part_sum_ptr + row_out, total, mask=in_r)
            mask = mask & (last > first)
            tl.store(part_ptr + (row_out * VALUE_DIM)[:, None] + v[None, :], acc, mask=mask)


@triton.jit(do_not_specialize=["num_out"])
def join_parts_kernel(
    out_ptr,  # [T, N, V]
    part_ptr,  # f32 [P, T, N, V]
    part_max_ptr,  # f32 [P, T, N]
    part_sum_ptr,  # f32 [P, T, N]
    sinks_ptr,  # [N], or None
    num_out,  # T * N
    NUM_HEADS: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    BLOCK_V: tl.constexpr,
    NUM_PARTS: tl.constexpr,
    BLOCK_P: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """Grid: (T * N,). A part without keys has -inf as its largest logit; its values are not read.
    BLOCK_P parts are read at a time."""
    row = tl.program_id(0).to(tl.int64)
    every = tl.arange(0, NUM_PARTS)
    part_max = tl.load(part_max_ptr + every.to(tl.int64) * num_out + row)
    part_sum = tl.load(part_sum_ptr + every.to(tl.int64) * num_out + row)
    largest = tl.max(part_max, 0)
    if sinks_ptr is not None:
        sink = to_f32(tl.load(sinks_ptr + row % NUM_HEADS), INTERPRETED) * LOG2_E
        largest = tl.maximum(largest, sink)
    total = tl.sum(part_sum * tl.exp2(part_max - largest), 0)
    if sinks_ptr is not None:
        total += tl.exp2(sink - largest)
    v = tl.arange(0, BLOCK_V)
    acc = tl.zeros((BLOCK_V,), tl.float32)
    for first in range(0, NUM_PARTS, BLOCK_P):
        part = first + tl.arange(0, BLOCK_P)
        rows = part.to(tl.int64) * num_out + row
        weight = tl.exp2(tl.load(part_max_ptr + rows) - largest)
        mask = (weight > 0.0)[:, None] & (v < VALUE_DIM)[None, :]
        values = tl.load(part_ptr + (rows * VALUE_DIM)[:, None] + v[None, :], mask=mask, other=0.0)
        acc += tl.sum(values * weight[:, None], 0)
    result = _rounded(acc / total, out_ptr.dtype.element_ty, INTERPRETED)
    tl.store(out_ptr + row * VALUE_DIM + v, result, mask=v < VALUE_DIM)
