"""The kernels of routing, under Triton's interpreter, against their twins; and what the functions refuse."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from composer_kernels import reference, routing
from composer_kernels.errors import KernelError
from composer_kernels.formats import MXFP8Tensor
from composer_kernels.routes import Dispatch, GroupScore, RouterConfig, Scoring

# NumPy, which interprets the kernels, warns where a GPU gives inf or NaN in silence.
pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in :RuntimeWarning")

# The functions that run the kernels on any device, as their module's header says.
_launch_route = routing._launch_route  # pyright: ignore[reportPrivateUsage]
_launch_dispatch = routing._launch_dispatch  # pyright: ignore[reportPrivateUsage]
_launch_permute = routing._launch_permute  # pyright: ignore[reportPrivateUsage]
_launch_combine = routing._launch_combine  # pyright: ignore[reportPrivateUsage]
_launch_combine_backward = routing._launch_combine_backward  # pyright: ignore[reportPrivateUsage]


@pytest.fixture(autouse=True)
def _poisoned_outputs() -> Iterator[None]:
    """Every `torch.empty` is full of NaN or of the largest integer."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def test_outputs_are_poisoned() -> None:
    assert torch.zeros(2).new_empty(3).isnan().all()
    assert torch.empty_like(torch.zeros(2, dtype=torch.int32)).tolist() == [2**31 - 1] * 2


GROUPS: dict[str, Any] = {"num_groups": 4, "topk_groups": 2}
ROUTERS = {
    "softmax": (RouterConfig(top_k=8, scoring=Scoring.SOFTMAX, normalize=True), 24, False),
    "softmax, biased": (RouterConfig(top_k=6, scoring=Scoring.SOFTMAX), 24, True),
    "softmax of chosen": (RouterConfig(top_k=4, scoring=Scoring.SOFTMAX_OF_CHOSEN), 32, False),
    "softmax of chosen, biased": (
        RouterConfig(top_k=3, scoring=Scoring.SOFTMAX_OF_CHOSEN, normalize=True),
        12,
        True,
    ),
    "sigmoid": (RouterConfig(top_k=1, scoring=Scoring.SIGMOID), 16, False),
    "groups by best": (
        RouterConfig(top_k=6, scoring=Scoring.SOFTMAX, routed_scaling_factor=16.0, **GROUPS),
        20,
        False,
    ),
    "groups by best two": (
        RouterConfig(
            top_k=8,
            scoring=Scoring.SIGMOID,
            normalize=True,
            routed_scaling_factor=2.5,
            group_score=GroupScore.TOP2_SUM,
            **GROUPS,
        ),
        24,
        True,
    ),
    "groups by best two, softmax": (
        RouterConfig(top_k=2, scoring=Scoring.SOFTMAX, group_score=GroupScore.TOP2_SUM, **GROUPS),
        12,
        False,
    ),
    "three groups of five": (
        RouterConfig(top_k=10, scoring=Scoring.SIGMOID, num_groups=3, topk_groups=2),
        15,
        False,
    ),
    "one expert": (RouterConfig(top_k=1, scoring=Scoring.SOFTMAX), 1, False),
    "all experts": (RouterConfig(top_k=7, scoring=Scoring.SIGMOID, normalize=True), 7, False),
}


def _assert_routes_alike(
    logits_TE: Tensor, config: RouterConfig, bias_E: Tensor | None = None
) -> None:
    weights_TK, ids_TK = _launch_route(logits_TE, config, bias_E)
    expected_TK, expected_ids_TK = reference.route(logits_TE, config, bias_E=bias_E)
    assert torch.equal(ids_TK, expected_ids_TK)
    # A sum of E positive terms (and one of K) is off by a rounding a term at most, on either side; the
    # exponentials of the two sides differ by a few last places.
    rtol = 2 * (logits_TE.shape[1] + config.top_k + 8) * 2**-24
    torch.testing.assert_close(weights_TK, expected_TK, rtol=rtol, atol=0, equal_nan=True)


@pytest.mark.parametrize("router", ROUTERS)
@pytest.mark.parametrize("many_tokens", [0, 256], ids=["tiles", "single tokens"])
def test_route(router: str, many_tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "_MANY_TOKENS", many_tokens)
    monkeypatch.setattr(routing, "_ROUTE_TILE", 128)
    config, num_experts, is_biased = ROUTERS[router]
    torch.manual_seed(0)
    bias_E = torch.randn(num_experts) * 0.3 if is_biased else None
    _assert_routes_alike(2 * torch.randn(9, num_experts), config, bias_E)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_route_of_half_precision(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    logits_TE = torch.randn(5, 40).to(dtype).T.contiguous().T[:, ::2]  # bf16 has ties; strided
    _assert_routes_alike(logits_TE, RouterConfig(top_k=5, scoring=Scoring.SOFTMAX))


@pytest.mark.parametrize("num_groups", [1, 4], ids=["", "groups"])
@pytest.mark.parametrize("scoring", Scoring)
def test_route_breaks_ties_alike(scoring: Scoring, num_groups: int) -> None:
    torch.manual_seed(2)
    logits_TE = torch.randint(-1, 2, (8, 16)).float() * torch.tensor([1.0, -1.0]).repeat(
        8
    )  # has -0
    config = RouterConfig(
        top_k=5, scoring=scoring, num_groups=num_groups, topk_groups=max(num_groups // 2, 1)
    )
    _assert_routes_alike(logits_TE, config)


@pytest.mark.parametrize("biased", [False, True], ids=["", "bias"])
@pytest.mark.parametrize("num_groups", [1, 2], ids=["", "groups"])
@pytest.mark.parametrize("scoring", Scoring)
def test_route_takes_what_is_not_finite_alike(
    scoring: Scoring, num_groups: int, biased: bool
) -> None:
    nan, inf = torch.nan, torch.inf
    logits_TE = torch.tensor(
        [
            [nan, 1, 0, 2, nan, -1],
            [nan] * 6,
            [-inf] * 6,
            [0, inf, 1, -inf, 2, 3],
            [-inf, 0, -inf, -inf, -inf, -inf],
            [3e38, -3e38, 0, 1, -0.0, 2],
        ]
    )
    config = RouterConfig(
        top_k=3,
        scoring=scoring,
        num_groups=num_groups,
        topk_groups=1,
        group_score=GroupScore.TOP2_SUM,
    )
    bias_E = torch.tensor([0, nan, 0, 0.1, -inf, 0]) if biased else None
    _assert_routes_alike(logits_TE, config, bias_E)


def test_route_of_no_token() -> None:
    weights_TK, ids_TK = _launch_route(torch.zeros(0, 4), ROUTERS["sigmoid"][0], None)
    assert weights_TK.shape == ids_TK.shape == (0, 1)


def _random_ids(num_tokens: int, top_k: int, num_experts: int) -> Tensor:
    return torch.rand(num_tokens, num_experts).argsort(-1)[:, :top_k].int()


DISPATCHES: dict[str, tuple[Callable[[], Tensor], int, int, int, int]] = {
    # ids, number of experts, block_m, first local expert, local experts
    "several chunks": (lambda: _random_ids(45, 4, 12), 12, 8, 0, 12),
    "one chunk": (lambda: _random_ids(7, 3, 12), 12, 4, 0, 12),
    "blocks of one": (lambda: _random_ids(20, 3, 5), 5, 1, 0, 5),
    "one token": (lambda: _random_ids(1, 8, 24), 24, 16, 0, 24),
    "no token": (lambda: _random_ids(0, 3, 5), 5, 16, 0, 5),
    "one expert": (lambda: _random_ids(30, 1, 1), 1, 16, 0, 1),
    "every expert": (lambda: _random_ids(9, 6, 6), 6, 4, 0, 6),
    "all on one expert": (lambda: torch.full((40, 2), 3, dtype=torch.int32), 6, 16, 0, 6),
    "some experts without tokens": (lambda: _random_ids(30, 2, 3) * 3, 9, 4, 0, 9),
    "the first rank": (lambda: _random_ids(30, 4, 12), 12, 8, 0, 4),
    "the last rank": (lambda: _random_ids(30, 4, 12), 12, 8, 7, 5),
    "a rank without tokens": (lambda: _random_ids(30, 2, 5), 12, 8, 6, 6),
    "ids out of range": (lambda: _random_ids(30, 4, 12) * 3 - 9, 12, 8, 0, 12),
    "ids at the ends of int32": (
        lambda: torch.tensor([[-(2**31), 2**31 - 1, 0, 1]], dtype=torch.int32),
        2,
        1,
        1,
        1,
    ),
}


@pytest.mark.parametrize("case", DISPATCHES)
def test_dispatch(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "_CHUNK", 32)
    monkeypatch.setattr(routing, "_STEP", 8)
    monkeypatch.setattr(routing, "_SCAN_CHUNKS", 2)
    monkeypatch.setattr(routing, "_SCAN_EXPERTS", 4)
    make_ids, num_experts, block_m, first, num_local = DISPATCHES[case]
    torch.manual_seed(4)
    ids_TK = make_ids()
    weights_TK = torch.rand(ids_TK.shape)
    local = {"first_local_expert": first, "num_local_experts": num_local}
    plan = _launch_dispatch(ids_TK, weights_TK, block_m, **local)
    _assert_same_plan(plan, reference.dispatch(ids_TK, weights_TK, num_experts, block_m, **local))


def test_dispatch_in_the_chunks_of_a_gpu() -> None:
    torch.manual_seed(5)
    ids_TK, weights_TK = _random_ids(130, 4, 20), torch.rand(130, 4)
    plan = _launch_dispatch(ids_TK, weights_TK, 32, first_local_expert=0, num_local_experts=20)
    _assert_same_plan(plan, reference.dispatch(ids_TK, weights_TK, 20, 32))


def _assert_same_plan(plan: Dispatch, expected: Dispatch) -> None:
    for field in dataclasses.fields(Dispatch):
        value, asked = getattr(plan, field.name), getattr(expected, field.name)
        if isinstance(value, Tensor):
            torch.testing.assert_close(value, asked, rtol=0, atol=0, msg=field.name)
        else:
            assert value == asked


@pytest.fixture
def plan() -> Dispatch:
    """Of 11 tokens with 3 slots each, some of them with an expert elsewhere."""
    torch.manual_seed(6)
    return reference.dispatch(_random_ids(11, 3, 6), torch.rand(11, 3), 6, 8, num_local_experts=4)


@pytest.fixture(params=[5, 64, 70], ids="D={}".format)
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Less than a program's columns, just as many, and more."""
    monkeypatch.setattr(routing, "_block_d", lambda _num_columns: 64)  # pyright: ignore
    return request.param


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.uint8], ids=str)
def test_permute(plan: Dispatch, width: int, dtype: torch.dtype) -> None:
    x_TD = (torch.randn(11, width) * 50).abs().to(dtype)
    expected_PD = reference.permute(x_TD, plan)
    assert torch.equal(_launch_permute(x_TD, plan), expected_PD)


@pytest.mark.parametrize("weighted", [True, False], ids=["weighted", "unweighted"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("out_dtype", [torch.bfloat16, torch.float32], ids=str)
def test_combine(
    plan: Dispatch, width: int, dtype: torch.dtype, out_dtype: torch.dtype, weighted: bool
) -> None:
    y_PD = torch.randn(plan.num_rows, width).to(dtype)
    y_PD[plan.token_of_row < 0] = torch.nan
    out_TD = _launch_combine(y_PD, plan, weighted=weighted, out_dtype=out_dtype)
    # The same f32 products and sums in the same order, and one rounding: the interpreter fuses none.
    assert torch.equal(
        out_TD, reference.combine(y_PD, plan, weighted=weighted, out_dtype=out_dtype)
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_combine_backward(plan: Dispatch, width: int, dtype: torch.dtype) -> None:
    y_PD = torch.randn(plan.num_rows, width).to(dtype)
    y_PD[plan.token_of_row < 0] = torch.nan
    grad_TD = torch.randn(11, width).to(dtype)
    grad_y_PD, grad_weights_TK = _launch_combine_backward(grad_TD, y_PD, plan)
    expected_y_PD, expected_weights_TK = reference.combine_backward(grad_TD, y_PD, plan)
    assert torch.equal(grad_y_PD, expected_y_PD)
    # A sum of D products is off by D roundings of their magnitudes' sum at most, on either side.
    norms = grad_TD.float().norm(dim=-1).max() * y_PD.float().nan_to_num().norm(dim=-1).max()
    torch.testing.assert_close(
        grad_weights_TK, expected_weights_TK, rtol=0, atol=2 * width * 2**-24 * norms.item()
    )
    assert not grad_weights_TK[plan.row_of_slot < 0].any()


def test_without_rows_everything_is_empty_or_zero() -> None:
    plan = reference.dispatch(torch.zeros(0, 2, dtype=torch.int32), torch.zeros(0, 2), 4, 16)
    x_TD = torch.zeros(0, 8)
    assert _launch_permute(x_TD, plan).shape == (0, 8)
    assert _launch_combine(x_TD, plan, weighted=True, out_dtype=torch.float32).shape == (0, 8)
    grad_y_PD, grad_weights_TK = _launch_combine_backward(x_TD, x_TD, plan)
    assert grad_y_PD.shape == (0, 8)
    assert grad_weights_TK.shape == (0, 2)


def test_on_a_cpu_the_twins_run() -> None:
    config = RouterConfig(top_k=3, scoring=Scoring.SIGMOID)
    logits_TE = torch.randn(11, 6)
    weights_TK, ids_TK = routing.route(logits_TE, config)
    assert torch.equal(ids_TK, reference.route(logits_TE, config)[1])
    whole = routing.dispatch(ids_TK, weights_TK, 6, 8)
    _assert_same_plan(whole, reference.dispatch(ids_TK, weights_TK, 6, 8))
    ones_PD = routing.permute(torch.ones(11, 4), whole)
    sum_T = weights_TK[:, 0] + weights_TK[:, 1] + weights_TK[:, 2]
    assert torch.equal(routing.combine(ones_PD, whole), sum_T[:, None].expand(-1, 4))
    assert torch.equal(routing.combine(ones_PD, whole, weighted=False), torch.full((11, 4), 3.0))
    grad_y_PD, grad_weights_TK = routing.combine_backward(torch.ones(11, 4), ones_PD, whole)
    assert torch.equal(grad_y_PD[whole.row_of_slot.long()][..., 0], weights_TK)
    assert grad_weights_TK.eq(4).all()


def test_permute_of_mxfp8(plan: Dispatch) -> None:
    codes_TD = torch.randint(0, 256, (11, 64), dtype=torch.uint8)
    x_TD = MXFP8Tensor(
        codes=codes_TD.view(torch.float8_e4m3fn),
        scales=torch.randint(0, 256, (11, 2), dtype=torch.uint8),
    )
    x_PD = routing.permute(x_TD, plan)
    assert torch.equal(x_PD.codes.view(torch.uint8), reference.permute(codes_TD, plan))
    assert torch.equal(x_PD.scales, reference.permute(x_TD.scales, plan))


IDS_TK = torch.zeros(3, 2, dtype=torch.int32)
WEIGHTS_TK = torch.zeros(3, 2)
TOP2 = RouterConfig(top_k=2, scoring=Scoring.SIGMOID)
PLAN = reference.dispatch(IDS_TK, WEIGHTS_TK, 1, 8)  # 8 rows

REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "logits of one dimension": (
        lambda: routing.route(torch.zeros(4), TOP2),
        r"logits has shape \[4\]; \[T, E\]",
    ),
    "integer logits": (
        lambda: routing.route(torch.zeros(3, 4, dtype=torch.int32), TOP2),
        "logits has dtype torch.int32",
    ),
    "more chosen than there are": (
        lambda: routing.route(torch.zeros(3, 1), TOP2),
        "top_k is 2; the 1 kept groups of 1 hold 1 experts",
    ),
    "a bias of other experts": (
        lambda: routing.route(torch.zeros(3, 4), TOP2, bias_E=torch.zeros(3)),
        r"bias has shape \[3\]; \[4\]",
    ),
    "a bias elsewhere": (
        lambda: routing.route(torch.zeros(3, 4), TOP2, bias_E=torch.zeros(4, device="meta")),
        "logits on cpu, bias on meta",
    ),
    "ids of one dimension": (
        lambda: routing.dispatch(IDS_TK[0], WEIGHTS_TK[0], 4, 8),
        r"topk_expert_ids has shape \[2\]; \[T, K\]",
    ),
    "no slot": (
        lambda: routing.dispatch(IDS_TK[:, :0], WEIGHTS_TK[:, :0], 4, 8),
        r"topk_expert_ids has shape \[3, 0\]",
    ),
    "ids of 64 bits": (
        lambda: routing.dispatch(IDS_TK.long(), WEIGHTS_TK, 4, 8),
        "topk_expert_ids has dtype torch.int64; torch.int32",
    ),
    "weights of other slots": (
        lambda: routing.dispatch(IDS_TK, WEIGHTS_TK[:2], 4, 8),
        r"topk_weights has shape \[2, 2\]; \[3, 2\]",
    ),
    "weights in bf16": (
        lambda: routing.dispatch(IDS_TK, WEIGHTS_TK.bfloat16(), 4, 8),
        "topk_weights has dtype torch.bfloat16; torch.float32",
    ),
    "a block of 24 rows": (
        lambda: routing.dispatch(IDS_TK, WEIGHTS_TK, 4, 24),
        "block_m is 24; a power of two",
    ),
    "a block of no rows": (
        lambda: routing.dispatch(IDS_TK, WEIGHTS_TK, 4, 0),
        "block_m is 0; a power of two",
    ),
    "more local experts than experts": (
        lambda: routing.dispatch(
            IDS_TK, WEIGHTS_TK, 4, 8, first_local_expert=2, num_local_experts=3
        ),
        "3 local experts from 2 on are not among 4",
    ),
    "no local expert": (
        lambda: routing.dispatch(IDS_TK, WEIGHTS_TK, 4, 8, first_local_expert=4),
        "0 local experts from 4 on",
    ),
    "a first expert below zero": (
        lambda: routing.dispatch(IDS_TK, WEIGHTS_TK, 4, 8, first_local_expert=-1),
        "5 local experts from -1 on",
    ),
    "x of other tokens": (
        lambda: routing.permute(torch.zeros(4, 5), PLAN),
        r"x has shape \[4, 5\]; \[3, D\]",
    ),
    "y of other rows": (
        lambda: routing.combine(torch.zeros(9, 5), PLAN),
        r"y has shape \[9, 5\]; \[8, D\]",
    ),
    "y of integers": (
        lambda: routing.combine(torch.zeros(8, 5, dtype=torch.int32), PLAN),
        "y has dtype torch.int32",
    ),
    "an output of integers": (
        lambda: routing.combine(torch.zeros(8, 5), PLAN, out_dtype=torch.int32),
        "output has dtype torch.int32",
    ),
    "y elsewhere": (
        lambda: routing.combine(torch.zeros(8, 5, device="meta"), PLAN),
        "y on meta, dispatch on cpu",
    ),
    "a gradient of another width": (
        lambda: routing.combine_backward(torch.zeros(3, 4), torch.zeros(8, 5), PLAN),
        r"grad_out has shape \[3, 4\]; \[T, 5\]",
    ),
    "a choice of nothing": (
        lambda: RouterConfig(top_k=0, scoring=Scoring.SIGMOID),
        "top_k is 0",
    ),
    "more groups kept than there are": (
        lambda: RouterConfig(top_k=1, scoring=Scoring.SIGMOID, topk_groups=2),
        "topk_groups is 2; it must be from 1 to num_groups, 1",
    ),
    "groups of unequal size": (
        lambda: RouterConfig(top_k=1, scoring=Scoring.SIGMOID, num_groups=3).check_num_experts(8),
        "8 experts do not make 3 equal groups",
    ),
    "two best of one": (
        lambda: RouterConfig(
            top_k=1, scoring=Scoring.SIGMOID, num_groups=4, group_score=GroupScore.TOP2_SUM
        ).check_num_experts(4),
        "groups of 2 experts or more",
    ),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    act, message = REFUSED[case]
    with pytest.raises(KernelError, match=message):
        act()
