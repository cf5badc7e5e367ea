"""Attention over a paged cache: the kernels, under the interpreter, against the twin, and the twin
against torch's own attention."""

from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from composer_kernels import BlockTable, KernelError, Target, paged_attention, reference
from composer_kernels.paged_attention import _launch, choose_num_parts
from composer_kernels.target_info import INTERPRETER

from .grouped import Draw, assert_within

module: Any = import_module("composer_kernels.paged_attention")

pytestmark = pytest.mark.filterwarnings(
    # NumPy, which the interpreter computes with, in a tile's rows past the last, which are not stored.
    "ignore:invalid value encountered:RuntimeWarning"
)

BLOCK = 4
NUM_BLOCKS = 64


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    lengths: tuple[tuple[int, int], ...]
    """Cached and new tokens of each sequence."""
    heads: int = 4
    kv_heads: int = 2
    key_dim: int = 16
    value_dim: int = 16
    values_are_keys: bool = False
    window: int | None = None
    sinks: bool = False
    num_parts: int = 1
    dtype: torch.dtype = torch.float32


CASES = [
    Case(name="one token", lengths=((0, 1),)),
    Case(name="decodes of ragged lengths", lengths=((0, 1), (70, 1), (3, 1))),
    Case(name="decodes in parts", lengths=((130, 1), (3, 1)), num_parts=4),
    Case(name="more parts than keys", lengths=((1, 1), (40, 1)), num_parts=16),
    Case(name="drafts beside decodes", lengths=((20, 5), (9, 1), (0, 3)), num_parts=2),
    Case(name="a draft of several tiles", lengths=((7, 40), (30, 2)), num_parts=2),
    Case(name="three heads a group", lengths=((20, 6), (66, 1)), heads=6),
    Case(name="no groups", lengths=((5, 2),), heads=3, kv_heads=3, num_parts=2),
    Case(name="window", lengths=((90, 1), (5, 4), (33, 20)), window=8),
    Case(name="window in parts", lengths=((90, 1), (5, 4), (69, 20)), window=67, num_parts=4),
    Case(name="window of one", lengths=((5, 3), (80, 1)), window=1, num_parts=2),
    Case(name="sinks", lengths=((0, 1), (70, 3)), sinks=True),
    Case(name="sinks in parts", lengths=((0, 1), (70, 3)), sinks=True, num_parts=4),
    Case(name="sinks and window", lengths=((70, 3),), sinks=True, window=9, num_parts=2),
    Case(name="dims between powers of two", lengths=((40, 2),), key_dim=24, value_dim=40),
    Case(name="fewer dims than a tile", lengths=((40, 2),), key_dim=8, value_dim=12),
    Case(
        name="latent",
        lengths=((40, 2), (3, 1)),
        kv_heads=1,
        key_dim=40,
        value_dim=32,
        values_are_keys=True,
        num_parts=2,
    ),
    Case(
        name="latent dims that are not the main piece",
        lengths=((40, 2),),
        kv_heads=1,
        key_dim=40,
        value_dim=10,
        values_are_keys=True,
    ),
    Case(name="bf16", lengths=((70, 3), (2, 1)), dtype=torch.bfloat16, sinks=True),
    Case(name="bf16 in parts", lengths=((70, 3),), dtype=torch.bfloat16, num_parts=2),
    Case(name="f16 in parts", lengths=((70, 3), (2, 1)), dtype=torch.float16, num_parts=2),
]
cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@dataclass(frozen=True)
class Operands:
    q: Tensor
    keys: Tensor
    values: Tensor
    table: BlockTable
    sinks: Tensor | None


def operands(case: Case) -> Operands:
    """Blocks in a random order; what no sequence has is NaN, so that reading it shows."""
    draw = Draw.seeded(len(case.name))
    num_new = sum(new for _, new in case.lengths)
    order = torch.randperm(NUM_BLOCKS, generator=draw.generator).tolist()
    keys = torch.full((NUM_BLOCKS * BLOCK, case.kv_heads, case.key_dim), torch.nan)
    values = torch.full((NUM_BLOCKS * BLOCK, case.kv_heads, case.value_dim), torch.nan)
    blocks: list[int] = []
    starts: list[int] = []
    queries = [0]
    for cached, new in case.lengths:
        starts.append(len(blocks))
        held = [order.pop() for _ in range(-(-(cached + new) // BLOCK))]
        blocks += held
        queries.append(queries[-1] + new)
        slots = [held[place // BLOCK] * BLOCK + place % BLOCK for place in range(cached + new)]
        keys[slots] = draw.normal(len(slots), *keys.shape[1:])
        values[slots] = draw.normal(len(slots), *values.shape[1:])
    keys, values = keys.to(case.dtype), values.to(case.dtype)
    table = BlockTable(
        blocks_X=torch.tensor([*blocks, 1 << 40]),
        block_starts_B=torch.tensor(starts),
        num_tokens_B=torch.tensor([sum(each) for each in case.lengths]),
        query_starts_C=torch.tensor(queries),
        max_queries=max(new for _, new in case.lengths),
        block_size=BLOCK,
    )
    return Operands(
        draw.normal(num_new, case.heads, case.key_dim).to(case.dtype),
        keys,
        keys[..., : case.value_dim] if case.values_are_keys else values,
        table,
        draw.normal(case.heads) if case.sinks else None,
    )


def launched(case: Case, given: Operands) -> Tensor:
    return _launch(
        given.q,
        given.keys,
        given.values,
        given.table,
        scale=0.3,
        window=case.window,
        sinks_N=given.sinks,
        values_are_keys=case.values_are_keys,
        num_parts=case.num_parts,
        target=INTERPRETER,
    )


@cases
def test_the_kernels_are_their_twin(case: Case):
    given = operands(case)
    expected = reference.paged_attention(
        given.q,
        given.keys,
        given.values,
        given.table,
        scale=0.3,
        window=case.window,
        sinks_N=given.sinks,
    )
    actual = launched(case, given)
    assert actual.dtype == case.dtype
    # Some hundred sums and exponentials in f32; then one rounding of two close numbers.
    last_place = {torch.float32: 0.0, torch.float16: 2.0**-10, torch.bfloat16: 2.0**-7}
    bound = 1e-5 + last_place[case.dtype] * expected.float().abs()
    assert_within(actual.float(), expected.float(), bound)


@pytest.mark.parametrize("case", [each for each in CASES if not each.sinks], ids=lambda c: c.name)
def test_the_twin_is_torchs_attention(case: Case):
    given = operands(case)
    out = paged_attention(
        given.q,
        given.keys,
        None if case.values_are_keys else given.values,
        given.table,
        scale=0.3,
        window=case.window,
        value_dim=case.value_dim if case.values_are_keys else None,
    )
    blocks: list[int] = given.table.blocks_X.tolist()
    for number, (cached, new) in enumerate(case.lengths):
        held = blocks[int(given.table.block_starts_B[number]) :]
        slots = [held[at // BLOCK] * BLOCK + at % BLOCK for at in range(cached + new)]
        mask = torch.ones(new, cached + new, dtype=torch.bool).tril(cached)
        if case.window is not None:
            mask = mask.triu(cached + 1 - case.window)
        first = int(given.table.query_starts_C[number])
        expected = functional.scaled_dot_product_attention(
            given.q[first : first + new].float().transpose(0, 1),
            given.keys[slots].float().transpose(0, 1),
            given.values[slots].float().transpose(0, 1),
            attn_mask=mask,
            scale=0.3,
            enable_gqa=True,
        )
        tolerance = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}[case.dtype]
        torch.testing.assert_close(
            out[first : first + new].float(),
            expected.transpose(0, 1),
            atol=tolerance,
            rtol=tolerance,
        )


def test_a_sink_takes_its_share():
    """One key, whose logit equals the sink: half of its value."""
    case = Case(name="half", lengths=((0, 1),), sinks=True)
    given = replace(operands(case), q=torch.zeros(1, 4, 16), sinks=torch.zeros(4))
    value = given.values[given.table.blocks_X[0] * BLOCK].repeat_interleave(2, 0)
    for num_parts in (1, 4):
        out = launched(replace(case, num_parts=num_parts), given)
        torch.testing.assert_close(out[0], value / 2)


def test_parts_without_keys_are_not_read(monkeypatch: pytest.MonkeyPatch):
    """torch fills new memory with NaN here."""
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    case = Case(name="few keys", lengths=((1, 1), (40, 1)), num_parts=16)
    torch.use_deterministic_algorithms(True)
    try:
        assert launched(case, operands(case)).isfinite().all()
    finally:
        torch.use_deterministic_algorithms(False)


def test_large_logits_neither_overflow_nor_vanish():
    case = Case(name="large", lengths=((100, 1),), num_parts=4)
    given = operands(case)
    for sign in (1, -1):
        extreme = replace(given, q=given.q * sign * 1e4)
        expected = reference.paged_attention(
            extreme.q, given.keys, given.values, given.table, scale=0.3
        )
        torch.testing.assert_close(launched(case, extreme), expected)


def test_other_lengths_and_blocks_in_the_same_tensors():
    """What a graph relies on: nothing but the table's contents says which tokens are read."""
    long = Case(name="first", lengths=((50, 1), (20, 1)), num_parts=2)
    short = replace(long, name="then", lengths=((3, 1), (61, 1)))
    given, other = operands(long), operands(short)
    table = replace(given.table, blocks_X=torch.zeros(40, dtype=torch.int64))
    for each, case in ((given, long), (other, short)):
        table.blocks_X[: len(each.table.blocks_X)] = each.table.blocks_X
        table.block_starts_B.copy_(each.table.block_starts_B)
        table.num_tokens_B.copy_(each.table.num_tokens_B)
        shared = launched(case, replace(each, table=table))
        torch.testing.assert_close(shared, launched(case, each), rtol=0, atol=0)


def test_as_on_a_gpu(monkeypatch: pytest.MonkeyPatch):
    gpu = replace(INTERPRETER, capability=80)

    def target_of(tensor: Tensor) -> Target:
        return gpu

    def num_multiprocessors(device: torch.device) -> int:
        return 4

    monkeypatch.setattr(module, "target_of", target_of)
    monkeypatch.setattr(module, "num_multiprocessors", num_multiprocessors)
    case = Case(name="as on a GPU", lengths=((70, 1), (9, 1)), num_parts=2)
    given = operands(case)
    assert choose_num_parts(given.q, given.keys, given.table) == 2
    out = paged_attention(given.q, given.keys, given.values, given.table, scale=0.3)
    torch.testing.assert_close(out, launched(case, given), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("num_multiprocessors", "num_sequences", "max_queries", "expected"),
    [(132, 1, 1, 64), (132, 8, 1, 16), (132, 64, 1, 2), (132, 256, 1, 1), (132, 8, 64, 8)],
)
def test_parts_fill_the_machine(
    monkeypatch: pytest.MonkeyPatch,
    num_multiprocessors: int,
    num_sequences: int,
    max_queries: int,
    expected: int,
):
    def number(device: torch.device) -> int:
        return num_multiprocessors

    monkeypatch.setattr(module, "num_multiprocessors", number)
    table = BlockTable(
        blocks_X=torch.zeros(1, dtype=torch.int64),
        block_starts_B=torch.zeros(num_sequences, dtype=torch.int64),
        num_tokens_B=torch.zeros(num_sequences, dtype=torch.int64),
        query_starts_C=torch.zeros(num_sequences + 1, dtype=torch.int64),
        max_queries=max_queries,
        block_size=16,
    )
    q, keys = torch.empty(num_sequences, 4, 128), torch.empty(16, 2, 128)
    assert choose_num_parts(q, keys, table) == expected


@pytest.mark.usefixtures("unchecked")
def test_errors():
    given = operands(Case(name="errors", lengths=((3, 1),)))

    def attend(**changed: Any) -> None:
        names = {"q": "q_TNK", "keys": "keys_SHK", "values": "values_SHV"}
        parts: dict[str, Any] = {name: getattr(given, name) for name in (*names, "table")}
        arguments = {names.get(name, name): value for name, value in (parts | changed).items()}
        paged_attention(**arguments, scale=1.0)

    with pytest.raises(KernelError, match=r"q has shape \[1, 64\]; three dimensions"):
        attend(q=given.q.flatten(1))
    with pytest.raises(KernelError, match=r"keys has dtype torch.bfloat16; torch.float32"):
        attend(keys=given.keys.bfloat16())
    with pytest.raises(KernelError, match=r"q has dtype torch.float64"):
        attend(q=given.q.double())
    with pytest.raises(KernelError, match="values has stride 2 along its last dimension"):
        attend(values=given.values[..., ::2])
    with pytest.raises(KernelError, match=r"keys has shape \[256, 2, 15\]; \[256, 2, 16\]"):
        attend(keys=given.keys[..., :15])
    with pytest.raises(KernelError, match="3 query heads do not share 2 key-value heads"):
        attend(q=given.q[:, :3])
    with pytest.raises(KernelError, match="window is 0; at least 1"):
        attend(window=0)
    with pytest.raises(KernelError, match=r"sinks has shape \[3\]; \[4\]"):
        attend(sinks_N=torch.zeros(3))
    with pytest.raises(KernelError, match=r"table.num_tokens has shape \[2\]; \[1\]"):
        attend(table=replace(given.table, num_tokens_B=torch.zeros(2, dtype=torch.int64)))


def test_nothing():
    table = operands(Case(name="nothing", lengths=((3, 1),))).table
    table = replace(
        table,
        block_starts_B=table.block_starts_B[:0],
        num_tokens_B=table.num_tokens_B[:0],
        query_starts_C=table.query_starts_C[:1],
    )
    keys = torch.zeros(16, 2, 16)
    q = torch.zeros(0, 4, 16)
    assert paged_attention(q, keys, keys, table, scale=1.0).shape == q.shape
    out = _launch(q, keys, keys, table, scale=1.0, num_parts=1, target=INTERPRETER)
    assert out.shape == q.shape
