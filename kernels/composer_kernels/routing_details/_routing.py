"""Triton code of `composer_kernels.routing`: the router, the sort of slots by expert, and the copies of rows.

Dimensions: T tokens, E experts, K chosen experts a token, G groups of S experts, N = T * K slots in the
order of (token, slot), C chunks of slots, P rows of the permuted buffer, D model dim.

Nothing here uses atomics: every sum is taken in an order fixed by the shapes, so results repeat bit by bit.

Masks compare an index with a bound, which is 0 where there is nothing to read. Combined with a scalar
condition instead, a mask is no boolean to the interpreter, which Triton 3.9 refuses.
"""

import triton
import triton.language as tl

from composer_kernels.mxfp8_details._decode import from_f32, to_f32

_SOFTMAX: tl.constexpr = tl.constexpr(0)
_SOFTMAX_OF_CHOSEN: tl.constexpr = tl.constexpr(1)
_SIGMOID: tl.constexpr = tl.constexpr(2)

_LOWEST: tl.constexpr = tl.constexpr(-3.4028234663852886e38)
_NORMALIZE_EPS: tl.constexpr = tl.constexpr(1e-20)
_INDEX_BITS: tl.constexpr = tl.constexpr(0x7FFFFFFF)
_BELOW_ALL: tl.constexpr = tl.constexpr(-(2**63))


# ---------------------------------------------------------------------------------------- route


@triton.jit
def _rank_key(value, index):
    """int64 that orders by value (f32, no NaN, no -0), and among equal values by the lower index."""
    bits = value.to(tl.int32, bitcast=True)
    ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    return (ordered.to(tl.int64) << 32) | (index ^ _INDEX_BITS)


@triton.jit
def _value_of_key(key):
    ordered = (key >> 32).to(tl.int32)
    return (ordered ^ ((ordered >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def _sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def _kept_groups(
    key_TGS,
    NUM_GROUPS: tl.constexpr,
    TOPK_GROUPS: tl.constexpr,
    TOP2_SUM: tl.constexpr,
    G_PAD: tl.constexpr,
):
    best_TG = tl.max(key_TGS, axis=2)
    score_TG = _value_of_key(best_TG)
    if TOP2_SUM:
        rest_TGS = tl.where(key_TGS == best_TG[:, :, None], _BELOW_ALL, key_TGS)
        score_TG += _value_of_key(tl.max(rest_TGS, axis=2))
    group = tl.arange(0, G_PAD)[None, :]
    key_TG = tl.where(group < NUM_GROUPS, _rank_key(score_TG, group), _BELOW_ALL)
    kept_TG = key_TG != key_TG
    for _ in range(TOPK_GROUPS):
        is_best_TG = key_TG == tl.max(key_TG, axis=1)[:, None]
        kept_TG = kept_TG | is_best_TG
        key_TG = tl.where(is_best_TG, _BELOW_ALL, key_TG)
    return kept_TG


@triton.jit
def route_kernel(
    logits,  # [T, E], any float
    bias,  # f32 [E]
    weights,  # f32 [T, K]
    ids,  # int32 [T, K]
    num_tokens,
    routed_scaling_factor,
    GROUP_SIZE: tl.constexpr,
    NUM_GROUPS: tl.constexpr,
    TOPK_GROUPS: tl.constexpr,
    TOP2_SUM: tl.constexpr,
    TOP_K: tl.constexpr,
    SCORING: tl.constexpr,
    RANKS_LOGITS: tl.constexpr,
    HAS_BIAS: tl.constexpr,
    NORMALIZE: tl.constexpr,
    BLOCK_T: tl.constexpr,
    G_PAD: tl.constexpr,
    S_PAD: tl.constexpr,
    K_PAD: tl.constexpr,
):
    """Scores, choice and weights of BLOCK_T tokens; the choice takes the best key TOP_K times."""
    token = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    group = tl.arange(0, G_PAD)[None, :, None]
    member = tl.arange(0, S_PAD)[None, None, :]
    expert = group * GROUP_SIZE + member
    is_expert = (group < NUM_GROUPS) & (member < GROUP_SIZE)
    row = logits + token.to(tl.int64) * (NUM_GROUPS * GROUP_SIZE)
    is_token = token < num_tokens
    x_TGS = tl.load(
        row[:, None, None] + expert, mask=is_token[:, None, None] & is_expert, other=float("-inf")
    ).to(tl.float32)
    is_nan_TGS = x_TGS != x_TGS
    num_nan_T = tl.sum(tl.sum(is_nan_TGS.to(tl.int32), axis=2), axis=1)
    x_TGS = tl.where(is_nan_TGS, float("-inf"), x_TGS)

    max_T = tl.max(tl.max(x_TGS, axis=2), axis=1)
    exp_TGS = tl.exp(x_TGS - max_T[:, None, None])
    denominator_T = tl.sum(tl.sum(exp_TGS, axis=2), axis=1)
    choice_TGS = x_TGS
    if not RANKS_LOGITS:
        if SCORING == _SIGMOID:
            choice_TGS = _sigmoid(x_TGS)
        else:
            choice_TGS = exp_TGS / denominator_T[:, None, None]
    if HAS_BIAS:
        choice_TGS += tl.load(bias + expert, mask=is_expert, other=0.0).to(tl.float32)
    choice_TGS = tl.where(choice_TGS > _LOWEST, choice_TGS, _LOWEST)  # false for NaN and -inf
    choice_TGS = tl.where(choice_TGS == 0.0, 0.0, choice_TGS)  # -0 and 0 are equal

    key_TGS = tl.where(is_expert, _rank_key(choice_TGS, expert), _BELOW_ALL)
    if NUM_GROUPS > 1:
        kept_TG = _kept_groups(key_TGS, NUM_GROUPS, TOPK_GROUPS, TOP2_SUM, G_PAD)
        key_TGS = tl.where(kept_TG[:, :, None], key_TGS, _BELOW_ALL)
    key_TE = tl.reshape(key_TGS, (BLOCK_T, G_PAD * S_PAD))
    slot = tl.arange(0, K_PAD)[None, :]
    ids_TK = tl.zeros((BLOCK_T, K_PAD), tl.int32)
    for k in range(TOP_K):
        best_T = tl.max(key_TE, axis=1)
        chosen_T = ((best_T & _INDEX_BITS) ^ _INDEX_BITS).to(tl.int32)
        ids_TK = tl.where(slot == k, chosen_T[:, None], ids_TK)
        key_TE = tl.where(key_TE == best_T[:, None], _BELOW_ALL, key_TE)

    is_slot = is_token[:, None] & (slot < TOP_K)
    chosen_x_TK = tl.load(row[:, None] + ids_TK, mask=is_slot, other=float("-inf")).to(tl.float32)
    if SCORING == _SOFTMAX:
        weights_TK = tl.exp(chosen_x_TK - max_T[:, None]) / denominator_T[:, None]
    elif SCORING == _SOFTMAX_OF_CHOSEN:
        exp_TK = tl.exp(chosen_x_TK - tl.max(chosen_x_TK, axis=1)[:, None])
        weights_TK = exp_TK / tl.sum(exp_TK, axis=1)[:, None]
    else:
        weights_TK = _sigmoid(chosen_x_TK)
    if NORMALIZE:
        total_T = tl.sum(weights_TK, axis=1)  # slots past TOP_K are zeros: their logit is -inf
        weights_TK = weights_TK / (total_T[:, None] + _NORMALIZE_EPS)
    weights_TK = weights_TK * routed_scaling_factor
    weights_TK = tl.where(num_nan_T[:, None] > 0, float("nan"), weights_TK)
    out = token.to(tl.int64)[:, None] * TOP_K + slot
    tl.store(weights + out, weights_TK, mask=is_slot)
    tl.store(ids + out, ids_TK, mask=is_slot)


# ------------------------------------------------------------------------------------- dispatch


@triton.jit
def _local_ids(ids, slot, num_slots, first_local_expert, NUM_LOCAL: tl.constexpr):
    """Local expert of each slot; -1 where it is not local, or where there is no such slot."""
    local = (
        tl.load(ids + slot, mask=slot < num_slots, other=first_local_expert - 1)
        - first_local_expert
    )
    return tl.where((local >= 0) & (local < NUM_LOCAL), local, -1)


@triton.jit
def _count_experts(
    ids,
    chunk_start,
    chunk_end,
    first_local_expert,
    NUM_LOCAL: tl.constexpr,
    E_PAD: tl.constexpr,
    STEP: tl.constexpr,
):
    expert = tl.arange(0, E_PAD)
    hits_NE = tl.zeros((STEP, E_PAD), tl.int32)
    for start in range(chunk_start, chunk_end, STEP):
        slot = start + tl.arange(0, STEP)
        local_N = _local_ids(ids, slot, chunk_end, first_local_expert, NUM_LOCAL)
        hits_NE += (local_N[:, None] == expert[None, :]).to(tl.int32)
    return tl.sum(hits_NE, axis=0)


@triton.jit
def count_kernel(
    ids,  # int32 [N]
    counts,  # int32 [C, NUM_LOCAL]
    num_slots,
    first_local_expert,
    NUM_LOCAL: tl.constexpr,
    E_PAD: tl.constexpr,
    CHUNK: tl.constexpr,
    STEP: tl.constexpr,
):
    """counts[c, e] = slots of expert e in chunk c."""
    chunk = tl.program_id(0)
    expert = tl.arange(0, E_PAD)
    chunk_end = tl.minimum((chunk + 1) * CHUNK, num_slots)
    counts_E = _count_experts(
        ids, chunk * CHUNK, chunk_end, first_local_expert, NUM_LOCAL, E_PAD, STEP
    )
    tl.store(counts + chunk * NUM_LOCAL + expert, counts_E, mask=expert < NUM_LOCAL)


@triton.jit
def scan_kernel(
    counts,  # int32 [C, NUM_LOCAL], overwritten
    num_tokens_per_expert,  # int32 [NUM_LOCAL]
    num_chunks,
    NUM_LOCAL: tl.constexpr,
    BLOCK_C: tl.constexpr,
    BLOCK_E: tl.constexpr,
):
    """counts[c, e] becomes the slots of expert e in the chunks before c; the totals go out apart."""
    expert = tl.program_id(0) * BLOCK_E + tl.arange(0, BLOCK_E)
    total_E = tl.zeros((BLOCK_E,), tl.int32)
    for start in range(0, num_chunks, BLOCK_C):
        chunk = start + tl.arange(0, BLOCK_C)
        at = counts + chunk[:, None] * NUM_LOCAL + expert[None, :]
        mask = (chunk[:, None] < num_chunks) & (expert[None, :] < NUM_LOCAL)
        counts_CE = tl.load(at, mask=mask, other=0)
        tl.store(at, total_E[None, :] + tl.cumsum(counts_CE, axis=0) - counts_CE, mask=mask)
        total_E += tl.sum(counts_CE, axis=0)
    tl.store(num_tokens_per_expert + expert, total_E, mask=expert < NUM_LOCAL)


@triton.jit
def _describe_blocks(
    expert_of_block,
    token_of_row,
    num_blocks,
    first_row_E,
    end_row_E,
    total_E,
    E_PAD: tl.constexpr,
    BLOCK_M: tl.constexpr,
    STEP: tl.constexpr,
):
    """Name each block's expert, and mark the rows past an expert's last token as padding."""
    expert = tl.arange(0, E_PAD)
    num_rows = tl.max(end_row_E, axis=0)
    for start in range(tl.program_id(0) * STEP, num_blocks, tl.num_programs(0) * STEP):
        block = start + tl.arange(0, STEP)
        row = block * BLOCK_M
        expert_B = tl.sum((end_row_E[None, :] <= row[:, None]).to(tl.int32), axis=1)
        is_mine_BE = expert[None, :] == expert_B[:, None]
        last_token_end_B = tl.sum(tl.where(is_mine_BE, (first_row_E + total_E)[None, :], 0), axis=1)
        is_block = block < num_blocks
        tl.store(expert_of_block + block, tl.where(row < num_rows, expert_B, -1), mask=is_block)
        row_BM = row[:, None] + tl.arange(0, BLOCK_M)[None, :]
        # In an unused block, whose end is 0, that is every row.
        is_padding_BM = row_BM >= last_token_end_B[:, None]
        minus_one_BM = tl.full((STEP, BLOCK_M), -1, tl.int32)
        tl.store(token_of_row + row_BM, minus_one_BM, mask=is_block[:, None] & is_padding_BM)


@triton.jit
def place_kernel(
    ids,  # int32 [N]
    counts,  # int32 [C, NUM_LOCAL] as scan_kernel leaves it; unread when ONE_CHUNK
    num_tokens_per_expert,  # int32 [NUM_LOCAL]; written when ONE_CHUNK, read otherwise
    block_offsets,  # int32 [NUM_LOCAL + 1]
    expert_of_block,  # int32 [num_blocks]
    token_of_row,  # int32 [num_blocks * BLOCK_M]
    row_of_slot,  # int32 [N]
    num_slots,
    num_blocks,
    first_local_expert,
    TOP_K: tl.constexpr,
    NUM_LOCAL: tl.constexpr,
    E_PAD: tl.constexpr,
    BLOCK_M: tl.constexpr,
    CHUNK: tl.constexpr,
    STEP: tl.constexpr,
    ONE_CHUNK: tl.constexpr,
):
    """Give each slot of a chunk its row: the expert's first row + its slots before this one."""
    chunk = tl.program_id(0)
    expert = tl.arange(0, E_PAD)
    is_expert = expert < NUM_LOCAL
    chunk_start = chunk * CHUNK
    chunk_end = tl.minimum(chunk_start + CHUNK, num_slots)
    if ONE_CHUNK:
        total_E = _count_experts(ids, 0, num_slots, first_local_expert, NUM_LOCAL, E_PAD, STEP)
        tl.store(num_tokens_per_expert + expert, total_E, mask=is_expert)
        before_E = tl.zeros((E_PAD,), tl.int32)
    else:
        total_E = tl.load(num_tokens_per_expert + expert, mask=is_expert, other=0)
        before_E = tl.load(counts + chunk * NUM_LOCAL + expert, mask=is_expert, other=0)

    padded_E = (total_E + BLOCK_M - 1) // BLOCK_M * BLOCK_M
    end_row_E = tl.cumsum(padded_E, axis=0)
    first_row_E = end_row_E - padded_E
    if chunk == 0:
        tl.store(block_offsets + expert, first_row_E, mask=is_expert)
        tl.store(block_offsets + 1 + expert, end_row_E, mask=expert == NUM_LOCAL - 1)
    _describe_blocks(
        expert_of_block,
        token_of_row,
        num_blocks,
        first_row_E,
        end_row_E,
        total_E,
        E_PAD,
        BLOCK_M,
        STEP,
    )

    next_row_E = first_row_E + before_E
    earlier = tl.arange(0, STEP)[None, :] < tl.arange(0, STEP)[:, None]
    for start in range(chunk_start, chunk_end, STEP):
        slot = start + tl.arange(0, STEP)
        local_N = _local_ids(ids, slot, chunk_end, first_local_expert, NUM_LOCAL)
        is_hit_NE = local_N[:, None] == expert[None, :]
        same_NN = (local_N[:, None] == local_N[None, :]) & earlier
        row_N = tl.sum(tl.where(is_hit_NE, next_row_E[None, :], 0), axis=1)
        row_N += tl.sum(same_NN.to(tl.int32), axis=1)
        is_local_N = local_N >= 0
        tl.store(row_of_slot + slot, tl.where(is_local_N, row_N, -1), mask=slot < chunk_end)
        tl.store(token_of_row + row_N, slot // TOP_K, mask=is_local_N)
        next_row_E += tl.sum(is_hit_NE.to(tl.int32), axis=0)


# ------------------------------------------------------------------------- permute and combine


@triton.jit
def permute_kernel(
    x,  # [T, D]
    token_of_row,  # int32 [P]
    out,  # [P, D]
    D,
    BLOCK_D: tl.constexpr,
):
    """out[p] = x[token_of_row[p]], or zeros where that is -1."""
    row = tl.program_id(0)
    d = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    token = tl.load(token_of_row + row)
    num_read = tl.where(token >= 0, D, 0)
    value = tl.load(x + token.to(tl.int64) * D + d, mask=d < num_read, other=0)
    tl.store(out + row.to(tl.int64) * D + d, value, mask=d < D)


@triton.jit
def combine_kernel(
    y,  # [P, D]
    row_of_slot,  # int32 [T, K]
    weights,  # f32 [T, K]
    out,  # [T, D]
    D,
    TOP_K: tl.constexpr,
    WEIGHTED: tl.constexpr,
    BLOCK_D: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """out[t] = sum over k of weights[t, k] * y[row_of_slot[t, k]], in the order of k, in f32."""
    token = tl.program_id(0).to(tl.int64)
    d = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    sum_D = tl.zeros((BLOCK_D,), tl.float32)
    for k in tl.static_range(TOP_K):  # unrolled: the loads of all slots are under way together
        row = tl.load(row_of_slot + token * TOP_K + k)
        is_local = row >= 0
        num_read = tl.where(is_local, D, 0)
        y_D = tl.load(y + row.to(tl.int64) * D + d, mask=d < num_read, other=0)
        term_D = to_f32(y_D, INTERPRETED)
        if WEIGHTED:
            weight = tl.load(weights + token * TOP_K + k)
            term_D *= tl.where(is_local, weight, 0.0)
        sum_D += term_D
    tl.store(out + token * D + d, from_f32(sum_D, out.dtype.element_ty, INTERPRETED), mask=d < D)


@triton.jit
def combine_backward_kernel(
    grad_out,  # [T, D]
    y,  # [P, D]
    token_of_row,  # int32 [P]
    row_of_slot,  # int32 [T, K]
    weights,  # f32 [T, K]
    grad_y,  # [P, D]
    grad_weights,  # f32 [T, K], zeros
    D,
    TOP_K: tl.constexpr,
    K_PAD: tl.constexpr,
    BLOCK_D: tl.constexpr,
    INTERPRETED: tl.constexpr,
):
    """Of row p, which is slot (t, k): grad_y[p] = weights[t, k] * grad_out[t]; grad_weights[t, k] = grad_out[t] . y[p]."""
    row = tl.program_id(0)
    token = tl.load(token_of_row + row)
    num_slots = tl.where(token >= 0, TOP_K, 0)
    num_read = tl.where(token >= 0, D, 0)
    k = tl.arange(0, K_PAD)
    slot = token.to(tl.int64) * TOP_K + k
    is_slot = k < num_slots
    is_mine = tl.load(row_of_slot + slot, mask=is_slot, other=-1) == row
    slot_weights = tl.load(weights + slot, mask=is_slot, other=0.0)
    weight = tl.sum(tl.where(is_mine, slot_weights, 0.0), axis=0)
    dot_D = tl.zeros((BLOCK_D,), tl.float32)
    for start in range(0, D, BLOCK_D):
        d = start + tl.arange(0, BLOCK_D)
        at = row.to(tl.int64) * D + d
        mask = d < num_read
        grad_D = tl.load(grad_out + token.to(tl.int64) * D + d, mask=mask, other=0)
        grad_D = to_f32(grad_D, INTERPRETED)
        y_D = to_f32(tl.load(y + at, mask=mask, other=0), INTERPRETED)
        dot_D += grad_D * y_D
        grad_y_D = from_f32(weight * grad_D, grad_y.dtype.element_ty, INTERPRETED)
        tl.store(grad_y + at, grad_y_D, mask=d < D)
    tl.store(
        grad_weights + slot, tl.zeros((K_PAD,), tl.float32) + tl.sum(dot_D, axis=0), mask=is_mine
    )
