"""The experts' forward pass: against its twin, Hugging Face's modules, and kernel by kernel."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import GptOssConfig, Qwen3MoeConfig
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssExperts
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeExperts

from composer_kernels import (
    DtypeError,
    ExpertWeights,
    KernelError,
    MXFP8Tensor,
    ScaleRule,
    choose_block_m,
    expert_layer,
    from_gpt_oss,
    interleave_halves,
    quantize_experts,
    reference,
    run_experts,
)
from composer_kernels.formats import num_blocks
from composer_kernels.grouped_gemm import _launch
from composer_kernels.mxfp8 import _launch_quantize
from composer_kernels.routing import _launch_combine, _launch_dispatch
from composer_kernels.swiglu import GPT_OSS, SILU
from composer_kernels.target_info import INTERPRETER

from .grouped import SMALL, Draw, Operand, dequantize
from .inputs import assert_same_bits

T, K, E, D, F = 9, 2, 5, 64, 40


def _choices(draw: Draw, num_tokens: int = T) -> tuple[Tensor, Tensor]:
    """Ids and weights; two different experts a token."""
    scores = torch.rand(num_tokens, E, generator=draw.generator)
    weights, ids = scores.topk(K)
    return ids.int(), weights


def _real_weights(draw: Draw) -> ExpertWeights:
    return ExpertWeights(
        gate_up=(draw.normal(E, 2 * F, D) / D**0.5).bfloat16(),
        down=(draw.normal(E, D, F) / F**0.5).bfloat16(),
        gate_up_bias=draw.normal(E, 2 * F),
        down_bias=draw.normal(E, D),
    )


def _exact_weights(draw: Draw) -> ExpertWeights:
    """Gates that come to 0 or to 32 and more, where SwiGLU is exact in f32: see `_exact_x`."""
    gate = torch.zeros(E, F, D)
    gate[..., 0] = 32.0 * draw.integers(0, 1, E, F)
    up = torch.zeros(E, F, D)
    up[..., 1:5] = draw.integers(-1, 1, E, F, 4).float()
    bias = torch.stack((32.0 * draw.integers(0, 1, E, F), 1.0 * draw.integers(-9, 9, E, F)), 2)
    return ExpertWeights(
        gate_up=torch.stack((gate, up), 2).flatten(1, 2).bfloat16(),
        down=draw.integers(-1, 1, E, D, F).bfloat16(),
        gate_up_bias=bias.flatten(1, 2),
        down_bias=draw.integers(-9, 9, E, D).bfloat16(),
    )


def _in_mxfp4(weights: ExpertWeights) -> ExpertWeights:
    """Without loss for those of `_exact_weights`."""
    return replace(
        weights,
        gate_up=reference.mxfp4_quantize(dequantize(weights.gate_up)),
        down=reference.mxfp4_quantize(dequantize(weights.down)),
    )


def _exact_x(draw: Draw, num_tokens: int = T) -> Tensor:
    """Integers, the first of a row 1 or 2; others are no E4M3 numbers, nor are SwiGLU's outputs."""
    x = draw.integers(-21, 21, num_tokens, D)
    x[:, 0] = draw.integers(1, 2, num_tokens)
    return x.bfloat16()


FORMATS: dict[str, Callable[[ExpertWeights], ExpertWeights]] = {
    "bf16": lambda weights: weights,
    "mxfp8": quantize_experts,
    "mxfp4": _in_mxfp4,
}


@pytest.mark.parametrize("num_tokens", [0, 1, T])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("weights_format", FORMATS)
def test_through_the_permuted_buffer_and_without(
    weights_format: str, dtype: torch.dtype, num_tokens: int
):
    draw = Draw.seeded(0)
    weights = FORMATS[weights_format](_exact_weights(draw))
    x, (ids, topk_weights) = _exact_x(draw, num_tokens).to(dtype), _choices(draw, num_tokens)
    actual = expert_layer(x, ids, topk_weights, weights)
    assert_same_bits(actual, reference.expert_layer(x, ids, topk_weights, weights))


def test_quantized_activations():
    draw = Draw.seeded(1)
    weights = quantize_experts(_exact_weights(draw))
    x, (ids, topk_weights) = _exact_x(draw), _choices(draw)
    actual = expert_layer(x, ids, topk_weights, weights, quantize_activations=True)
    expected = reference.expert_layer(x, ids, topk_weights, weights, quantize_activations=True)
    assert_same_bits(actual, expected)
    assert not torch.equal(actual, expert_layer(x, ids, topk_weights, weights))


def _part(weights: ExpertWeights, first: int, last: int) -> ExpertWeights:
    names = ("gate_up", "down", "gate_up_bias", "down_bias")
    return replace(weights, **{name: getattr(weights, name)[first:last] for name in names})


def test_experts_of_two_devices_add_up():
    """Integers of few bits, and weights that are powers of two: sums are exact in any grouping."""
    draw = Draw.seeded(2)
    weights = _exact_weights(draw)
    x = _exact_x(draw).float()
    ids, _ = _choices(draw)
    topk_weights = torch.tensor([[0.5, 0.25]]).expand(T, K).contiguous()
    whole = expert_layer(x, ids, topk_weights, weights)
    halves = [
        expert_layer(
            x,
            ids,
            topk_weights,
            _part(weights, first, last),
            first_local_expert=first,
            num_experts=E,
        )
        for first, last in ((0, 2), (2, E))
    ]
    assert whole.count_nonzero() > 0
    assert_same_bits(halves[0] + halves[1], whole)


def _hugging_face_error(
    x: Tensor, ids: Tensor, topk_weights: Tensor, weights: ExpertWeights
) -> Tensor:
    """Bound of the f32 layer's error, from sums of absolute values `s` (Higham, section 3.1).

    Gate and up are off by gamma_D s; SwiGLU's slope in the gate is at most 1.1 |up|, in up at most
    |gate|, and it adds some 16 roundings (its exponent is at most 16 in size); the second product
    adds gamma_F, the weighted sum gamma_K.
    """
    absolute = torch.zeros(x.shape, dtype=torch.float64)
    for token in range(len(x)):
        for slot in range(ids.shape[1]):
            expert = int(ids[token, slot])
            s = weights.gate_up[expert].double().abs() @ x[token].double().abs()
            if weights.gate_up_bias is not None:
                s = s + weights.gate_up_bias[expert].double().abs()
            y = weights.down[expert].double().abs() @ (s[0::2] * (s[1::2] + 1))
            if weights.down_bias is not None:
                y = y + weights.down_bias[expert].double().abs()
            absolute[token] += topk_weights[token, slot].double() * y
    roundings = 2.2 * (D + 1) + 16 + (F + 1) + K
    return roundings * 2.0**-24 * absolute


def _qwen3() -> tuple[Any, ExpertWeights]:
    config = Qwen3MoeConfig(hidden_size=D, moe_intermediate_size=F, num_experts=E)
    module: Any = _filled(Qwen3MoeExperts(config))
    weights = ExpertWeights(
        gate_up=interleave_halves(module.gate_up_proj.detach()), down=module.down_proj.detach()
    )
    return module, weights


def _gpt_oss() -> tuple[Any, ExpertWeights]:
    config = GptOssConfig(hidden_size=D, intermediate_size=F, num_local_experts=E)
    module: Any = _filled(GptOssExperts(config))
    weights = ExpertWeights(
        gate_up=from_gpt_oss(module.gate_up_proj.detach()),
        down=from_gpt_oss(module.down_proj.detach()),
        gate_up_bias=module.gate_up_proj_bias.detach(),
        down_bias=module.down_proj_bias.detach(),
        activation=GPT_OSS,
    )
    return module, weights


def _filled(module: torch.nn.Module) -> torch.nn.Module:
    generator = torch.Generator().manual_seed(3)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.4, generator=generator)
    return module


@pytest.mark.parametrize("build", [_qwen3, _gpt_oss], ids=["qwen3", "gpt-oss"])
def test_hugging_face_modules(build: Any):
    """Theirs in f64 against ours in f32. Gates pass gpt-oss's limit."""
    module, weights = build()
    draw = Draw.seeded(4)
    x, (ids, topk_weights) = 2 * draw.normal(T, D), _choices(draw)
    with torch.no_grad():
        expected = module.double()(x.double(), ids.long(), topk_weights.double())
    actual = expert_layer(x, ids, topk_weights, weights)
    error = (actual.double() - expected).abs()
    assert bool((error <= _hugging_face_error(x, ids, topk_weights, weights)).all())


def _gemm_by_kernel(
    x: Operand, w: Operand, plan: Any, out: Tensor | MXFP8Tensor, **options: Any
) -> None:
    _launch(x, w, plan, out=out, tiles=SMALL, target=INTERPRETER, num_programs=3, **options)


@pytest.mark.parametrize("quantize_activations", [False, True], ids=["bf16", "mxfp8"])
def test_every_step_by_kernel(quantize_activations: bool):
    """The layer's launches under the interpreter; exact sums, so bit for bit."""
    draw = Draw.seeded(5)
    weights = quantize_experts(_exact_weights(draw))
    x, (ids, topk_weights) = _exact_x(draw), _choices(draw)
    plan = _launch_dispatch(ids, topk_weights, 16, first_local_expert=0, num_local_experts=E)
    hidden: Tensor | MXFP8Tensor = torch.full((plan.num_rows, F), torch.nan).bfloat16()
    x_operand: Operand = x
    if quantize_activations:
        x_operand, _ = _launch_quantize(x, rule=ScaleRule.CEIL, columns=False, target=INTERPRETER)
        scales = torch.full((plan.num_rows, num_blocks(F)), 255, dtype=torch.uint8)
        hidden = MXFP8Tensor(hidden.to(torch.float8_e4m3fn), scales)
    _gemm_by_kernel(
        x_operand,
        weights.gate_up,
        plan,
        hidden,
        bias_EN=weights.gate_up_bias,
        activation=SILU,
        gather=True,
    )
    y = torch.full((plan.num_rows, D), torch.nan).bfloat16()
    _gemm_by_kernel(hidden, weights.down, plan, y, bias_EN=weights.down_bias)
    actual = _launch_combine(y, plan, weighted=True, out_dtype=torch.bfloat16)

    expected = reference.expert_layer(
        x, ids, topk_weights, weights, quantize_activations=quantize_activations
    )
    assert_same_bits(actual, expected)


def test_quantized_weights_are_what_is_multiplied():
    draw = Draw.seeded(6)
    weights = quantize_experts(_real_weights(draw))
    plain = replace(weights, gate_up=dequantize(weights.gate_up), down=dequantize(weights.down))
    x, (ids, topk_weights) = draw.normal(T, D), _choices(draw)
    assert_same_bits(
        expert_layer(x, ids, topk_weights, weights), expert_layer(x, ids, topk_weights, plain)
    )


def test_blocks_on_the_cpu():
    assert choose_block_m(_real_weights(Draw.seeded(0)), 4096, 8) == 16


@pytest.mark.usefixtures("unchecked")
def test_errors():
    draw = Draw.seeded(7)
    weights = _real_weights(draw)
    ids, topk_weights = _choices(draw)
    plan = reference.dispatch(ids, topk_weights, E, 16)
    with pytest.raises(DtypeError, match="x has dtype torch.float16"):
        run_experts(torch.zeros(T, D).half(), plan, weights)
    with pytest.raises(KernelError, match=r"x has shape \[9, 65\]; \[9, 64\], tokens by K"):
        run_experts(torch.zeros(T, D + 1), plan, weights)
    with pytest.raises(KernelError, match="x is in MXFP8 and w is not"):
        run_experts(torch.zeros(T, D), plan, weights, quantize_activations=True)
    with pytest.raises(KernelError, match=r"topk_expert_ids has shape \[9\]; \[T, K\]"):
        expert_layer(torch.zeros(T, D), ids[:, 0], topk_weights[:, 0], weights)


def test_autocast_does_not_round_what_the_twin_multiplies():
    """On a GPU there is nothing for it to round: the kernel reads what it is given."""
    draw = Draw.seeded(8)
    x, weights, (ids, topk_weights) = draw.normal(T, D), _real_weights(draw), _choices(draw)
    expected = expert_layer(x, ids, topk_weights, weights)
    expected_twin = reference.expert_layer(x, ids, topk_weights, weights)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_same_bits(expert_layer(x, ids, topk_weights, weights), expected)
        assert_same_bits(reference.expert_layer(x, ids, topk_weights, weights), expected_twin)
