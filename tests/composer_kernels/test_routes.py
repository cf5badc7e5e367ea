"""Rows that a dispatch sets aside, by hand."""

import pytest

from composer_kernels.routes import num_rows_bound


@pytest.mark.parametrize(
    ("num_slots", "num_experts", "block_m", "num_rows"),
    [
        (0, 5, 16, 0),
        (1, 1, 1, 1),
        (8, 128, 16, 8 * 16),  # one token's 8 experts: a block each, whatever the other 120
        (33, 2, 16, 48),  # at worst 32 + 1
        (34, 2, 16, 64),  # at worst 17 + 17
    ],
)
def test_num_rows_bound(num_slots: int, num_experts: int, block_m: int, num_rows: int) -> None:
    assert num_rows_bound(num_slots, num_experts, block_m) == num_rows
