"""Products with weights in oneDNN's layout."""

import pytest
import torch

from composer_inference.decoder.layers.packed import can_pack, pack, packed_linear


@pytest.mark.parametrize("has_bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("num_rows", [0, 1, 2, 3, 4, 5, 16, 33])
def test_products_of_any_number_of_rows(num_rows: int, has_bias: bool) -> None:
    if not can_pack(torch.float32, torch.device("cpu")):
        pytest.skip("torch is built without oneDNN")
    draw = torch.Generator().manual_seed(num_rows)
    x_MI, weight_OI = (torch.randn(rows, 48, generator=draw) for rows in (num_rows, 40))
    bias_O = torch.randn(40, generator=draw) if has_bias else None
    with torch.inference_mode():
        found = packed_linear(x_MI, pack(weight_OI), bias_O)
    expected = torch.nn.functional.linear(x_MI, weight_OI, bias_O)
    torch.testing.assert_close(found, expected)  # Sums of 48 in another order.


def test_rows_of_a_view() -> None:
    """Every other row of a matrix: x need not be contiguous."""
    if not can_pack(torch.float32, torch.device("cpu")):
        pytest.skip("torch is built without oneDNN")
    x_MI, weight_OI = torch.randn(7, 48), torch.randn(40, 48)
    for rows in (slice(0, 1), slice(0, 3), slice(0, 7, 3), slice(0, 7, 2)):
        found = packed_linear(x_MI[rows], pack(weight_OI), None)
        torch.testing.assert_close(found, x_MI[rows] @ weight_OI.T)
