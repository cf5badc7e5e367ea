"""Loss curves of a small mixture-of-experts language model: MXFP8 against bf16, on the CPU's twins.

    cd kernels && python -m benchmarks.loss_curves --out ../build/loss_curves

A byte-level model with 2 layers of attention and 8 experts, 2 of them for each token, learns the
source of Python's standard library, as the interpreter that runs this has it. Each seed trains it
with every variant on the same batches from the same initial weights; the experts' products alone
differ. A variant passes where the mean of the last 20 losses is within 1% of that of bf16, for
each seed. The faults are MXFP8 with a scale deliberately wrong; each has to fail for each seed, or
the check would prove nothing.

A loss is a blunt measure. The optimiser is SGD with momentum because Adam divides by a gradient's own
size; and still a factor of 4 on all experts' gradients is no more than another learning rate, which
moved the mean by 0.7%. So the summary has a second figure, the relative error of the experts'
gradients in the first batch against those of bf16, which no fault leaves small.

Writes `losses.csv`, one row a step, and `summary.csv`; prints the latter as a table. The exit
status is 1 unless MXFP8 passes and every fault fails.
"""

import argparse
import csv
import math
import platform
import statistics
import sys
import sysconfig
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.small_moe import Experts, Model, Settings, seeded_model
from composer_kernels import (
    BF16_RECIPE,
    BLOCK,
    MXFP8_RECIPE,
    MXFP8Tensor,
    Recipe,
    grouped_wgrad,
    mxfp8_quantize,
)
from composer_kernels.formats import E4M3_MAX, UE8M0_BIAS

_training: Any = import_module("composer_kernels.training")

TOLERANCE = 0.01
"""Relative difference of the mean last losses that passes."""
NUM_LAST_STEPS = 20


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to compute the experts."""

    name: str
    recipe: Recipe
    fault: Callable[..., Any] | None = None
    """Stands for a function of `composer_kernels.training`; None: no fault."""
    replaces: str = "mxfp8_quantize"
    """The name of that function."""


# ---------------------------------------------------------------------------------------- faults


def exponent_too_low(by: int) -> Callable[..., Any]:
    """A quantiser whose scales are 2 ** `by` too small: what the codes cannot hold saturates."""

    def quantize_rows(x: Tensor, rule: Any) -> MXFP8Tensor:
        exponents = mxfp8_quantize(x, rule=rule).scales.float() - UE8M0_BIAS - by
        limits = (E4M3_MAX * exponents.exp2()).repeat_interleave(BLOCK, -1)[..., : x.shape[-1]]
        return mxfp8_quantize(x.float().clamp(-limits, limits), rule=rule)

    return _both_ways(quantize_rows)


def scales_of_the_next_block() -> Callable[..., Any]:
    """A quantiser that stores each scale one block too early along its row."""

    def quantize_rows(x: Tensor, rule: Any) -> MXFP8Tensor:
        right = mxfp8_quantize(x, rule=rule)
        return MXFP8Tensor(right.codes, right.scales.roll(-1, -1))

    return _both_ways(quantize_rows)


def _both_ways(quantize_rows: Callable[[Tensor, Any], MXFP8Tensor]) -> Callable[..., Any]:
    """A function with the signature of `mxfp8_quantize`."""

    def quantize(x: Tensor, *, rule: Any, columns: bool = False) -> Any:
        rows = quantize_rows(x, rule)
        return (rows, quantize_rows(x.mT, rule)) if columns else rows

    return quantize


def wgrad_off_by_a_power_of_two(exponent: int) -> Callable[..., Any]:
    """A `grouped_wgrad` that reads scales of x as 2 ** `exponent` times what they are."""

    def wgrad(grad_NP: MXFP8Tensor, x_KP: MXFP8Tensor, *arguments: Any, **options: Any) -> Tensor:
        wrong_KP = MXFP8Tensor(x_KP.codes, x_KP.scales + exponent)
        return grouped_wgrad(grad_NP, wrong_KP, *arguments, **options)

    return wgrad


BASELINE = Variant("bf16", BF16_RECIPE)
MXFP8 = Variant("mxfp8", MXFP8_RECIPE)
FAULTS = (
    Variant(
        "wgrad's scales of x times 64",
        MXFP8_RECIPE,
        wgrad_off_by_a_power_of_two(6),
        "grouped_wgrad",
    ),
    Variant(
        "wgrad's scales of x over 64",
        MXFP8_RECIPE,
        wgrad_off_by_a_power_of_two(-6),
        "grouped_wgrad",
    ),
    Variant("exponents two too low", MXFP8_RECIPE, exponent_too_low(2)),
    Variant("scales of the next block", MXFP8_RECIPE, scales_of_the_next_block()),
)


@contextmanager
def applied(variant: Variant) -> Generator[None]:
    """While it lasts, `composer_kernels.training` has the variant's fault."""
    function = variant.fault or getattr(_training, variant.replaces)
    with patch.object(_training, variant.replaces, function):
        yield


# -------------------------------------------------------------------------------------- training


def standard_library() -> Tensor:
    """The bytes of the standard library's own modules, one after the other, uint8."""
    paths = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return torch.frombuffer(bytearray(b"".join(map(Path.read_bytes, paths))), dtype=torch.uint8)


def batches(text: Tensor, settings: Settings, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Bytes and the bytes that follow them, without end; places are drawn at random."""
    generator = torch.Generator().manual_seed(seed)
    offsets = torch.arange(settings.num_tokens + 1)
    while True:
        shape = (settings.batch_size, 1)
        first = torch.randint(len(text) - settings.num_tokens, shape, generator=generator)
        window = text[first + offsets].long()
        yield window[:, :-1], window[:, 1:]


def train(text: Tensor, settings: Settings, variant: Variant, seed: int) -> list[float]:
    """The loss of each step, in nats a byte, without the balance loss."""
    model = seeded_model(settings, seed)
    optimizer: Any = torch.optim.SGD(
        model.parameters(), lr=settings.learning_rate, momentum=settings.momentum
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, learning_rate_factor(settings))
    losses: list[float] = []
    with applied(variant):
        for tokens, targets in islice(batches(text, settings, seed), settings.num_steps):
            optimizer.zero_grad()
            losses.append(backward(model, tokens, targets, settings, variant.recipe))
            nn.utils.clip_grad_norm_(model.parameters(), settings.max_grad_norm)
            optimizer.step()
            schedule.step()
    return losses


def backward(
    model: Model, tokens_BT: Tensor, targets_BT: Tensor, settings: Settings, recipe: Recipe
) -> float:
    """Add the gradients of one batch to the model's, and its loss in nats a byte."""
    logits, balance = model(tokens_BT, recipe)
    loss = functional.cross_entropy(logits.flatten(0, 1), targets_BT.flatten())
    (loss + settings.balance * balance).backward()
    return loss.item()


def gradient_error(text: Tensor, settings: Settings, variant: Variant, seed: int) -> float:
    """Of the experts' weights in the first batch, relative to bf16's, in the 2-norm over all of them."""
    right, wrong = (_experts_gradient(text, settings, each, seed) for each in (BASELINE, variant))
    return float(((wrong - right).square().sum() / right.square().sum()).sqrt())


def _experts_gradient(text: Tensor, settings: Settings, variant: Variant, seed: int) -> Tensor:
    model = seeded_model(settings, seed)
    with applied(variant):
        backward(model, *next(batches(text, settings, seed)), settings, variant.recipe)
    experts = [module for module in model.modules() if isinstance(module, Experts)]
    weights = [weight for each in experts for weight in (each.gate_up, each.down)]
    return torch.cat([cast(Tensor, weight.grad).flatten() for weight in weights])


def learning_rate_factor(settings: Settings) -> Callable[[int], float]:
    def factor(step: int) -> float:
        if step < settings.num_warmup_steps:
            return (step + 1) / settings.num_warmup_steps
        done = (step - settings.num_warmup_steps) / (settings.num_steps - settings.num_warmup_steps)
        return 0.55 + 0.45 * math.cos(math.pi * done)

    return factor


# ---------------------------------------------------------------------------------------- report


@dataclass(frozen=True, slots=True)
class Outcome:
    """One variant's run of one seed."""

    seed: int
    variant: str
    loss: float
    """Mean of the last steps, nats a byte."""
    baseline: float
    """The same for bf16."""
    gradient_error: float
    """Of the experts' weights, in the first batch, relative to bf16's."""
    duration_s: float

    @property
    def difference(self) -> float:
        """Relative to the baseline; NaN where the run diverged."""
        return self.loss / self.baseline - 1

    @property
    def passes(self) -> bool:
        return abs(self.difference) <= TOLERANCE


def compare(
    text: Tensor,
    settings: Settings,
    variants: Sequence[Variant],
    seeds: Sequence[int],
    log: Callable[[int, str, list[float]], None],
) -> list[Outcome]:
    """Train the baseline and each variant from each seed. `log` takes each run's losses."""
    outcomes: list[Outcome] = []
    for seed in seeds:
        baseline = math.nan
        for variant in (BASELINE, *variants):
            started_s = time.perf_counter()
            losses = train(text, settings, variant, seed)
            duration_s = time.perf_counter() - started_s
            log(seed, variant.name, losses)
            mean = statistics.fmean(losses[-NUM_LAST_STEPS:])
            baseline = mean if variant is BASELINE else baseline
            error = gradient_error(text, settings, variant, seed)
            outcomes.append(Outcome(seed, variant.name, mean, baseline, error, duration_s))
    return outcomes


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("build/loss_curves"), help="folder")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=Settings().num_steps)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    settings = Settings(num_steps=options.steps)
    text = standard_library()
    print(
        f"{platform.processor() or platform.machine()}, one thread; Python "
        f"{platform.python_version()} ({len(text):,} bytes of its library), torch "
        f"{torch.__version__}; {settings}"
    )
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "losses.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["seed", "variant", "step", "loss"])

        def log(seed: int, variant: str, losses: list[float]) -> None:
            rows.writerows([seed, variant, step, f"{loss:.6f}"] for step, loss in enumerate(losses))
            mean = statistics.fmean(losses[-NUM_LAST_STEPS:])
            print(f"seed {seed}  {variant:28} {mean:.4f}", file=sys.stderr, flush=True)

        outcomes = compare(text, settings, (MXFP8, *FAULTS), options.seeds, log)
    write_summary(outcomes, options.out / "summary.csv")
    return 0 if all(as_it_should(outcome) for outcome in outcomes) else 1


def as_it_should(outcome: Outcome) -> bool:
    """MXFP8 passes and a fault does not."""
    return outcome.passes == (outcome.variant in (BASELINE.name, MXFP8.name))


def write_summary(outcomes: Sequence[Outcome], path: Path) -> None:
    """The table, printed and as CSV."""
    header = ["seed", "variant", "loss", "against bf16", "within 1%", "grad error", "seconds"]
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(header)
        print(f"{header[0]:>4}  {header[1]:28}" + "".join(f"{name:>14}" for name in header[2:]))
        for each in outcomes:
            cells = [
                f"{each.loss:.4f}",
                f"{each.difference:+.3%}",
                "yes" if each.passes else "no",
                f"{each.gradient_error:.3f}",
                f"{each.duration_s:.0f}",
            ]
            rows.writerow([each.seed, each.variant, *cells])
            print(f"{each.seed:>4}  {each.variant:28}" + "".join(f"{cell:>14}" for cell in cells))


if __name__ == "__main__":
    sys.exit(main())
