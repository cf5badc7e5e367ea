"""Our decoder on the CPU beside `transformers` with the same weights, dtype and threads, in turn.

Ours is measured with its scheduler and sampler around it, the peer's forward and argmax alone, in the
fastest of the ways that `decoder_peer` knows. The floor is a bare loop over the products of a step,
with the weights as each of the two keeps them. `OMP_NUM_THREADS` sets the threads of both.
"""

import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise

import torch

from bench.decoder_edits import measure_edits
from bench.decoder_memory import peak_memory
from bench.decoder_ours import DTYPES, Ours, model_files
from bench.decoder_peer import Peer
from bench.measure import Product, Seconds, p50, p90, row
from composer_inference.hardware import read_hardware
from composer_inference.sampling.vocabulary import Vocabulary, read_vocabulary
from composer_inference.weights.checkpoint import Checkpoint
from composer_inference.weights.open import open_checkpoint

NUM_ROUNDS = 7
NUM_DECODED = 24
CONTEXT = 256
PREFILLS = (64, 512)
CHUNK = 64
"""Tokens of a prompt's step that two cores compute in about the time that a keystroke may wait."""
BATCH = 8
SEED = 7


async def run() -> None:
    threads = int(os.environ.get("OMP_NUM_THREADS") or read_hardware().num_usable_cores)
    torch.set_num_threads(threads)
    print(
        f"torch {torch.__version__}, transformers {version('transformers')}, {threads} threads, "
        f"seed {SEED}; tokens/s, median of {NUM_ROUNDS} rounds in turn (p90 of the times)"
    )
    for name, path in model_files().items():
        checkpoint = open_checkpoint(path)
        vocabulary = read_vocabulary(path, num_embeddings=int(checkpoint.config["vocab_size"]))
        for dtype in DTYPES:
            print(f"\n{name}, {dtype}, load average {os.getloadavg()[0]:.1f}", flush=True)
            _measure(checkpoint, vocabulary, DTYPES[dtype])
            row("memory", await peak_memory(path, dtype))


def _measure(checkpoint: Checkpoint, vocabulary: Vocabulary, dtype: torch.dtype) -> None:
    draw = random.Random(SEED)
    with Ours.opened(checkpoint, vocabulary, dtype) as ours:
        pair = _Pair(ours=ours, peer=Peer(checkpoint, dtype), dtype=dtype, draw=draw)
        pair.print_ways()
        row("", "composer", "transformers", "ratio", "of CPU time", "floor", "its floor")
        for num_tokens in PREFILLS:
            pair.print_prefill(num_tokens)
        pair.print_prefill(max(PREFILLS), step_tokens=CHUNK)
        pair.print_decode()
        pair.print_batch()
        del pair
        _print_prefix(ours, draw)
        row("cache, bytes a token", f"{ours.cache_bytes_per_token:,}")
        if checkpoint.config["model_type"] == "qwen2":
            measure_edits(ours, vocabulary)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Pair:
    ours: Ours
    peer: Peer
    dtype: torch.dtype
    draw: random.Random

    def print_ways(self) -> None:
        for trial in self.peer.choose(_prompt(self.draw, CONTEXT)):
            told = trial.failure or (
                f"prefill of {CONTEXT} {trial.prefill_s:.3f} s, a token "
                f"{1e3 * trial.decode_s:.1f} ms, the first time {trial.first_s:.0f} s"
            )
            for kind, way in (("prefill", self.peer.for_prefill), ("decode", self.peer.for_decode)):
                told += f" [fastest {kind}]" if way == trial.way else ""
            print(f"  transformers, {trial.way.name}: {told}", flush=True)

    def print_prefill(self, num_tokens: int, *, step_tokens: int | None = None) -> None:
        """`step_tokens`: of our steps; None: all at once, as the peer does it."""
        whole_prompt = self.ours.pace.num_tokens
        self.ours.pace.num_tokens = step_tokens or whole_prompt
        self.peer.prefill(_prompt(self.draw, num_tokens))
        mine: list[Seconds] = []
        theirs: list[Seconds] = []
        for _ in range(NUM_ROUNDS):
            prompt_ids = _prompt(self.draw, num_tokens)
            mine.append(self.ours.answer(prompt_ids, 1).first)
            theirs.append(self.peer.prefill(prompt_ids))
        self.ours.pace.num_tokens = whole_prompt
        steps = "" if step_tokens is None else f", ours in steps of {step_tokens}"
        self._print_rates(f"prefill of {num_tokens}{steps}", num_tokens, mine, theirs, num_logits=1)

    def print_decode(self) -> None:
        mine: list[Seconds] = []
        theirs: list[Seconds] = []
        num_same = 0
        for _ in range(NUM_ROUNDS):
            prompt_ids = _prompt(self.draw, CONTEXT)
            answer = self.ours.answer(prompt_ids, NUM_DECODED)
            (decoded,), seconds = self.peer.decode([prompt_ids], NUM_DECODED)
            mine.append(answer.rest / (NUM_DECODED - 1))
            theirs.append(seconds / (NUM_DECODED - 1))
            num_same += answer.token_ids == decoded
        self._print_rates(f"decode after {CONTEXT}", 1, mine, theirs, num_logits=1)
        row("texts that were the same", f"{num_same} of {NUM_ROUNDS}")

    def print_batch(self) -> None:
        together: list[Seconds] = []
        theirs: list[Seconds] = []
        alone: list[float] = []
        for _ in range(3):
            prompts = [_prompt(self.draw, CONTEXT) for _ in range(BATCH)]
            singles = [self.ours.answer(each, NUM_DECODED) for each in prompts]
            alone.append(sum(single.rest.wall for single in singles))
            # Their prompts are cached by now, so that they decode from the first step on.
            answers = self.ours.answers(prompts, NUM_DECODED)
            together.append(max((answer.rest for answer in answers), key=lambda rest: rest.wall))
            theirs.append(self.peer.decode(prompts, NUM_DECODED)[1])
        steps = NUM_DECODED - 1
        self._print_rates(
            f"decode, batch of {BATCH}",
            BATCH,
            [seconds / steps for seconds in together],
            [seconds / steps for seconds in theirs],
            num_logits=BATCH,
        )
        gain = p50(alone) / p50([seconds.wall for seconds in together])
        row(f"the same as {BATCH} single requests", f"{BATCH * steps / p50(alone):.1f}")
        row("gain by the batch", f"{gain:.2f}")

    def _print_rates(
        self,
        name: str,
        num_tokens: int,
        mine: Sequence[Seconds],
        theirs: Sequence[Seconds],
        *,
        num_logits: int,
    ) -> None:
        def rates(seconds: Sequence[Seconds]) -> str:
            wall = [each.wall for each in seconds]
            return f"{num_tokens / p50(wall):.1f} ({num_tokens / p90(wall):.1f})"

        both = list(zip(mine, theirs, strict=True))
        floors = [
            _floor_s(side.products(), self.dtype, num_tokens=num_tokens, num_logits=num_logits)
            for side in (self.ours, self.peer)
        ]
        row(
            name,
            rates(mine),
            rates(theirs),
            f"{p50([their.wall / my.wall for my, their in both]):.2f}",
            f"{p50([their.cpu / my.cpu for my, their in both]):.2f}",
            *(f"{num_tokens / floor:.1f}" for floor in floors),
        )


def _print_prefix(ours: Ours, draw: random.Random) -> None:
    cold: list[float] = []
    hit: list[float] = []
    for _ in range(NUM_ROUNDS):
        prompt_ids = _prompt(draw, 512)
        cold.append(ours.answer(prompt_ids, 1).first.wall)
        hit.append(ours.answer([*prompt_ids, *_prompt(draw, 8)], 1).first.wall)
    row(
        "first token: 8 new after 512 cached, 512 cold",
        f"{1e3 * p50(hit):.0f} ms",
        f"{1e3 * p50(cold):.0f} ms",
        f"{p50(cold) / p50(hit):.1f}",
    )


def _floor_s(
    products: Sequence[Product], dtype: torch.dtype, *, num_tokens: int, num_logits: int
) -> float:
    """Of a step's bare products, at best. The last one is the output's."""
    rows = [num_tokens] * (len(products) - 1) + [num_logits]
    inputs = [
        torch.randn(num_rows, in_dim).to(dtype)
        for num_rows, (_, in_dim) in zip(rows, products, strict=True)
    ]
    times: list[float] = []
    with torch.inference_mode():
        for _ in range(NUM_ROUNDS + 2):
            times.append(time.perf_counter())
            for (product, _), x in zip(products, inputs, strict=True):
                product(x)
    return min(after - before for before, after in pairwise(times))


def _prompt(draw: random.Random, num_tokens: int) -> list[int]:
    return [draw.randrange(1000, 40_000) for _ in range(num_tokens)]
