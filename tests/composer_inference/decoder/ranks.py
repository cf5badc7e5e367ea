"""A decoder computed by one of several ranks: the same steps on each."""

from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from composer_inference.decoder.batch import Span
from composer_inference.decoder.parallel.group import RankGroup
from composer_inference.decoder.parallel.parallel import Parallel
from composer_inference.decoder.parallel.shard import ParallelConfig
from composer_inference.weights.loading import load_decoder, reload_decoder
from composer_inference.weights.open import open_checkpoint
from tests.composer_inference.decoder.tiny import CPU, make_pool, run

TOKENS = [5, 17, 80, 3, 44, 44, 9, 61, 2, 30, 71, 12, 7, 90, 33]
OTHERS = [8, 8, 15, 60, 2, 41]


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    folder: Path
    parallel: ParallelConfig
    experts: Any = None
    reloaded_from: Path | None = None
    """Other weights, put in place after the first ones."""

    @property
    def is_alone(self) -> bool:
        return self.parallel.num_ranks == 1


def compute(case: Case, rank: int, meeting_point: Path) -> tuple[Tensor, int]:
    """Logits of all steps, and how many numbers the decoder keeps."""
    group = RankGroup(meeting_point, rank=rank, num_ranks=case.parallel.num_ranks)
    parallel = Parallel(config=case.parallel, rank=rank, group=None if case.is_alone else group)
    checkpoint = open_checkpoint(case.folder)
    decoder = load_decoder(
        checkpoint, dtype=torch.float32, device=CPU, experts=case.experts, parallel=parallel
    )
    if case.reloaded_from is not None:
        reload_decoder(decoder, open_checkpoint(case.reloaded_from))
    if not case.is_alone:
        group.connect(CPU)
    pool = make_pool(decoder)
    steps = [
        # A prompt in two parts, another beside the second, then both decode.
        [_span(TOKENS, 0, 7, 20)],
        [_span(TOKENS, 7, 13, 20), _span(OTHERS, 0, 5, 40)],
        [_span(TOKENS, 13, 14, 20), _span(OTHERS, 5, 6, 40)],
        [_span(TOKENS, 14, 15, 20)],
    ]
    logits = [each for spans in steps for each in run(decoder, pool, *spans)]
    return torch.cat(logits), sum(each.numel() for each in decoder.parameters())


def _span(tokens: list[int], start: int, end: int, first_block: int) -> Span:
    new = tokens[start:end]
    blocks = range(first_block, first_block + 4)
    return Span(token_ids=new, num_cached=start, blocks=blocks, num_logits=len(new))


def compute_all(pipe: Connection, cases: list[Case], folder: Path) -> None:
    """As rank 1."""
    torch.set_num_threads(1)
    for index, case in enumerate(cases):
        logits, num_kept = compute(case, 1, folder / str(index))
        pipe.send((logits.tolist(), num_kept))  # pyright: ignore[reportUnknownMemberType]
