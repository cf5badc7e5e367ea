"""Layers to differentiate, and their gradients by autograd through plain PyTorch in f64."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from composer_kernels import SILU, ExpertWeights, SwiGLU

from .grouped import Draw

Layer = Callable[..., Tensor]
"""`(x, topk_expert_ids, topk_weights, weights) -> y`."""


@dataclass(frozen=True)
class Case:
    """One layer, its input and the gradient of its output."""

    x: Tensor
    ids: Tensor
    topk_weights: Tensor
    weights: ExpertWeights
    grad: Tensor

    def to(self, dtype: torch.dtype, weight_dtype: torch.dtype) -> "Case":
        """x, its gradient and the experts in other dtypes."""
        names = ("gate_up", "down", "gate_up_bias", "down_bias")
        weights = {name: getattr(self.weights, name) for name in names}
        weights = {name: None if w is None else w.to(weight_dtype) for name, w in weights.items()}
        return replace(
            self,
            x=self.x.to(dtype),
            grad=self.grad.to(dtype),
            weights=replace(self.weights, **weights),
        )


def gradients(layer: Layer, case: Case) -> dict[str, Tensor]:
    """The output and the gradients in all that the layer takes, by name."""
    names = ("gate_up", "down", "gate_up_bias", "down_bias")
    leaves: dict[str, Any] = {"x": case.x, "topk_weights": case.topk_weights}
    leaves |= {name: getattr(case.weights, name) for name in names}
    leaves = {
        name: leaf.detach().clone().requires_grad_()
        for name, leaf in leaves.items()
        if leaf is not None
    }
    parts = {name: leaves[name] for name in names if name in leaves}
    y = layer(leaves["x"], case.ids, leaves["topk_weights"], replace(case.weights, **parts))
    found = torch.autograd.grad(y, list(leaves.values()), case.grad)
    return {"y": y.detach(), **dict(zip(leaves, found, strict=True))}


def plain_layer(x: Tensor, ids: Tensor, topk_weights: Tensor, weights: ExpertWeights) -> Tensor:
    """The layer's formula, token by token in f64; nothing of the package. Ids outside the experts
    add nothing."""
    gate_up, down = weights.gate_up, weights.down
    assert isinstance(gate_up, Tensor)
    assert isinstance(down, Tensor)
    activation = weights.activation
    rows: list[Tensor] = []
    for token in range(len(x)):
        total = torch.zeros(x.shape[1], dtype=torch.float64)
        for slot, expert in enumerate(ids[token].tolist()):
            if not 0 <= expert < weights.num_experts:
                continue
            pair = gate_up[expert].double() @ x[token].double()
            if weights.gate_up_bias is not None:
                pair = pair + weights.gate_up_bias[expert].double()
            gate, up = pair[0::2], pair[1::2]
            if activation.limit is not None:
                gate, up = (
                    gate.clamp(max=activation.limit),
                    up.clamp(-activation.limit, activation.limit),
                )
            hidden = gate * torch.sigmoid(activation.alpha * gate) * (up + activation.up_offset)
            y = down[expert].double() @ hidden
            if weights.down_bias is not None:
                y = y + weights.down_bias[expert].double()
            total = total + topk_weights[token, slot].double() * y
        rows.append(total)
    return torch.stack(rows) if rows else 0.0 * x.double()


def plain_gradients(case: Case) -> dict[str, Tensor]:
    """Of `plain_layer`, zeros for what no token reaches."""
    doubled = replace(
        case.to(torch.float64, torch.float64), topk_weights=case.topk_weights.double()
    )

    def layer(x: Tensor, ids: Tensor, topk_weights: Tensor, weights: ExpertWeights) -> Tensor:
        leaves = (x, topk_weights, weights.gate_up, weights.down)
        leaves += (weights.gate_up_bias, weights.down_bias)
        touched = sum(0.0 * leaf.sum() for leaf in leaves if isinstance(leaf, Tensor))
        return plain_layer(x, ids, topk_weights, weights) + touched

    return gradients(layer, doubled)


def lossless_case(draw: Draw, ids: Tensor, *, E: int, D: int, F: int, biased: bool = True) -> Case:
    """Every operand of every product is one of E4M3's numbers times its block's scale, in both
    directions, and every sum is exact, so MXFP8 changes nothing.

    Gates are 0 or 32, where silu and its slope are exact in f32: 0 and 1/2, 32 and 1. A row of up
    and a column of down have one nonzero each, so up and the gradient of SwiGLU's output are x's
    and y's elements; those are 1, 2 or 3, and 1 or 2, and weights of `combine` powers of two.
    """
    num_tokens, top_k = ids.shape
    gate = torch.zeros(E, F, D)
    gate[..., 0] = 32.0 * draw.integers(0, 1, E, F)
    up = torch.zeros(E, F, D).scatter_(2, draw.integers(1, D - 1, E, F, 1), _signs(draw, E, F, 1))
    down = torch.zeros(E, D, F).scatter_(1, draw.integers(0, D - 1, E, 1, F), _signs(draw, E, 1, F))
    x = draw.integers(1, 3, num_tokens, D) * _signs(draw, num_tokens, D)
    x[:, 0] = 1.0
    up_bias = torch.stack((torch.zeros(E, F), draw.integers(-1, 1, E, F)), 2).flatten(1)
    return Case(
        x=x,
        ids=ids.int(),
        topk_weights=0.5 ** draw.integers(0, 2, num_tokens, top_k).float(),
        weights=ExpertWeights(
            gate_up=torch.stack((gate, up), 2).flatten(1, 2),
            down=down,
            gate_up_bias=up_bias if biased else None,
            down_bias=draw.integers(-3, 3, E, D).float() if biased else None,
        ),
        grad=draw.integers(1, 2, num_tokens, D) * _signs(draw, num_tokens, D),
    )


def to_multiples(exact: Tensor) -> Tensor:
    """`lossless_case`'s numbers in f32, from f64: sums of multiples of 2^-10, as small errors of the
    sigmoid's are not."""
    return ((exact * 1024).round() / 1024).float()


def real_case(
    draw: Draw, *, T: int, K: int, E: int, D: int, F: int, activation: SwiGLU = SILU
) -> Case:
    """Everything of about unit variance; some gates and ups pass gpt-oss's limit."""
    weights, ids = torch.rand(T, E, generator=draw.generator).topk(K)
    return Case(
        x=draw.normal(T, D),
        ids=ids.int(),
        topk_weights=weights,
        weights=ExpertWeights(
            gate_up=4 * draw.normal(E, 2 * F, D) / D**0.5,
            down=draw.normal(E, D, F) / F**0.5,
            gate_up_bias=draw.normal(E, 2 * F),
            down_bias=draw.normal(E, D),
            activation=activation,
        ),
        grad=draw.normal(T, D),
    )


def _signs(draw: Draw, *shape: int) -> Tensor:
    return 2.0 * draw.integers(0, 1, *shape) - 1.0
