"""The example: a Hugging Face model with our experts in it."""

import pytest
import torch
from torch import Tensor

from composer_kernels import interleave_halves
from examples import huggingface
from examples.huggingface import logits_of, relative_errors, replace_experts, tiny_model

TOKENS = torch.arange(48)[None]
F32 = 1e-5
"""Two layers in f32, whose sums of up to 96 numbers run in another order."""


@pytest.fixture(scope="module")
def expected() -> Tensor:
    return logits_of(tiny_model(), TOKENS)


def test_the_same_logits(expected: Tensor):
    model = tiny_model()
    assert replace_experts(model, quantize=False) == 2
    assert float(relative_errors(logits_of(model, TOKENS), expected).max()) < F32


def test_mxfp8_is_near(expected: Tensor):
    """Weights off by up to 1/16, whose errors average out; but a few tokens choose other experts."""
    model = tiny_model()
    replace_experts(model, quantize=True)
    assert F32 < float(relative_errors(logits_of(model, TOKENS), expected).median()) < 1 / 16


def test_experts_that_are_wrong_show(expected: Tensor, monkeypatch: pytest.MonkeyPatch):
    """Up where gate belongs."""
    monkeypatch.setattr(
        huggingface, "interleave_halves", lambda weight: interleave_halves(weight.roll(1, 1))
    )
    model = tiny_model()
    replace_experts(model, quantize=False)
    assert float(relative_errors(logits_of(model, TOKENS), expected).median()) > 1 / 16


def test_another_activation_is_refused():
    model = tiny_model()
    model.model.layers[0].mlp.experts.act_fn = torch.nn.GELU()
    with pytest.raises(ValueError, match="Qwen3MoeExperts's activation is not SiLU"):
        replace_experts(model, quantize=False)
