"""The twins of routing against transformers' routers, values by hand, and the invariants of a dispatch."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import (
    DeepseekV2Config,
    DeepseekV3Config,
    Glm4MoeConfig,
    GptOssConfig,
    MixtralConfig,
    OlmoeConfig,
    Qwen3MoeConfig,
)
from transformers.models.deepseek_v2.modeling_deepseek_v2 import DeepseekV2TopkRouter
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3TopkRouter
from transformers.models.glm4_moe.modeling_glm4_moe import Glm4MoeTopkRouter
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssTopKRouter
from transformers.models.mixtral.modeling_mixtral import MixtralTopKRouter
from transformers.models.olmoe.modeling_olmoe import OlmoeTopKRouter
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeTopKRouter

from composer_kernels.formats import MXFP8Tensor
from composer_kernels.reference import (
    combine,
    combine_backward,
    dispatch,
    permute,
    route,
    topk_weights,
)
from composer_kernels.routes import Dispatch, GroupScore, RouterConfig, Scoring, num_rows_bound

SOFTMAX = RouterConfig(top_k=2, scoring=Scoring.SOFTMAX)
SIGMOID = RouterConfig(top_k=2, scoring=Scoring.SIGMOID)

GROUPED: dict[str, Any] = {"n_group": 4, "topk_group": 2, "routed_scaling_factor": 2.5}
OUR_GROUPS: dict[str, Any] = {"num_groups": 4, "topk_groups": 2, "routed_scaling_factor": 2.5}

FAMILIES = {
    "qwen3_moe": (
        Qwen3MoeTopKRouter,
        Qwen3MoeConfig(hidden_size=32, num_experts=24, num_experts_per_tok=8, norm_topk_prob=True),
        RouterConfig(top_k=8, scoring=Scoring.SOFTMAX, normalize=True),
    ),
    "qwen3_moe not normalised": (
        Qwen3MoeTopKRouter,
        Qwen3MoeConfig(hidden_size=32, num_experts=24, num_experts_per_tok=8, norm_topk_prob=False),
        RouterConfig(top_k=8, scoring=Scoring.SOFTMAX),
    ),
    "mixtral": (
        MixtralTopKRouter,
        MixtralConfig(hidden_size=32, num_local_experts=8, num_experts_per_tok=2),
        RouterConfig(top_k=2, scoring=Scoring.SOFTMAX, normalize=True),
    ),
    "olmoe": (
        OlmoeTopKRouter,
        OlmoeConfig(hidden_size=32, num_experts=24, num_experts_per_tok=8, norm_topk_prob=False),
        RouterConfig(top_k=8, scoring=Scoring.SOFTMAX),
    ),
    "gpt_oss": (
        GptOssTopKRouter,
        GptOssConfig(hidden_size=32, num_local_experts=24, num_experts_per_tok=4),
        RouterConfig(top_k=4, scoring=Scoring.SOFTMAX_OF_CHOSEN),
    ),
    "deepseek_v2 greedy": (
        DeepseekV2TopkRouter,
        DeepseekV2Config(
            hidden_size=32, n_routed_experts=24, num_experts_per_tok=6, topk_method="greedy"
        ),
        RouterConfig(top_k=6, scoring=Scoring.SOFTMAX),
    ),
    "deepseek_v2 groups": (
        DeepseekV2TopkRouter,
        DeepseekV2Config(
            hidden_size=32,
            n_routed_experts=24,
            num_experts_per_tok=6,
            topk_method="group_limited_greedy",
            **GROUPED,
        ),
        RouterConfig(top_k=6, scoring=Scoring.SOFTMAX, group_score=GroupScore.MAX, **OUR_GROUPS),
    ),
    "deepseek_v3": (
        DeepseekV3TopkRouter,
        DeepseekV3Config(
            hidden_size=32,
            n_routed_experts=24,
            num_experts_per_tok=8,
            norm_topk_prob=True,
            **GROUPED,
        ),
        RouterConfig(
            top_k=8,
            scoring=Scoring.SIGMOID,
            normalize=True,
            group_score=GroupScore.TOP2_SUM,
            **OUR_GROUPS,
        ),
    ),
    "glm4_moe": (
        Glm4MoeTopkRouter,
        Glm4MoeConfig(
            hidden_size=32,
            n_routed_experts=24,
            num_experts_per_tok=8,
            norm_topk_prob=True,
            n_group=1,
            topk_group=1,
            routed_scaling_factor=1.5,
        ),
        RouterConfig(top_k=8, scoring=Scoring.SIGMOID, normalize=True, routed_scaling_factor=1.5),
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_familys_router_is_reproduced(family: str) -> None:
    router_class, hf_config, config = FAMILIES[family]
    torch.manual_seed(0)
    router = router_class(hf_config).eval()
    torch.nn.init.normal_(router.weight, std=0.3)
    bias_E = None
    if hasattr(router, "e_score_correction_bias"):
        bias_E = router.e_score_correction_bias.copy_(torch.randn(24) * 0.2)
    with torch.no_grad():
        logits_TE, hf_weights_TK, hf_ids_TK = router(torch.randn(500, 32))

    weights_TK, ids_TK = route(logits_TE, config, bias_E=bias_E)

    assert ids_TK.shape == (500, config.top_k)
    # Some families leave the order of the chosen open.
    ids_TK, order_TK = ids_TK.long().sort(dim=-1)
    hf_ids_TK, hf_order_TK = hf_ids_TK.sort(dim=-1)
    assert torch.equal(ids_TK, hf_ids_TK)
    # The same functions of the same f32 logits; only the sum over K is taken in another order.
    torch.testing.assert_close(
        weights_TK.gather(1, order_TK),
        hf_weights_TK.gather(1, hf_order_TK),
        rtol=config.top_k * 2**-23,
        atol=0,
    )


def test_weights_by_hand() -> None:
    logits_TE = torch.tensor(
        [[1.0, 2, 4, 3]]
    ).log()  # softmax 0.1, 0.2, 0.4, 0.3; sigmoid x / (1 + x)
    by_config = {
        SOFTMAX: [0.4, 0.3],
        RouterConfig(top_k=2, scoring=Scoring.SOFTMAX, normalize=True): [4 / 7, 3 / 7],
        RouterConfig(top_k=2, scoring=Scoring.SOFTMAX_OF_CHOSEN): [4 / 7, 3 / 7],
        SIGMOID: [0.8, 0.75],
        RouterConfig(top_k=2, scoring=Scoring.SIGMOID, normalize=True): [16 / 31, 15 / 31],
        RouterConfig(top_k=1, scoring=Scoring.SIGMOID, routed_scaling_factor=2.5): [2.0],
    }
    for config, expected in by_config.items():
        weights_TK, ids_TK = route(logits_TE, config)
        assert ids_TK.tolist() == [[2, 3][: config.top_k]]
        assert weights_TK.tolist() == [pytest.approx(expected, rel=1e-6)], config


def test_the_bias_chooses_and_does_not_weigh() -> None:
    logits_TE = torch.tensor([[1.0, 2, 4, 3]]).log()
    weights_TK, ids_TK = route(logits_TE, SIGMOID, bias_E=torch.tensor([0.5, 0, 0, 0]))
    assert ids_TK.tolist() == [[0, 2]]  # 0.5 + 0.5 > 0.8
    assert weights_TK.tolist() == [pytest.approx([0.5, 0.8], rel=1e-6)]


@pytest.mark.parametrize(
    ("group_score", "expected"),
    [(GroupScore.MAX, [1, 0]), (GroupScore.TOP2_SUM, [3, 2])],
    ids=lambda value: str(value),
)
def test_groups_by_their_score(group_score: GroupScore, expected: list[int]) -> None:
    # Sigmoids .1 .8 | .6 .7: the first group has the best expert, the second the best two.
    logits_TE = torch.tensor([[0.1, 0.8, 0.6, 0.7]]).logit()
    config = RouterConfig(
        top_k=2, scoring=Scoring.SIGMOID, num_groups=2, topk_groups=1, group_score=group_score
    )
    assert route(logits_TE, config)[1].tolist() == [expected]


@pytest.mark.parametrize("scoring", Scoring)
def test_ties_go_to_the_lower_id(scoring: Scoring) -> None:
    torch.manual_seed(1)
    logits_TE = torch.randint(-1, 2, (64, 20)).float() * torch.tensor([1.0, -1.0]).repeat(
        10
    )  # has -0
    _, ids_TK = route(logits_TE, RouterConfig(top_k=7, scoring=scoring))
    for logits_E, ids_K in zip(logits_TE.tolist(), ids_TK.tolist(), strict=True):
        assert ids_K == sorted(range(20), key=lambda e: (-logits_E[e], e))[:7]


def test_tied_groups_go_to_the_lower_group() -> None:
    config = RouterConfig(top_k=4, scoring=Scoring.SOFTMAX, num_groups=4, topk_groups=2)
    assert route(torch.zeros(1, 8), config)[1].tolist() == [[0, 1, 2, 3]]


@pytest.mark.parametrize("scoring", Scoring)
@pytest.mark.parametrize("biased", [False, True], ids=["", "bias"])
def test_a_nan_ranks_last_and_poisons_its_tokens_weights(scoring: Scoring, biased: bool) -> None:
    logits_TE = torch.tensor(
        [[math.nan, 1, math.nan, 2], [math.nan] * 4, [0, 1, 2, 3], [-math.inf, 1, math.nan, 2]]
    )
    weights_TK, ids_TK = route(
        logits_TE,
        RouterConfig(top_k=3, scoring=scoring),
        bias_E=torch.zeros(4) if biased else None,
    )
    assert ids_TK.tolist() == [[3, 1, 0], [0, 1, 2], [3, 2, 1], [3, 1, 0]]
    assert weights_TK.isnan().all(-1).tolist() == [True, True, False, True]
    assert weights_TK[2].isfinite().all()


def test_an_expert_outside_the_kept_groups_is_below_minus_infinity() -> None:
    config = RouterConfig(top_k=2, scoring=Scoring.SOFTMAX, num_groups=2, topk_groups=1)
    logits_TE = torch.tensor([[-math.inf, 0.0, 5.0, -math.inf]])
    assert route(logits_TE, config)[1].tolist() == [[2, 3]]


def test_logits_rank_where_scores_round_to_one_number() -> None:
    _, ids_TK = route(torch.tensor([[30.0, 40.0, 50.0]]), SIGMOID)  # all sigmoids are 1 in f32
    assert ids_TK.tolist() == [[2, 1]]


def test_weights_have_the_gradient_of_the_scores() -> None:
    logits_TE = torch.tensor([[1.0, 2, 4, 3]]).log().requires_grad_()
    weights_TK = topk_weights(logits_TE, torch.tensor([[2, 3]]), SOFTMAX)
    weights_TK[0, 0].backward()
    assert logits_TE.grad is not None
    # d softmax_2 / d x_j = p_2 ([j = 2] - p_j)
    assert logits_TE.grad.tolist() == [pytest.approx([-0.04, -0.08, 0.24, -0.12], rel=1e-5)]


@st.composite
def _routings(draw: st.DrawFn) -> tuple[Tensor, int, int, int, int]:
    """Ids, some outside the experts' range; number of experts; first and number of local ones; block_m."""
    num_experts = draw(st.integers(1, 9))
    first = draw(st.integers(0, num_experts - 1))
    num_local = draw(st.integers(1, num_experts - first))
    num_tokens, top_k = draw(st.integers(0, 30)), draw(st.integers(1, 5))
    of_interest = draw(
        st.sampled_from([range(num_experts), range(1), range(-2, num_experts + 2), range(0, 9, 4)])
    )
    ids = draw(
        st.lists(
            st.sampled_from(list(of_interest)),
            min_size=num_tokens * top_k,
            max_size=num_tokens * top_k,
        )
    )
    ids_TK = torch.tensor(ids, dtype=torch.int32).view(num_tokens, top_k)
    return ids_TK, num_experts, first, num_local, draw(st.sampled_from([1, 2, 8, 16]))


@settings(max_examples=150, deadline=None)
@given(_routings())
def test_a_dispatch_holds_its_invariants(routing: tuple[Tensor, int, int, int, int]) -> None:
    ids_TK, num_experts, first, num_local, block_m = routing
    plan = dispatch(
        ids_TK,
        torch.rand(ids_TK.shape),
        num_experts,
        block_m,
        first_local_expert=first,
        num_local_experts=num_local,
    )
    num_tokens, top_k = ids_TK.shape
    slots_of_expert: list[list[int]] = [[] for _ in range(num_local)]
    for slot, expert in enumerate(ids_TK.flatten().tolist()):
        if first <= expert < first + num_local:
            slots_of_expert[expert - first].append(slot)

    assert plan.num_tokens_per_expert.tolist() == [len(slots) for slots in slots_of_expert]
    assert plan.num_rows == num_rows_bound(num_tokens * top_k, num_local, block_m)
    token_of_row = [-1] * plan.num_rows
    row_of_slot = [-1] * (num_tokens * top_k)
    expert_of_block = [-1] * (plan.num_rows // block_m)
    row = 0
    for expert, slots in enumerate(slots_of_expert):
        assert plan.block_offsets[expert] == row
        assert row % block_m == 0
        for rank, slot in enumerate(slots):
            row_of_slot[slot] = row + rank
            token_of_row[row + rank] = slot // top_k
            expert_of_block[(row + rank) // block_m] = expert
        row += math.ceil(len(slots) / block_m) * block_m
    assert plan.block_offsets[-1] == row <= plan.num_rows
    assert plan.token_of_row.tolist() == token_of_row
    assert plan.row_of_slot.flatten().tolist() == row_of_slot
    assert plan.expert_of_block.tolist() == expert_of_block


def _plan(num_tokens: int = 7, top_k: int = 3, *, num_local: int = 4) -> Dispatch:
    """Among 5 experts, of which the first has no token."""
    generator = torch.Generator().manual_seed(2)
    scores_TE = torch.rand(num_tokens, 4, generator=generator)
    ids_TK = scores_TE.argsort(-1)[:, :top_k].int() + 1
    weights_TK = torch.rand(num_tokens, top_k, generator=generator)
    return dispatch(ids_TK, weights_TK, 5, 4, num_local_experts=num_local)


def test_rows_come_back_to_their_tokens() -> None:
    x_TD = torch.randint(-8, 8, (7, 6)).float()
    plan = _plan(num_local=5)
    x_PD = permute(x_TD, plan)
    assert torch.equal(x_PD[plan.row_of_slot[3, 2]], x_TD[3])
    assert not x_PD[plan.token_of_row < 0].any()
    assert torch.equal(combine(x_PD, plan, weighted=False), 3 * x_TD)
    expected_TD = x_TD * plan.weights.sum(-1, keepdim=True)
    # Three products and two sums of numbers below 8 x 1.
    torch.testing.assert_close(combine(x_PD, plan), expected_TD, rtol=0, atol=5 * 24 * 2**-24)


def test_combine_reads_neither_padding_nor_what_is_not_local() -> None:
    plan = _plan(num_local=2)  # expert 1 alone has tokens here
    y_PD = torch.full((plan.num_rows, 2), math.nan)
    y_PD[plan.token_of_row >= 0] = 1.0
    is_local_TK = plan.row_of_slot >= 0
    assert 0 < is_local_TK.sum() < is_local_TK.numel()
    expected_T = (plan.weights * is_local_TK).sum(-1)
    assert torch.equal(combine(y_PD, plan), expected_T[:, None].expand(-1, 2))


def test_codes_and_scales_are_permuted_alike() -> None:
    plan = _plan()
    codes_TD = torch.arange(7 * 64).view(7, 64).to(torch.uint8)
    scales_TB = torch.arange(14).view(7, 2).to(torch.uint8)
    x_TD = MXFP8Tensor(codes=codes_TD.view(torch.float8_e4m3fn), scales=scales_TB)
    x_PD = permute(x_TD, plan)
    for row, token in enumerate(plan.token_of_row.tolist()):
        codes, scales = x_PD.codes.view(torch.uint8)[row], x_PD.scales[row]
        assert torch.equal(codes, codes_TD[token] if token >= 0 else torch.zeros_like(codes))
        assert torch.equal(scales, scales_TB[token] if token >= 0 else torch.zeros_like(scales))


@pytest.mark.parametrize("num_local", [5, 3], ids=["all local", "some local"])
def test_backward_is_the_gradient_of_the_twins(num_local: int) -> None:
    torch.manual_seed(3)
    plan = _plan(num_local=num_local)
    x_TD = torch.randn(7, 6, requires_grad=True)
    x_PD = permute(x_TD, plan)
    grad_PD = torch.randn(plan.num_rows, 6)
    (grad_x_TD,) = torch.autograd.grad(x_PD, x_TD, grad_PD)
    torch.testing.assert_close(
        combine(grad_PD, plan, weighted=False), grad_x_TD, rtol=0, atol=3 * 12 * 2**-24
    )

    y_PD = torch.randn(plan.num_rows, 6, requires_grad=True)
    plan.weights.requires_grad_()
    grad_TD = torch.randn(7, 6)
    out_TD = combine(y_PD, plan)
    expected_y, expected_weights = torch.autograd.grad(out_TD, (y_PD, plan.weights), grad_TD)
    grad_y, grad_weights = combine_backward(grad_TD, y_PD.detach(), plan)
    assert torch.equal(grad_y, expected_y)
    # Six products of numbers below 4 x 4, summed in either order.
    torch.testing.assert_close(grad_weights, expected_weights, rtol=0, atol=6 * 96 * 2**-24)
