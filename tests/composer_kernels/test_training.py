"""The experts' layer for training: its gradients where quantisation loses nothing, its products where
it does, finite differences, and every step by kernel."""

from dataclasses import replace
from importlib import import_module
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from composer_kernels import (
    BF16_RECIPE,
    BLOCK,
    GPT_OSS,
    MXFP8_RECIPE,
    SILU,
    ExpertWeights,
    KernelError,
    Recipe,
    RouterConfig,
    ScaleRule,
    Scoring,
    SwiGLU,
    expert_layer,
    expert_layer_with_grad,
    quantize_experts,
    reference,
    run_experts_with_grad,
)
from composer_kernels.routes import Dispatch
from composer_kernels.routing import (
    _launch_combine,
    _launch_combine_backward,
    _launch_dispatch,
    _launch_permute,
)
from composer_kernels.target_info import INTERPRETER

from .expert_training import (
    Case,
    gradients,
    lossless_case,
    plain_gradients,
    plain_layer,
    real_case,
    to_multiples,
)
from .grouped import Draw, assert_within, spread

training: Any = import_module("composer_kernels.training")

E, D, F = 4, 40, 36
MIXED_IDS = [[0, 2], [2, 3], [3, 0], [7, 2], [3, 9]]
"""Expert 1 has no token, and two choices lie outside the four experts."""

RECIPES = {
    "".join(name if on else "-" for name, on in zip("fdw", flags, strict=True)): Recipe(
        forward=flags[0], dgrad=flags[1], wgrad=flags[2]
    )
    for flags in product((False, True), repeat=3)
}
"""All of forward, dgrad and wgrad in MXFP8 or not."""
recipes = pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)


def layer_of(recipe: Recipe) -> Any:
    def layer(x: Tensor, ids: Tensor, topk_weights: Tensor, weights: ExpertWeights) -> Tensor:
        return expert_layer_with_grad(x, ids, topk_weights, weights, recipe=recipe)

    return layer


def assert_exact(case: Case, actual: dict[str, Tensor]) -> None:
    expected = plain_gradients(case)
    assert actual.keys() == expected.keys()
    for name in actual:
        torch.testing.assert_close(
            actual[name].float(), to_multiples(expected[name]), rtol=0, atol=0, msg=name
        )


@recipes
def test_lossless_gradients(recipe: Recipe):
    case = lossless_case(Draw.seeded(0), torch.tensor(MIXED_IDS), E=E, D=D, F=F)
    actual = gradients(layer_of(recipe), case)
    assert_exact(case, actual)
    for name in ("gate_up", "down", "gate_up_bias", "down_bias"):
        assert actual[name][1].count_nonzero() == 0, name
        assert actual[name][2].count_nonzero() > 0, name
    assert actual["topk_weights"][4, 1] == 0


@pytest.mark.parametrize(
    "ids",
    [
        pytest.param(torch.zeros(0, 2), id="no token"),
        pytest.param(torch.tensor([[1, 3]]), id="one token"),
        pytest.param(torch.full((70, 1), 2), id="all on one expert"),
        pytest.param(torch.full((3, 2), 9), id="no local expert"),
        pytest.param(torch.arange(64)[:, None] // 16, id="half blocks"),
    ],
)
@pytest.mark.parametrize("biased", [True, False], ids=["biased", "unbiased"])
def test_spread_over_experts(ids: Tensor, biased: bool):
    case = lossless_case(Draw.seeded(1), ids, E=E, D=D, F=F, biased=biased)
    assert_exact(case, gradients(layer_of(MXFP8_RECIPE), case))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("weight_dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("recipe", [BF16_RECIPE, MXFP8_RECIPE], ids=["bf16", "mxfp8"])
def test_dtypes(dtype: torch.dtype, weight_dtype: torch.dtype, recipe: Recipe):
    """Gradients have the dtypes of what they belong to, and bf16 is rounded once: from exact sums."""
    case = lossless_case(Draw.seeded(2), torch.tensor(MIXED_IDS), E=E, D=D, F=F)
    case = case.to(dtype, weight_dtype)
    actual, expected = gradients(layer_of(recipe), case), plain_gradients(case)
    for name in ("gate_up", "down", "gate_up_bias", "down_bias"):
        rounded = to_multiples(expected[name]).to(weight_dtype)
        torch.testing.assert_close(actual[name], rounded, rtol=0, atol=0, msg=name)
    assert actual["topk_weights"].dtype == torch.float32
    # Here a token's two rows are rounded before they are added.
    assert actual["x"].dtype == actual["y"].dtype == dtype
    absolute = {torch.bfloat16: 3 * 2.0**-9, torch.float32: 0.0}[dtype]
    for name in ("x", "y"):
        bound = absolute * 2 * expected[name].abs().max()
        assert_within(actual[name], expected[name], torch.full_like(expected[name], bound + 1e-9))


def test_products_quantise_both_operands_along_what_they_contract():
    """One linear map of real operands, against f64 products of what the definition quantises."""
    draw = Draw.seeded(3)
    plan = spread([37, 0, 70], block_m=BLOCK)
    x = reference.permute(draw.normal(107, 70), plan)
    grad = reference.permute(draw.normal(107, 50), plan)
    w, bias = draw.normal(3, 50, 70), draw.normal(3, 50)
    for recipe in [*RECIPES.values(), replace(MXFP8_RECIPE, rule=ScaleRule.FLOOR)]:
        y, kept = training._linear(x, w, bias, plan, recipe, dgrad=True, wgrad=True)
        grad_x, grad_w = training._linear_backward(
            grad, kept, plan, recipe, weight_dtype=torch.float32
        )
        for expert, rows in ((0, slice(0, 37)), (2, slice(64, 134))):
            products = {
                "y": (y[rows] - bias[expert], x[rows], w[expert], recipe.forward),
                "dgrad": (grad_x[rows], grad[rows], w[expert].mT, recipe.dgrad),
                "wgrad": (grad_w[expert], grad[rows].mT, x[rows].mT, recipe.wgrad),
            }
            for name, (actual, a, b, quantized) in products.items():
                if quantized:
                    a, b = (_through_mxfp8(operand, recipe.rule) for operand in (a, b))
                expected = a.double() @ b.double().mT
                # gamma_n of an f32 sum of n - 2 terms, and the bias added and subtracted.
                absolute = a.double().abs() @ b.double().abs().mT + 6 * bias.abs().max()
                bound = (a.shape[1] + 2) * 2.0**-24 * absolute
                assert bool(((actual - expected).abs() <= bound).all()), (name, recipe)
        assert grad_w[1].count_nonzero() == 0


def _through_mxfp8(values: Tensor, rule: ScaleRule) -> Tensor:
    return reference.mxfp8_dequantize(reference.mxfp8_quantize(values, rule=rule))


@pytest.mark.parametrize("activation", [SILU, GPT_OSS], ids=["silu", "clamped"])
@pytest.mark.parametrize("top_k", [1, 3])
def test_finite_differences(activation: SwiGLU, top_k: int):
    """Without quantisation: the slope of plain PyTorch's layer in f64 along random directions."""
    draw = Draw.seeded(4)
    case = real_case(draw, T=9, K=top_k, E=E, D=D, F=F, activation=activation)
    found = gradients(layer_of(BF16_RECIPE), case)
    at = {"x": case.x, "topk_weights": case.topk_weights}
    names = ("gate_up", "down", "gate_up_bias", "down_bias")
    at |= {name: getattr(case.weights, name) for name in names}

    def loss(point: dict[str, Tensor]) -> float:
        weights = replace(case.weights, **{name: point[name] for name in names})
        y = plain_layer(point["x"], case.ids, point["topk_weights"], weights)
        return float((y * case.grad.double()).sum())

    for name, start in at.items():
        direction = draw.normal(*start.shape).double()
        ends = [loss({**at, name: start.double() + step * direction}) for step in (1e-6, -1e-6)]
        slope = (ends[0] - ends[1]) / 2e-6
        terms = found[name].double() * direction
        # Gradients in f32 are right to some 200 roundings of the largest, whose errors are independent
        # enough to be added here as they come; differences of f64 are right to 1e-9 of the loss.
        bound = 200 * 2.0**-24 * float(found[name].abs().max() * direction.abs().sum())
        assert abs(float(terms.sum()) - slope) <= bound + 1e-7 * abs(slope), name


@pytest.mark.parametrize("recipe", [BF16_RECIPE, MXFP8_RECIPE], ids=["bf16", "mxfp8"])
def test_forward_is_that_of_inference(recipe: Recipe):
    """In f32, where rounding gate and up before SwiGLU changes nothing."""
    case = lossless_case(Draw.seeded(5), torch.tensor(MIXED_IDS), E=E, D=D, F=F)
    arguments = (case.x, case.ids, case.topk_weights)
    y = expert_layer_with_grad(*arguments, case.weights, recipe=recipe)
    weights = quantize_experts(case.weights) if recipe.forward else case.weights
    assert torch.equal(y, expert_layer(*arguments, weights, quantize_activations=recipe.forward))
    assert torch.equal(y, reference.expert_layer_with_grad(*arguments, case.weights, recipe=recipe))


def test_only_what_is_needed_is_kept():
    """Frozen experts keep no tokens for wgrad; a frozen input no weights for its dgrad."""
    case = real_case(Draw.seeded(6), T=20, K=2, E=E, D=D, F=F)

    def kept_shapes(**needs: bool) -> set[tuple[int, ...]]:
        x = case.x.clone().requires_grad_(needs["x"])
        gate_up = case.weights.gate_up
        assert isinstance(gate_up, Tensor)
        gate_up = gate_up.clone().requires_grad_(needs["gate_up"])
        weights = replace(case.weights, gate_up=gate_up)
        shapes: set[tuple[int, ...]] = set()

        def pack(tensor: Tensor) -> Tensor:
            if tensor.dtype == torch.float8_e4m3fn:
                shapes.add(tuple(tensor.shape))
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            expert_layer_with_grad(x, case.ids, case.topk_weights, weights)
        return shapes

    plan = reference.dispatch(case.ids, case.topk_weights, E, BLOCK)
    tokens, gate_up, down = (D, plan.num_rows), (E, D, 2 * F), (E, F, D)
    assert kept_shapes(x=True, gate_up=True) == {tokens, gate_up, down}
    assert kept_shapes(x=True, gate_up=False) == {gate_up, down}
    assert kept_shapes(x=False, gate_up=True) == {tokens, down}
    assert kept_shapes(x=False, gate_up=False) == set()


@pytest.mark.parametrize(
    "wanted",
    [["x"], ["topk_weights"], ["down"], ["down_bias"], ["gate_up_bias"], ["x", "gate_up"]],
    ids="+".join,
)
def test_each_gradient_alone(wanted: list[str]):
    case = lossless_case(Draw.seeded(7), torch.tensor(MIXED_IDS), E=E, D=D, F=F)
    leaves: dict[str, Any] = {"x": case.x, "topk_weights": case.topk_weights}
    names = ("gate_up", "down", "gate_up_bias", "down_bias")
    leaves |= {name: getattr(case.weights, name) for name in names}
    leaves = {name: leaf.clone().requires_grad_(name in wanted) for name, leaf in leaves.items()}
    weights = replace(case.weights, **{name: leaves[name] for name in names})
    y = expert_layer_with_grad(leaves["x"], case.ids, leaves["topk_weights"], weights)
    y.backward(case.grad)
    expected = plain_gradients(case)
    for name, leaf in leaves.items():
        if name in wanted:
            assert torch.equal(leaf.grad, to_multiples(expected[name])), name
        else:
            assert leaf.grad is None, name


def test_gradients_reach_the_router():
    """Through `route` and the dispatch: those of plain PyTorch."""
    draw = Draw.seeded(8)
    case = real_case(draw, T=9, K=2, E=E, D=D, F=F)
    logits = draw.normal(9, E)
    config = RouterConfig(top_k=2, scoring=Scoring.SOFTMAX)

    def router_grad(layer: Any, dtype: torch.dtype) -> Tensor:
        leaf = logits.clone().requires_grad_()
        weights, ids = reference.route(leaf, config)
        y = layer(case.x.to(dtype), ids, weights.to(dtype), case.weights)
        (grad,) = torch.autograd.grad(y, leaf, case.grad.to(dtype))
        return grad

    actual = router_grad(layer_of(BF16_RECIPE), torch.float32)
    expected = router_grad(plain_layer, torch.float64)
    bound = torch.full_like(expected, 200 * 2.0**-24 * float(expected.abs().max()) * 4)
    assert_within(actual, expected, bound)


def test_differentiable_once():
    case = lossless_case(Draw.seeded(9), torch.tensor(MIXED_IDS), E=E, D=D, F=F)
    x = case.x.requires_grad_()
    y = layer_of(MXFP8_RECIPE)(x, case.ids, case.topk_weights, case.weights)
    (grad,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        grad.sum().backward()


@pytest.fixture
def by_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The layer's path on a GPU, with the interpreter in the place of an A100."""
    target = replace(INTERPRETER, capability=80)
    for name in ("mxfp8", "grouped_gemm", "grouped_wgrad", "activation", "experts"):
        module = import_module(f"composer_kernels.{name}")
        monkeypatch.setattr(module, "target_of", lambda _: target)
        if hasattr(module, "num_multiprocessors"):
            monkeypatch.setattr(module, "num_multiprocessors", lambda _: 2)

    def dispatch(ids: Tensor, weights: Tensor, num_experts: int, block_m: int, **local: int) -> Any:
        return _launch_dispatch(ids, weights, block_m, **local)

    def combine(y: Tensor, plan: Dispatch, *, weighted: bool = True) -> Tensor:
        return _launch_combine(y, plan, weighted=weighted, out_dtype=y.dtype)

    monkeypatch.setattr(training, "dispatch", dispatch)
    monkeypatch.setattr(training, "combine", combine)
    monkeypatch.setattr(training, "permute", _launch_permute)
    monkeypatch.setattr(training, "combine_backward", _launch_combine_backward)


@pytest.mark.usefixtures("by_kernel")
@pytest.mark.parametrize("recipe", [BF16_RECIPE, MXFP8_RECIPE], ids=["bf16", "mxfp8"])
@pytest.mark.parametrize("ids", [MIXED_IDS, [[9, 9]]], ids=["mixed", "no local expert"])
def test_every_step_by_kernel(recipe: Recipe, ids: list[list[int]]):
    """f32 stands for bf16, which would round what is exact."""
    case = lossless_case(Draw.seeded(10), torch.tensor(ids), E=E, D=D, F=F)
    assert_exact(case, gradients(layer_of(recipe), case))


@pytest.mark.usefixtures("by_kernel")
def test_every_step_by_kernel_in_bf16():
    """What is rounded is exact before, so the twin rounds to the same bits."""
    case = lossless_case(Draw.seeded(12), torch.tensor(MIXED_IDS), E=E, D=D, F=F)
    case = case.to(torch.bfloat16, torch.bfloat16)

    def twin(x: Tensor, ids: Tensor, topk_weights: Tensor, weights: ExpertWeights) -> Tensor:
        return reference.expert_layer_with_grad(x, ids, topk_weights, weights, recipe=MXFP8_RECIPE)

    actual, expected = gradients(layer_of(MXFP8_RECIPE), case), gradients(twin, case)
    for name in actual:
        torch.testing.assert_close(actual[name], expected[name], rtol=0, atol=0, msg=name)


@pytest.mark.usefixtures("unchecked")
def test_errors():
    case = real_case(Draw.seeded(11), T=9, K=2, E=E, D=D, F=F)
    plan = reference.dispatch(case.ids, case.topk_weights, E, BLOCK)
    with pytest.raises(KernelError, match="gate_up is quantised; training takes weights in bf16"):
        run_experts_with_grad(case.x, plan, quantize_experts(case.weights))
    with pytest.raises(KernelError, match="x has dtype torch.float16"):
        run_experts_with_grad(case.x.half(), plan, case.weights)
    with pytest.raises(KernelError, match=r"x has shape \[8, 40\]; \[9, D\]"):
        run_experts_with_grad(case.x[1:], plan, case.weights)
    small = reference.dispatch(case.ids, case.topk_weights, E, 16)
    with pytest.raises(KernelError, match="block_m is 16; a multiple of 32 is asked for"):
        run_experts_with_grad(case.x, small, case.weights)
    half = case.to(torch.float32, torch.float16)
    with pytest.raises(KernelError, match="gate_up has dtype torch.float16"):
        run_experts_with_grad(case.x, plan, half.weights)
    with pytest.raises(KernelError, match=r"topk_expert_ids has shape \[9\]; \[T, K\]"):
        expert_layer_with_grad(case.x, case.ids[:, 0], case.topk_weights[:, 0], case.weights)


def test_weights_of_combine_changed_before_the_backward_pass_are_told():
    case = real_case(Draw.seeded(13), T=9, K=2, E=E, D=D, F=F)
    scores = case.topk_weights.clone().requires_grad_()
    y = expert_layer_with_grad(case.x.clone().requires_grad_(), case.ids, scores, case.weights)
    with torch.no_grad():
        scores.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("recipe", [BF16_RECIPE, MXFP8_RECIPE], ids=["bf16", "mxfp8"])
def test_autocast_changes_no_gradient(recipe: Recipe):
    case = real_case(Draw.seeded(14), T=9, K=2, E=E, D=D, F=F)
    expected = gradients(layer_of(recipe), case)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        actual = gradients(layer_of(recipe), case)
    for name in expected:
        torch.testing.assert_close(actual[name], expected[name], rtol=0, atol=0, msg=name)
