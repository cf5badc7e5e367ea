"""Sharing, keeping and evicting blocks; `test_prefix_cache_lifetimes` draws whole lives at random."""

import pytest

from composer_inference.kv.blocks import OutOfBlocksError
from composer_inference.kv.prefix_cache import Lease, PrefixCache

A = list(range(100, 112))
"""Three blocks of four."""


def computed(cache: PrefixCache, tokens: list[int]) -> Lease:
    lease = cache.acquire(tokens)
    lease.reserve(len(tokens))
    lease.commit(tokens)
    return lease


def counts(cache: PrefixCache) -> tuple[int, int, int]:
    cache.check_integrity()
    return cache.num_free, cache.num_cached, cache.num_held


@pytest.mark.parametrize(
    ("prompt", "num_cached"),
    [
        pytest.param([*A, 1], 12, id="longer"),
        pytest.param(A, 8, id="the same leaves a token to compute"),
        pytest.param([*A[:8], 1], 8, id="shorter by a block"),
        pytest.param([*A[:7], 1, *A[8:]], 4, id="differs within the second block"),
        pytest.param([1, *A], 0, id="shifted"),
        pytest.param(A[4:], 0, id="the same blocks elsewhere"),
        pytest.param(A[:4], 0, id="one block"),
        pytest.param([], 0, id="empty"),
    ],
)
def test_the_longest_prefix_in_whole_blocks_is_shared(prompt: list[int], num_cached: int) -> None:
    cache = PrefixCache(8, 4)
    blocks = computed(cache, A).blocks
    lease = cache.acquire(prompt)
    assert lease.num_cached == num_cached
    assert lease.blocks == blocks[: num_cached // 4]


def test_tokens_of_one_hash_are_told_apart() -> None:
    assert hash(-1) == hash(-2)
    cache = PrefixCache(8, 2)
    computed(cache, [-1, -1, 0])
    assert cache.acquire([-2, -2, 0]).num_cached == 0


def test_only_whole_committed_blocks_stay() -> None:
    cache = PrefixCache(8, 4)
    lease = cache.acquire(A)
    lease.reserve(20)
    lease.commit(A[:7])
    assert counts(cache) == (3, 0, 5)
    lease.release()
    lease.release()
    assert counts(cache) == (7, 1, 0)
    assert cache.acquire(A).num_cached == 4


def test_a_commit_that_says_less_takes_nothing_back() -> None:
    cache = PrefixCache(8, 4)
    lease = computed(cache, A)
    lease.commit(A[:4])
    lease.commit(A)
    assert counts(cache) == (5, 0, 3)
    lease.release()
    assert cache.acquire([*A, 1]).num_cached == 12


@pytest.mark.parametrize(
    ("used", "lengths"),
    [
        pytest.param("AB", [(12, 8), (8, 8), (4, 8), (4, 4), (0, 0)], id="A longer ago"),
        pytest.param("BA", [(12, 8), (12, 4), (8, 4), (4, 4), (0, 0)], id="B longer ago"),
    ],
)
def test_the_least_recently_used_goes_first_from_its_end_and_the_trunk_last(
    used: str, lengths: list[tuple[int, int]]
) -> None:
    cache = PrefixCache(4, 4)
    prompts = {"A": [*A, 1], "B": [*A[:4], 9, 9, 9, 9, 1]}
    for prompt in prompts.values():
        computed(cache, prompt[:-1]).release()
    lease = cache.acquire([7])
    for num_blocks, expected in enumerate(lengths):
        lease.reserve(num_blocks * 4)
        num_cached: dict[str, int] = {}
        for name in used:
            hit = cache.acquire(prompts[name])
            num_cached[name] = hit.num_cached
            hit.release()
        assert (num_cached["A"], num_cached["B"]) == expected
        cache.check_integrity()


def test_out_of_blocks_changes_nothing() -> None:
    cache = PrefixCache(8, 4)
    held = computed(cache, A)
    computed(cache, [1, 2, 3, 4]).release()
    lease = cache.acquire([1, 2, 3, 4, 5])
    lease.reserve(5)
    before = counts(cache), list(lease.blocks)
    with pytest.raises(OutOfBlocksError, match="has 3 blocks left and 4 are needed") as caught:
        lease.reserve(6 * 4)
    assert (caught.value.needed, caught.value.available) == (4, 3)
    assert (counts(cache), lease.blocks) == before
    lease.reserve(5 * 4)
    with pytest.raises(OutOfBlocksError):
        held.reserve(4 * 4)
    lease.release()
    held.reserve(4 * 4)
    assert counts(cache) == (3, 1, 4)


def test_leases_grow_in_place_beside_each_other() -> None:
    cache = PrefixCache(400, 4)
    leases = [cache.acquire([number]) for number in range(3)]
    for num_tokens in range(1, 100):
        for lease in leases:
            lease.reserve(num_tokens)
    for lease in leases:
        assert lease.blocks == list(range(lease.blocks[0], lease.blocks[0] + 25))


def test_two_that_compute_the_same_leave_one_of_it() -> None:
    cache = PrefixCache(8, 4)
    first, second = cache.acquire(A), cache.acquire(A)
    for lease in (first, second):
        lease.reserve(12)
        lease.commit(A)
    assert not set(first.blocks) & set(second.blocks)
    kept = list(second.blocks)
    first.release()
    assert counts(cache) == (5, 0, 3)
    assert cache.acquire([*A, 1]).blocks == kept


def test_a_block_computed_again_replaces_the_cached_one() -> None:
    cache = PrefixCache(8, 4)
    computed(cache, A).release()
    again = computed(cache, A)
    assert counts(cache) == (5, 0, 3)
    again.release()
    assert counts(cache) == (5, 3, 0)


def test_another_request_hangs_on_the_committed_blocks_of_one_that_runs() -> None:
    cache = PrefixCache(8, 4)
    lease = cache.acquire(A)
    lease.reserve(16)
    lease.commit(A[:9])
    other = cache.acquire([*A[:8], 1, 1, 1, 1])
    assert (other.num_cached, other.blocks) == (8, lease.blocks[:2])
    other.reserve(12)
    assert other.blocks[2] not in lease.blocks
    lease.release()
    assert counts(cache) == (5, 0, 3)
    other.commit([*A[:8], 1, 1, 1, 1])
    other.release()
    assert cache.acquire([*A[:8], 1, 1, 1, 1, 2]).num_cached == 12


def test_after_clear_nothing_is_shared_that_was_computed_before() -> None:
    cache = PrefixCache(8, 4)
    computed(cache, [1, 2, 3, 4]).release()
    held = computed(cache, A)
    cache.clear()
    assert counts(cache) == (5, 0, 3)
    assert cache.acquire([*A, 1]).num_cached == 0
    held.reserve(16)
    held.commit([*A, 1, 2, 3, 4])
    assert cache.acquire([*A, 1, 2, 3, 4, 5]).num_cached == 0
    held.release()
    assert counts(cache) == (8, 0, 0)
    computed(cache, A).release()
    assert cache.acquire([*A, 1]).num_cached == 12


def test_check_integrity_names_a_lost_block() -> None:
    cache = PrefixCache(8, 4)
    cache.take(1, None)
    with pytest.raises(AssertionError, match="block 0: 1, held 0"):
        cache.check_integrity()
