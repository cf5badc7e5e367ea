"""Free blocks against a plain set of numbers."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from composer_inference.kv.blocks import FreeBlocks


def num_runs(blocks: list[int]) -> int:
    return 1 + sum(other != one + 1 for one, other in pairwise(blocks))


@given(
    num_blocks=st.integers(0, 300),
    moves=st.lists(st.tuples(st.booleans(), st.integers(0, 2**32 - 1)), max_size=60),
)
def test_no_block_is_lost_or_taken_twice(num_blocks: int, moves: list[tuple[bool, int]]) -> None:
    free = FreeBlocks(num_blocks)
    expected = set(range(num_blocks))
    held: list[list[int]] = []
    for takes, number in moves:
        if takes:
            after = held[number % len(held)][-1:] if held else []
            taken = free.take(number % (len(expected) + 1), after=after[0] if after else None)
            assert len(set(taken)) == len(taken) and expected.issuperset(taken)
            expected.difference_update(taken)
            held.append(taken)
        elif held:
            given_back = held.pop(number % len(held))
            expected.update(given_back)
            free.give(given_back[number % 7 :])
            free.give(given_back[: number % 7])
        assert free.check_integrity() == expected
        assert len(free) == len(expected)


def test_sequences_grow_in_place() -> None:
    free = FreeBlocks(1000)
    sequences = [free.take(20) for _ in range(4)]
    for _ in range(60):
        for blocks in sequences:
            blocks += free.take(1, after=blocks[-1])
    assert [num_runs(blocks) for blocks in sequences] == [1, 1, 1, 1]


def test_a_long_sequence_takes_the_run_that_holds_it() -> None:
    free = FreeBlocks(100)
    blocks = free.take(100)
    free.give([*blocks[:10], *blocks[20:25], *blocks[40:70]])
    assert free.take(30) == blocks[40:70]
    assert free.take(15) == [*blocks[:10], *blocks[20:25]]


def test_none_are_taken_of_an_empty_pool() -> None:
    assert FreeBlocks(0).take(0) == []
