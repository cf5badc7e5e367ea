"""Paged attention against the formula, written out token by token."""

from dataclasses import replace
from importlib import import_module

import pytest
import torch
from torch import Tensor

from composer_inference.decoder.attention import rule as rule_module
from composer_inference.decoder.attention.gathered import alike
from composer_inference.decoder.attention.paged import PagedAttention
from composer_inference.decoder.attention.rule import AttentionRule
from composer_inference.decoder.batch import Batch, Span
from composer_inference.decoder.layers.packed import can_pack
from composer_inference.kv.pool import CacheShape, KVPool
from composer_kernels.target_info import INTERPRETER

CPU = torch.device("cpu")
NUM_HEADS, NUM_KV_HEADS, KEY_DIM = 6, 2, 8
BLOCK_SIZE = 4

SINKS = torch.tensor([0.5, -1.0, 2.0, 0.0, 3.0, -0.2])
RULES = {
    "causal": AttentionRule(0.3),
    "window": AttentionRule(0.3, 5),
    "window of 1": AttentionRule(0.3, 1),
    "window past the text": AttentionRule(0.3, 500),
    "sinks": AttentionRule(0.3, None, SINKS),
    "sinks and window": AttentionRule(0.3, 5, SINKS),
}

STEPS: dict[str, list[tuple[int, int]]] = {
    "decodes": [(9, 1), (2, 1), (0, 1), (17, 1)],
    "decodes of about one length": [(9, 1), (8, 1), (11, 1), (9, 1), (6, 1)],
    "prefills": [(0, 7), (0, 1), (0, 12)],
    "all kinds": [(6, 1), (8, 1), (3, 5), (0, 9), (11, 1), (16, 4), (4, 1)],
}
"""Cached and new tokens of each sequence."""


def by_hand(q: Tensor, k: Tensor, v: Tensor, position: int, rule: AttentionRule) -> Tensor:
    """One token's output [N, V] from all keys and values [L, H, ...] of its sequence."""
    first = 0 if rule.window is None else max(0, position + 1 - rule.window)
    outputs: list[Tensor] = []
    for head in range(NUM_HEADS):
        kv_head = head // (NUM_HEADS // NUM_KV_HEADS) if k.shape[1] > 1 else 0
        logits = k[first : position + 1, kv_head] @ q[head] * rule.scale
        weights = logits.exp()
        total = weights.sum()
        if rule.sinks_N is not None:
            total = total + rule.sinks_N[head].exp()
        outputs.append(weights / total @ v[first : position + 1, kv_head])
    return torch.stack(outputs)


class Sequences:
    def __init__(self, step: list[tuple[int, int]], *, latent: bool, shuffled: bool) -> None:
        generator = torch.Generator().manual_seed(3)
        num_kv_heads = 1 if latent else NUM_KV_HEADS
        value_dim = 0 if latent else 5
        shape = CacheShape(num_kv_heads=num_kv_heads, key_dim=KEY_DIM, value_dim=value_dim)
        self.pool = KVPool(
            [shape, shape], num_blocks=64, block_size=BLOCK_SIZE, dtype=torch.float32, device=CPU
        )
        free = torch.randperm(64, generator=generator).tolist() if shuffled else list(range(64))
        self.spans: list[Span] = []
        self.q: list[Tensor] = []
        self.k: list[Tensor] = []
        self.v: list[Tensor] = []
        for num_cached, num_new in step:
            length = num_cached + num_new
            blocks = [free.pop(0) for _ in range(-(-length // BLOCK_SIZE))]
            self.spans.append(Span(token_ids=[0] * num_new, num_cached=num_cached, blocks=blocks))
            self.q.append(torch.randn(num_new, NUM_HEADS, KEY_DIM, generator=generator))
            k = torch.randn(length, num_kv_heads, KEY_DIM, generator=generator)
            self.k.append(k)
            self.v.append(
                k if latent else torch.randn(length, num_kv_heads, value_dim, generator=generator)
            )
            slots = [
                blocks[i // BLOCK_SIZE] * BLOCK_SIZE + i % BLOCK_SIZE for i in range(num_cached)
            ]
            values = None if latent else self.v[-1][:num_cached]
            self.pool.write(1, torch.tensor(slots, dtype=torch.int64), k[:num_cached], values)

    def attend(self, rule: AttentionRule, *, by_table: bool) -> Tensor:
        batch = Batch.of(self.spans, block_size=BLOCK_SIZE, device=CPU)
        new = [slice(span.num_cached, None) for span in self.spans]
        k = torch.cat([k[rows] for k, rows in zip(self.k, new, strict=True)])
        v = torch.cat([v[rows] for v, rows in zip(self.v, new, strict=True)])
        attention = PagedAttention(batch, self.pool, by_table=by_table)
        values = None if self.v[0] is self.k[0] else v
        return attention.attend(1, torch.cat(self.q), k, values, rule)

    def expected(self, rule: AttentionRule) -> Tensor:
        return torch.stack(
            [
                by_hand(q_NK, k, v, span.num_cached + row, rule)
                for span, q, k, v in zip(self.spans, self.q, self.k, self.v, strict=True)
                for row, q_NK in enumerate(q)
            ]
        )


@pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))
@pytest.mark.parametrize("step", STEPS.values(), ids=list(STEPS))
@pytest.mark.parametrize("shuffled", [False, True], ids=["in a row", "shuffled"])
@pytest.mark.parametrize("latent", [False, True], ids=["values", "keys as values"])
@pytest.mark.parametrize("by_table", [False, True], ids=["each", "by table"])
def test_attends_as_the_formula(
    rule: AttentionRule,
    step: list[tuple[int, int]],
    shuffled: bool,
    latent: bool,
    by_table: bool,
) -> None:
    sequences = Sequences(step, latent=latent, shuffled=shuffled)
    out = sequences.attend(rule, by_table=by_table)
    torch.testing.assert_close(out, sequences.expected(rule), atol=1e-5, rtol=1e-5)


def test_sinks_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    sequences = Sequences([(5, 9), (0, 7)], latent=False, shuffled=False)
    monkeypatch.setattr(rule_module, "_MAX_SCORES", 200)
    for name in ("sinks", "sinks and window"):
        out = sequences.attend(RULES[name], by_table=False)
        torch.testing.assert_close(out, sequences.expected(RULES[name]), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["causal", "window", "window past the text"])
@pytest.mark.parametrize("max_scores", [1, 200, 1 << 21])
def test_products_attend_as_the_formula(
    name: str, max_scores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In f32, where the rounding hides nothing."""
    monkeypatch.setattr(rule_module, "_is_faster_by_products", lambda _: True)
    monkeypatch.setattr(rule_module, "_MAX_PRODUCT_SCORES", max_scores)
    for latent in (False, True):
        sequences = Sequences([(5, 9), (0, 7), (11, 2)], latent=latent, shuffled=False)
        out = sequences.attend(RULES[name], by_table=False)
        expected = sequences.expected(RULES[name])
        torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.skipif(not can_pack(torch.bfloat16, CPU), reason="the processor has no bf16 products")
def test_short_parts_of_prompts_in_bf16_are_products() -> None:
    faster = rule_module._is_faster_by_products
    shape = (1, NUM_HEADS, 8, KEY_DIM)
    assert faster(torch.zeros(shape, dtype=torch.bfloat16))
    assert not faster(torch.zeros(shape))
    assert not faster(torch.zeros(shape, dtype=torch.bfloat16)[:, :, :7])


def test_a_prompt_and_nothing_cached_keep_their_gradient_beside_a_table() -> None:
    sequences = Sequences([(20, 1), (0, 1), (3, 66), (1, 65)], latent=False, shuffled=False)
    attention = PagedAttention(
        Batch.of(sequences.spans, block_size=BLOCK_SIZE, device=CPU), sequences.pool, by_table=True
    )
    kinds = [type(part).__name__ for part in attention._parts]
    assert kinds == ["TableAttention", "SpanAttention", "SpanAttention", "TableAttention"]


@pytest.mark.parametrize("name", RULES)
def test_the_kernel_attends_as_the_formula(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the interpreter of Triton, in place of its twin."""
    module = import_module("composer_kernels.paged_attention")
    monkeypatch.setattr(module, "target_of", lambda _: replace(INTERPRETER, capability=80))
    monkeypatch.setattr(module, "num_multiprocessors", lambda _: 8)
    for latent in (False, True):
        sequences = Sequences([(9, 1), (2, 3), (0, 2)], latent=latent, shuffled=True)
        out = sequences.attend(RULES[name], by_table=True)
        torch.testing.assert_close(out, sequences.expected(RULES[name]), atol=1e-5, rtol=1e-5)


def test_latents_are_values_as_far_as_asked() -> None:
    sequences = Sequences([(9, 1), (0, 6), (5, 2)], latent=True, shuffled=False)
    rule = AttentionRule(0.3, value_dim=6)
    expected = sequences.expected(rule)[..., :6]
    for by_table in (False, True):
        out = sequences.attend(rule, by_table=by_table)[..., :6]
        torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))
def test_gradients_of_a_prefill(rule: AttentionRule) -> None:
    sequences = Sequences([(0, 6), (0, 3)], latent=False, shuffled=False)
    inputs = [*sequences.q, *sequences.k, *sequences.v]
    for tensor in inputs:
        tensor.requires_grad_()
    weights = torch.randn(9, NUM_HEADS, 5, generator=torch.Generator().manual_seed(5))
    ours = torch.autograd.grad((sequences.attend(rule, by_table=False) * weights).sum(), inputs)
    theirs = torch.autograd.grad((sequences.expected(rule) * weights).sum(), inputs)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    assert not any(kept.requires_grad for kept in sequences.pool.read_slots(1, slice(0, 4)))


def test_a_sequence_that_overflowed_spoils_no_other_that_is_gathered_with_it() -> None:
    decodes = [(9, 1), (12, 1), (7, 1)]
    sequences = Sequences(decodes, latent=False, shuffled=True)
    whole = sequences.attend(AttentionRule(0.3), by_table=False)
    sequences.k[1].fill_(torch.nan)
    sequences.pool.write(1, slots_of(sequences.spans[1]), sequences.k[1][:12], sequences.v[1][:12])
    spoiled = sequences.attend(AttentionRule(0.3), by_table=False)
    assert torch.equal(spoiled[[0, 2]], whole[[0, 2]])
    assert spoiled[1].isnan().all()


def slots_of(span: Span) -> Tensor:
    return torch.tensor([span.slot(place, BLOCK_SIZE) for place in range(span.num_cached)])


@pytest.mark.parametrize(
    ("lengths", "together"),
    [
        ([20, 20, 20], [3]),
        ([20, 21, 29], [3]),
        ([20, 90, 90], [1, 2]),
        ([90, 20, 90], [1, 1, 1]),
        ([7], [1]),
        ([], []),
        ([100_000, 100_000], [1, 1]),
    ],
)
def test_sequences_are_gathered_while_little_is_filled_up(
    lengths: list[int], together: list[int]
) -> None:
    shape = CacheShape(num_kv_heads=2, key_dim=64, value_dim=64)
    pool = KVPool([shape], num_blocks=1, block_size=16, dtype=torch.float32, device=CPU)
    spans = [Span(token_ids=[1], num_cached=length - 1, blocks=[]) for length in lengths]
    runs = list(alike(spans, pool))
    assert [len(run) for run in runs] == together
    assert [span for run in runs for span in run] == spans
