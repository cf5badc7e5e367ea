"""Tokens drawn from rows of logits: their distribution, and that it is the same one every time."""

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from beartype import beartype
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import TypeCheckError, jaxtyped
from torch import Tensor
from transformers import generation

from composer_inference.backends.base import RejectedRequestError, SamplingParams
from composer_inference.sampling.drawing import NoTokenError, candidates, draw, kth_largest
from composer_inference.sampling.sampler import TokenSampler, greedy

torch.set_num_threads(1)

LOGITS = torch.tensor([2.0, 1.0, -1.0, 3.0, 0.5, 0.5, -8.0, 2.5, 1.5, -math.inf])


def random_logits(seed: int, size: int, scale: float = 3.0) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed)) * scale


def probabilities(logits_V: Tensor, params: SamplingParams) -> Tensor:
    """What `draw` draws from, over the whole vocabulary."""
    ids_C, weights_C = candidates(logits_V.numpy(), params)
    whole = np.zeros(len(logits_V))
    whole[slice(None) if ids_C is None else ids_C] = weights_C
    return torch.from_numpy(whole / whole.sum())


def warped(logits_V: Tensor, params: SamplingParams) -> Tensor:
    """The same by transformers."""
    warpers: list[Any] = [generation.TemperatureLogitsWarper(params.temperature)]
    if params.top_k:
        warpers.append(generation.TopKLogitsWarper(params.top_k))
    if params.top_p < 1:
        warpers.append(generation.TopPLogitsWarper(params.top_p))
    if params.min_p > 0:
        warpers.append(generation.MinPLogitsWarper(params.min_p))
    scores = logits_V[None]
    for warper in warpers:
        scores = warper(None, scores)
    return scores[0].double().softmax(dim=-1)


FILTERS = {
    "temperature": SamplingParams(temperature=0.7),
    "hot": SamplingParams(temperature=2.0),
    "top_k": SamplingParams(temperature=1.0, top_k=3),
    "top_k of all": SamplingParams(temperature=1.0, top_k=50_000),
    "top_k of one": SamplingParams(temperature=1.3, top_k=1),
    "top_k of many": SamplingParams(temperature=1.3, top_k=40),
    "top_p": SamplingParams(temperature=1.0, top_p=0.9),
    "a small top_p": SamplingParams(temperature=1.5, top_p=0.01),
    "top_p of nearly all": SamplingParams(temperature=2.0, top_p=0.99999),
    "min_p": SamplingParams(temperature=1.2, min_p=0.1),
    "min_p of one": SamplingParams(temperature=1.2, min_p=1.0),
    "all": SamplingParams(temperature=0.9, top_k=20, top_p=0.8, min_p=0.05),
}


@pytest.mark.parametrize("size", [10, 100, 5000])
@pytest.mark.parametrize("params", FILTERS.values(), ids=FILTERS)
def test_the_filters_are_those_of_transformers(params, size):
    for seed in range(5):
        logits_V = random_logits(seed, size)
        ours, theirs = probabilities(logits_V, params), warped(logits_V, params)
        assert torch.equal(ours > 0, theirs > 0)
        # Exponentials in float32.
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=0)


def test_equal_logits_at_the_edge_of_top_k_stay_as_in_transformers():
    logits_V = torch.tensor([1.0, 2.0, 2.0, 2.0, 0.0])
    params = SamplingParams(temperature=1.0, top_k=2)
    assert torch.equal(probabilities(logits_V, params) > 0, warped(logits_V, params) > 0)


def test_of_equal_logits_the_nucleus_takes_the_lower_ids():
    params = SamplingParams(temperature=1.0, top_p=0.5)
    logits_V = torch.tensor([0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    assert probabilities(logits_V, params).nonzero().flatten().tolist() == [1, 2, 3]


def test_top_p_of_nothing_keeps_the_largest():
    params = SamplingParams(temperature=1.0, top_p=0.0)
    assert probabilities(LOGITS, params).nonzero().flatten().tolist() == [3]


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=400), st.data())
def test_the_kth_largest(values, data):
    k = data.draw(st.integers(1, len(values)))
    array = np.array(values, dtype=np.float32)
    assert kth_largest(array, k) == sorted(values, reverse=True)[k - 1]


def chi_square(counts: Counter[int], expected: Tensor, num: int) -> tuple[float, int]:
    """The statistic and its degrees of freedom. Tokens that come less than five times are one."""
    whole = [(counts[index], float(share) * num) for index, share in enumerate(expected)]
    rare = [pair for pair in whole if pair[1] < 5]
    pairs = [pair for pair in whole if pair[1] >= 5]
    if sum(pair[1] for pair in rare) >= 1:
        pairs.append((sum(pair[0] for pair in rare), sum(pair[1] for pair in rare)))
    else:
        assert sum(pair[0] for pair in rare) <= 3
    return sum((seen - wanted) ** 2 / wanted for seen, wanted in pairs), len(pairs) - 1


@pytest.mark.parametrize("size", [10, 3000])
@pytest.mark.parametrize("name", ["temperature", "top_k", "top_p", "min_p", "all"])
def test_what_is_drawn_is_distributed_so(name, size):
    logits_V = LOGITS if size == len(LOGITS) else random_logits(7, size)
    params = SamplingParams(
        **{
            each: getattr(FILTERS[name], each)
            for each in ("temperature", "top_k", "top_p", "min_p")
        },
        seed=11,
    )
    sampler = TokenSampler(params, [], size)
    num = 4000
    counts = Counter(sampler.sample(logits_V, position).token_id for position in range(num))
    expected = warped(logits_V, params)
    assert all(expected[token_id] > 0 for token_id in counts)
    statistic, freedom = chi_square(counts, expected, num)
    # Wilson and Hilferty's cube root of the statistic: five standard deviations.
    limit = 1 - 2 / (9 * freedom) + 5 * math.sqrt(2 / (9 * freedom)) if freedom else 1.0
    assert freedom == 0 or statistic / freedom < limit**3


def test_seeds_are_independent():
    """Over seeds at one position, as over positions of one seed."""
    params = [SamplingParams(temperature=1.0, seed=seed) for seed in range(2000)]
    counts = Counter(TokenSampler(each, [], 10).sample(LOGITS, 5).token_id for each in params)
    statistic, freedom = chi_square(counts, LOGITS.double().softmax(dim=-1), 2000)
    assert statistic / freedom < 4


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=1500), st.floats(0, 1))
@settings(deadline=None)
def test_every_share_finds_a_token_that_has_weight(weights, uniform):
    whole = [*weights, 1.0]
    with np.errstate(divide="ignore"):
        logits_V = np.log(np.array(whole, dtype=np.float32))
    token_id = draw(logits_V, SamplingParams(temperature=1.0), min(uniform, 1 - 2**-53))
    assert whole[token_id] > 0


def test_the_shares_of_a_large_vocabulary_lie_in_order():
    """As one plain cumulative sum finds them."""
    logits_V = random_logits(3, 50_000)
    cumulative = logits_V.double().softmax(dim=-1).cumsum(0)
    for index in range(200):
        uniform = (index + 0.5) / 200
        token_id = draw(logits_V.numpy(), SamplingParams(temperature=1.0), uniform)
        # Two ways to add 50,000 float32 weights.
        assert cumulative[token_id] > uniform - 1e-6
        assert token_id == 0 or cumulative[token_id - 1] < uniform + 1e-6


def test_the_same_seed_and_position_give_the_same_token():
    logits = [random_logits(seed, 500) for seed in range(30)]
    params = SamplingParams(temperature=1.0, top_p=0.95, seed=3)
    in_turn = TokenSampler(params, [1], 500)
    tokens = [in_turn.sample(row, 1 + index).token_id for index, row in enumerate(logits)]
    backwards = TokenSampler(params, [1], 500)
    again = {index: backwards.sample(logits[index], 1 + index) for index in reversed(range(30))}
    assert [again[index].token_id for index in range(30)] == tokens
    other = TokenSampler(SamplingParams(temperature=1.0, top_p=0.95, seed=4), [1], 500)
    assert [other.sample(row, 1 + i).token_id for i, row in enumerate(logits)] != tokens


def test_without_a_seed_each_request_draws_its_own():
    params = SamplingParams(temperature=1.0)
    flat = torch.zeros(1000)

    def text(sampler: TokenSampler) -> list[int]:
        return [sampler.sample(flat, position).token_id for position in range(10)]

    first, second = TokenSampler(params, [], 1000), TokenSampler(params, [], 1000)
    assert text(first) != text(second)
    assert text(first) == text(first)


def plain(
    logits_of: Callable[[Sequence[int]], Tensor], sampler: TokenSampler, num: int
) -> list[int]:
    tokens: list[int] = [0]
    for _ in range(num):
        tokens.append(sampler.sample(logits_of(tokens), len(tokens)).token_id)
    return tokens


def drafted(
    logits_of: Callable[[Sequence[int]], Tensor],
    sampler: TokenSampler,
    num: int,
    propose: Callable[[Sequence[int]], list[int]],
) -> tuple[list[int], int]:
    """As a step verifies drafts. The tokens, and how many drafted ones were right."""
    tokens: list[int] = [0]
    num_right = 0
    while len(tokens) <= num:
        draft = propose(tokens)
        for place in range(len(draft) + 1):
            tokens.append(sampler.sample(logits_of(tokens), len(tokens)).token_id)
            if place == len(draft) or draft[place] != tokens[-1]:
                break
            num_right += 1
    return tokens[: num + 1], num_right


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(),
        SamplingParams(temperature=1.0, seed=5),
        SamplingParams(temperature=0.8, top_p=0.9, repeat_penalty=1.3, seed=6),
    ],
    ids=["greedy", "sampled", "penalised"],
)
def test_drafts_change_no_token(params):
    def logits_of(tokens: Sequence[int]) -> Tensor:
        return random_logits(hash(tuple(tokens[-3:])) % 2**32, 30)

    expected = plain(logits_of, TokenSampler(params, [0], 30), 60)
    noise = random.Random(1)

    def mostly_right(tokens: Sequence[int]) -> list[int]:
        known = expected[len(tokens) : len(tokens) + 8]
        return [each if noise.random() < 0.8 else noise.randrange(30) for each in known]

    tokens, num_right = drafted(logits_of, TokenSampler(params, [0], 30), 60, mostly_right)
    assert tokens == expected
    assert num_right > 20


def test_a_request_that_goes_back_draws_the_same_again():
    params = SamplingParams(temperature=1.0, repeat_penalty=2.0, seed=1)
    rows = [random_logits(seed, 20) for seed in range(10)]
    sampler = TokenSampler(params, [1, 2], 20)
    first = [sampler.sample(row, 2 + index).token_id for index, row in enumerate(rows)]
    again = [
        sampler.sample(row, 2 + index).token_id for index, row in enumerate(rows) if index >= 4
    ]
    assert again == [*first[4:]]


@pytest.mark.parametrize("penalty", [1.5, 0.5])
def test_the_penalty_is_that_of_transformers(penalty):
    theirs = generation.RepetitionPenaltyLogitsProcessor(penalty)
    tokens = [3, 3, 1]
    sampler = TokenSampler(SamplingParams(repeat_penalty=penalty), tokens, 40)
    for seed in range(40):
        logits_V = random_logits(seed, 40, scale=1.0)
        scores: Any = theirs(torch.tensor([tokens]), logits_V[None].clone())
        assert sampler.sample(logits_V, len(tokens)).token_id == int(scores.argmax())
        tokens.append(int(scores.argmax()))


def test_a_penalty_of_nothing_is_refused():
    for penalty, shown in ((0, "0"), (1e-38, "1e-38")):
        with pytest.raises(RejectedRequestError, match=f"repeat_penalty is {shown} "):
            TokenSampler(SamplingParams(repeat_penalty=penalty), [], 4)


@pytest.mark.parametrize("temperature", [0.0, 1e-6, 1.0])
def test_a_mask_leaves_the_likeliest_of_what_it_allows(temperature):
    sampler = TokenSampler(SamplingParams(temperature=temperature, seed=1), [], 10)
    mask = torch.zeros(10, dtype=torch.bool)
    mask[[2, 6]] = True
    counts = Counter(sampler.sample(LOGITS, place, mask).token_id for place in range(200))
    assert counts[2] > 190
    assert counts.keys() <= {2, 6}
    mask[2] = False
    assert sampler.sample(LOGITS, 0, mask).token_id == 6


def test_log_probabilities_are_the_models_own():
    params = SamplingParams(temperature=1.5, top_k=2, repeat_penalty=1.5, seed=2, num_logprobs=3)
    mask = torch.tensor([True] * 3 + [False] + [True] * 6)
    sampled = TokenSampler(params, [0, 1], 10).sample(LOGITS, 2, mask)
    own = LOGITS.double().log_softmax(dim=-1)
    assert sampled.logprob == pytest.approx(own[sampled.token_id].item(), abs=1e-6)
    assert [token_id for token_id, _ in sampled.top] == [3, 7, 0]
    assert [value for _, value in sampled.top] == pytest.approx(own[[3, 7, 0]].tolist(), abs=1e-6)


def test_of_equal_tokens_the_lower_ids_are_reported():
    sampler = TokenSampler(SamplingParams(num_logprobs=2), [], 4)
    sampled = sampler.sample(torch.tensor([0.0, 1.0, 1.0, 1.0]), 0)
    assert sampled.token_id == 1
    assert [token_id for token_id, _ in sampled.top] == [1, 2]


def test_more_alternatives_than_tokens_are_all_tokens():
    sampled = TokenSampler(SamplingParams(num_logprobs=20), [], 3).sample(torch.zeros(3), 0)
    assert [token_id for token_id, _ in sampled.top] == [0, 1, 2]


def test_nothing_is_reported_that_was_not_asked_for():
    sampled = TokenSampler(SamplingParams(), [], 10).sample(LOGITS, 0)
    assert (sampled.logprob, sampled.top) == (None, ())


@pytest.mark.parametrize(
    ("params", "is_plain"),
    [
        (SamplingParams(), True),
        (SamplingParams(top_k=5, top_p=0.5, seed=1), True),
        (SamplingParams(temperature=0.5), False),
        (SamplingParams(repeat_penalty=1.1), False),
        (SamplingParams(num_logprobs=1), False),
    ],
)
def test_plain_greedy_rows_may_be_drawn_together(params, is_plain):
    sampler = TokenSampler(params, [], 50)
    assert sampler.is_plain_greedy is is_plain
    if is_plain:
        rows = torch.stack([random_logits(seed, 50) for seed in range(6)])
        assert greedy(rows) == [
            sampler.sample(row, place).token_id for place, row in enumerate(rows)
        ]


def test_greedy_takes_the_lowest_of_equal_ids():
    assert greedy(torch.tensor([[0.0, 1.0, 1.0], [2.0, 2.0, 0.0]])) == [1, 0]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_rows_on_a_gpu_give_the_same_tokens():
    rows = torch.stack([random_logits(seed, 5000) for seed in range(6)])
    assert greedy(rows.cuda()) == greedy(rows)
    sampler = TokenSampler(SamplingParams(temperature=1.0, seed=1, num_logprobs=2), [], 5000)
    for place, row in enumerate(rows):
        mask = row > 0
        assert sampler.sample(row.cuda(), place, mask) == sampler.sample(row, place, mask)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_no_numbers_are_an_error(value, temperature):
    logits_V = torch.full((4,), value if value < 0 else 1.0)
    logits_V[2] = value
    sampler = TokenSampler(SamplingParams(temperature=temperature, num_logprobs=1), [], 4)
    with pytest.raises(NoTokenError, match="allowed" if value < 0 else f"hold {value}"):
        sampler.sample(logits_V, 0)
    rows = torch.stack([torch.arange(4.0), logits_V])
    # Of a row in which some are allowed, minus infinity is a mask's.
    assert greedy(rows) == [3, None]


def test_a_mask_that_allows_nothing_is_an_error():
    with pytest.raises(NoTokenError, match="no token is allowed"):
        TokenSampler(SamplingParams(), [], 10).sample(LOGITS, 0, torch.zeros(10, dtype=torch.bool))


def test_shapes_and_dtypes_are_checked_where_jaxtyping_is_switched_on():
    checked = jaxtyped(TokenSampler.sample, typechecker=beartype)
    sampler = TokenSampler(SamplingParams(), [], 10)
    assert checked(sampler, LOGITS, 0, LOGITS > 0).token_id == 3
    for logits, mask in ((LOGITS.double(), None), (LOGITS, LOGITS[:5] > 0), (LOGITS[None], None)):
        with pytest.raises(TypeCheckError):
            checked(sampler, logits, 0, mask)
