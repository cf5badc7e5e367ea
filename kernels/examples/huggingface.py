"""Put our experts into a Hugging Face mixture-of-experts model: the same logits, or smaller weights.

    cd kernels && python -m examples.huggingface

builds a tiny Qwen3-MoE model with random weights (nothing is downloaded), replaces the experts of
each of its layers, first by ours in f32 and then in MXFP8, and compares the logits. Router and
attention stay Hugging Face's; in MXFP8 a token whose router was close to undecided may come to
other experts in the next layer, and then errs by more than the rest.

Mixtral, OLMoE and GLM-4 MoE call their experts in the same way, so `replace_experts` serves them
too; gpt-oss stores its weights the other way round, see
`composer_kernels.from_gpt_oss`.
"""

from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from composer_kernels import ExpertWeights, expert_layer, interleave_halves, quantize_experts


class Experts(nn.Module):
    """Stands for transformers' module of experts, and is called as that is."""

    def __init__(self, weights: ExpertWeights) -> None:
        super().__init__()
        self.weights = weights

    def forward(self, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
        """Tokens `[T, D]`, ids and weights `[T, K]` to `[T, D]`."""
        return expert_layer(hidden_states, top_k_index.int(), top_k_weights.float(), self.weights)


def replace_experts(model: nn.Module, *, quantize: bool) -> int:
    """Replace every module of experts in place, and say how many there were.

    `quantize`: to MXFP8; otherwise weights keep their dtype. One has `gate_up_proj` `[E, 2 F, D]`,
    gate first, and `down_proj` `[E, D, F]`. Raises `ValueError` where the activation is not SiLU.
    """
    num_replaced = 0
    for module in list(model.modules()):
        experts: Any = getattr(module, "experts", None)
        if experts is None or not hasattr(experts, "gate_up_proj"):
            continue
        probe = torch.linspace(-4.0, 4.0, 17)
        if not torch.allclose(experts.act_fn(probe), functional.silu(probe)):
            raise ValueError(f"{type(experts).__name__}'s activation is not SiLU, as ours is")
        weights = ExpertWeights(
            gate_up=interleave_halves(experts.gate_up_proj.detach()),
            down=experts.down_proj.detach(),
        )
        holder: Any = module
        holder.experts = Experts(quantize_experts(weights) if quantize else weights)
        num_replaced += 1
    return num_replaced


def tiny_model() -> Any:
    """Two layers of eight experts, random weights, f32."""
    transformers: Any = import_module("transformers")
    config = transformers.Qwen3MoeConfig(
        vocab_size=256,
        hidden_size=64,
        intermediate_size=128,
        moe_intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        num_experts=8,
        num_experts_per_tok=2,
        norm_topk_prob=True,
    )
    model = transformers.Qwen3MoeForCausalLM(config).eval()
    generator = torch.Generator().manual_seed(0)
    matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    for parameter in matrices:
        nn.init.normal_(parameter, std=parameter.shape[-1] ** -0.5, generator=generator)
    return model


def logits_of(model: Any, tokens: Tensor) -> Tensor:
    with torch.no_grad():
        return model(tokens).logits


def relative_errors(actual: Tensor, expected: Tensor) -> Tensor:
    """Of each token's logits: root mean square of the difference over that of the expected."""
    squares = (actual - expected).square().sum(-1) / expected.square().sum(-1)
    return squares.sqrt().flatten()


def main() -> None:
    tokens = torch.arange(48)[None]
    expected = logits_of(tiny_model(), tokens)
    for quantize in (False, True):
        model = tiny_model()
        num_replaced = replace_experts(model, quantize=quantize)
        errors = relative_errors(logits_of(model, tokens), expected)
        name = "MXFP8" if quantize else "f32"
        print(
            f"{num_replaced} layers' experts in {name}: logits off by "
            f"{float(errors.median()):.1e}, at most {float(errors.max()):.1e}"
        )


if __name__ == "__main__":
    main()
