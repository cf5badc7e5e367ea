"""The loss curves' model and check; whole in `make soak`, a few steps here."""

import csv
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks.loss_curves import (
    BASELINE,
    FAULTS,
    MXFP8,
    Outcome,
    Variant,
    as_it_should,
    batches,
    compare,
    exponent_too_low,
    gradient_error,
    main,
    scales_of_the_next_block,
    standard_library,
    train,
    wgrad_off_by_a_power_of_two,
    write_summary,
)
from benchmarks.small_moe import Settings
from composer_kernels import BF16_RECIPE, MXFP8_RECIPE, MXFP8Tensor, mxfp8_quantize, reference
from composer_kernels.formats import BLOCK

from .grouped import Draw, dequantize, spread

FEW = Settings(num_steps=3, batch_size=2)

GRADIENT_TOLERANCE = 0.15
"""Of the experts' gradients in MXFP8 against bf16. An element errs by up to 1/16, evenly spread by
about 1/40; a gradient of the first layer's experts has some ten quantised operands behind it, whose
errors add as squares do, to 0.08."""


@pytest.fixture(scope="module")
def text() -> torch.Tensor:
    return standard_library()


def test_text_is_python_source(text: torch.Tensor):
    assert text.dtype == torch.uint8
    assert len(text) > 1_000_000
    assert b"def __init__(self" in bytes(text.tolist())


def test_batches_are_the_seed_s(text: torch.Tensor):
    def first(seed: int) -> torch.Tensor:
        tokens, targets = next(batches(text, FEW, seed))
        assert torch.equal(tokens[:, 1:], targets[:, :-1])
        return tokens

    assert first(0).shape == (2, FEW.num_tokens)
    assert torch.equal(first(0), first(0))
    assert not torch.equal(first(0), first(1))


def test_variants_differ_in_the_recipe_alone(text: torch.Tensor):
    """Same initial weights, same batches: the same recipe gives the same losses."""
    losses = train(text, FEW, BASELINE, 0)
    assert train(text, FEW, Variant("again", BF16_RECIPE), 0) == losses
    quantized = train(text, FEW, MXFP8, 0)
    assert quantized != losses
    assert quantized == pytest.approx(losses, rel=0.01)
    assert losses[0] == pytest.approx(math.log(256), rel=0.1)


def test_gradients_agree(text: torch.Tensor):
    assert 0 < gradient_error(text, FEW, MXFP8, 0) < GRADIENT_TOLERANCE


@pytest.mark.parametrize(
    "fault",
    [*FAULTS, Variant("times 2", MXFP8_RECIPE, wgrad_off_by_a_power_of_two(1), "grouped_wgrad")],
    ids=lambda fault: fault.name,
)
def test_gradients_of_faults_do_not(text: torch.Tensor, fault: Variant):
    """Nor does a fault outlive its run."""
    assert gradient_error(text, FEW, fault, 0) > 2 * GRADIENT_TOLERANCE
    assert gradient_error(text, FEW, MXFP8, 0) < GRADIENT_TOLERANCE


def test_exponent_too_low_saturates():
    x = torch.tensor([[1.0, 4.0, 100.0, -448.0]])
    low = exponent_too_low(2)(x, rule=MXFP8_RECIPE.rule)
    assert dequantize(low).tolist() == [[1.0, 4.0, 96.0, -112.0]]
    assert dequantize(mxfp8_quantize(x)).tolist() == [[1.0, 4.0, 96.0, -448.0]]


def test_scales_of_the_next_block():
    x = torch.cat((torch.full((2, BLOCK), 1.0), torch.full((2, BLOCK), 8.0)), 1)
    rows, columns = scales_of_the_next_block()(x, rule=MXFP8_RECIPE.rule, columns=True)
    assert dequantize(rows)[0, ::BLOCK].tolist() == [8.0, 1.0]
    assert torch.equal(dequantize(columns), x.mT)  # One block, which is its own next.


def test_wgrad_off_by_a_power_of_two():
    draw, dispatch = Draw.seeded(0), spread([3, 2], block_m=BLOCK)
    rows = reference.permute(draw.normal(5, 8), dispatch)
    grad, x = (mxfp8_quantize(each, columns=True)[1] for each in (rows, rows + 0))
    assert isinstance(x, MXFP8Tensor)
    right = reference.grouped_wgrad(grad, x, dispatch)
    assert torch.equal(wgrad_off_by_a_power_of_two(2)(grad, x, dispatch), 4 * right)


@pytest.mark.parametrize(
    ("variant", "loss", "expected"),
    [
        ("bf16", 2.0, True),
        ("mxfp8", 2.019, True),
        ("mxfp8", 1.981, True),
        ("mxfp8", 2.021, False),
        ("mxfp8", 1.979, False),
        ("mxfp8", math.nan, False),
        ("a fault", 2.019, False),
        ("a fault", 2.021, True),
        ("a fault", 1.979, True),
        ("a fault", math.nan, True),
    ],
)
def test_the_check(variant: str, loss: float, expected: bool):
    outcome = Outcome(0, variant, loss, 2.0, 0.0, 1.0)
    assert as_it_should(outcome) is expected


def test_means_are_of_the_last_steps(text: torch.Tensor, tmp_path: Path):
    logged: dict[str, list[float]] = {}

    def log(seed: int, variant: str, losses: list[float]) -> None:
        logged[variant] = losses

    settings = replace(FEW, num_steps=22)
    outcomes = compare(text, settings, [MXFP8], [5], log)
    assert [each.variant for each in outcomes] == ["bf16", "mxfp8"]
    for each in outcomes:
        assert each.loss == pytest.approx(sum(logged[each.variant][2:]) / 20)
        assert each.baseline == outcomes[0].loss
    write_summary(outcomes, tmp_path / "summary.csv")
    with (tmp_path / "summary.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["variant"] for row in rows] == ["bf16", "mxfp8"]
    assert rows[0]["against bf16"] == "+0.000%"
    assert rows[0]["loss"] == f"{outcomes[0].loss:.4f}"


@pytest.mark.soak
def test_loss_curves(tmp_path: Path):
    """MXFP8 is within 1% of bf16 for three seeds, and no fault is for any."""
    assert main(["--out", str(tmp_path)]) == 0
    with (tmp_path / "losses.csv").open(encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == 3 * (2 + len(FAULTS)) * 300
