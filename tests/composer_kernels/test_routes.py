"""Rows that a dispatch sets aside, by hand."""

from typing import Any

import pytest

from composer_kernels.errors import KernelError
from composer_kernels.routes import RouterConfig, Scoring, num_rows_bound


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


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "field", [{"scoring": "sigmoid"}, {"group_score": "top2_sum"}, {"scoring": "none"}], ids=str
)
def test_a_choice_by_its_name_alone_is_refused(field: dict[str, Any]) -> None:
    """As a model's configuration file has it. Some of the code compares by identity."""
    with pytest.raises(KernelError, match="is asked for"):
        RouterConfig(**{"top_k": 1, "scoring": Scoring.SOFTMAX, **field})
