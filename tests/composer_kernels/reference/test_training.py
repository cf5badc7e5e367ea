"""The twins of training: by hand, against autograd in f64, and against finite differences."""

import pytest
import torch

from composer_kernels import BF16_RECIPE, GPT_OSS, MXFP8_RECIPE, SILU, Recipe, SwiGLU, reference
from composer_kernels.formats import BLOCK

from ..expert_training import gradients, lossless_case, plain_gradients, real_case, to_multiples
from ..grouped import Draw, dequantize, spread


def test_wgrad_by_hand():
    """Tokens 0 and 2 choose expert 1, token 1 expert 2, nobody expert 0."""
    ids = torch.tensor([[1], [2], [1]], dtype=torch.int32)
    dispatch = reference.dispatch(ids, torch.ones(3, 1), 3, 2)
    x = reference.permute(torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), dispatch)
    grad = reference.permute(torch.tensor([[1.0], [10.0], [100.0]]), dispatch)
    assert reference.grouped_wgrad(grad.mT, x.mT, dispatch).tolist() == [
        [[0, 0]],
        [[501, 602]],
        [[30, 40]],
    ]
    assert reference.sum_by_expert(x, dispatch).tolist() == [[0, 0], [6, 8], [3, 4]]


def test_wgrad_is_the_sum_of_outer_products():
    draw = Draw.seeded(0)
    dispatch = spread([3, 0, 40], block_m=BLOCK)
    grad = reference.mxfp8_quantize(reference.permute(draw.normal(43, 20), dispatch).mT)
    x = reference.mxfp8_quantize(reference.permute(draw.normal(43, 70), dispatch).mT)
    expected = torch.zeros(3, 20, 70, dtype=torch.float64)
    for row in torch.where(dispatch.token_of_row >= 0)[0].tolist():
        expert = int(dispatch.expert_of_block[row // dispatch.block_m])
        outer = torch.outer(dequantize(grad)[:, row].double(), dequantize(x)[:, row].double())
        expected[expert] += outer
    actual = reference.grouped_wgrad(grad, x, dispatch)
    # f32 sums of at most 40 products: 41 roundings, each of at most half a last place.
    absolute = 40 * dequantize(grad).abs().max() * dequantize(x).abs().max()
    assert bool(((actual - expected).abs() <= 41 * 2.0**-24 * absolute).all())
    assert actual[1].count_nonzero() == 0


@pytest.mark.parametrize("activation", [SILU, GPT_OSS], ids=["silu", "clamped"])
def test_swiglu_backward_is_autograd_s(activation: SwiGLU):
    draw = Draw.seeded(1)
    gate_up = 5 * draw.normal(50, 40)
    gate_up[0] = torch.tensor([7.0, -7.0]).repeat(20)  # The limits themselves.
    gate_up[1] = 0.0
    grad = draw.normal(50, 20)
    leaf = gate_up.double().requires_grad_()
    (expected,) = torch.autograd.grad(reference.swiglu(leaf, activation), leaf, grad.double())
    actual = reference.swiglu_backward(grad, gate_up, activation)
    # A dozen roundings of each factor; the sigmoid's relative error is that of its exponential, and
    # 1 + alpha g (1 - s) sums terms of up to |alpha g|.
    gate, up = gate_up[:, 0::2].abs(), gate_up[:, 1::2].abs() + activation.up_offset
    size = (1 + activation.alpha * gate) * grad.abs() * (gate + up + 1)
    bound = 16 * 2.0**-24 * (1 + activation.alpha * gate) * size
    assert bool(((actual - expected).abs() <= bound.repeat_interleave(2, 1)).all())


@pytest.mark.parametrize("recipe", [BF16_RECIPE, MXFP8_RECIPE], ids=["bf16", "mxfp8"])
def test_lossless_layer_has_autograd_s_gradients(recipe: Recipe):
    """Exactly: all numbers are multiples of 2^-10, to which f64's own small errors are rounded."""
    draw = Draw.seeded(2)
    ids = torch.tensor([[0, 2], [2, 3], [3, 0], [7, 2], [3, 9]])
    case = lossless_case(draw, ids, E=4, D=40, F=36)

    def layer(*arguments: object) -> torch.Tensor:
        return reference.expert_layer_with_grad(*arguments, recipe=recipe)

    expected = plain_gradients(case)
    for name, actual in gradients(layer, case).items():
        assert torch.equal(actual, to_multiples(expected[name])), name
        assert actual.count_nonzero() > 0, name


@pytest.mark.parametrize("activation", [SILU, GPT_OSS], ids=["silu", "clamped"])
def test_real_layer_has_autograd_s_gradients(activation: SwiGLU):
    draw = Draw.seeded(3)
    case = real_case(draw, T=9, K=2, E=4, D=40, F=36, activation=activation)

    def layer(*arguments: object) -> torch.Tensor:
        return reference.expert_layer_with_grad(*arguments, recipe=BF16_RECIPE)

    expected = plain_gradients(case)
    for name, actual in gradients(layer, case).items():
        # Sums of up to 72 terms in f32, two of them one after the other, and SwiGLU between: some
        # 200 roundings, against the largest gradient because terms cancel.
        bound = 200 * 2.0**-24 * expected[name].abs().max()
        assert bool(((actual - expected[name]).abs() <= bound).all()), name
