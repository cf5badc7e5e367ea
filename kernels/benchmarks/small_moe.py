"""A small mixture-of-experts language model over bytes, whose experts compute as a recipe says.

All but the experts is f32. Dimensions: B sequences, T tokens (in `Experts` those of all sequences), D
model dim, E experts, K chosen experts a token, F expert hidden dim, V vocabulary.
"""

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from composer_kernels import (
    ExpertWeights,
    Recipe,
    RouterConfig,
    Scoring,
    expert_layer_with_grad,
    reference,
)

VOCABULARY = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Model, data and optimiser."""

    num_steps: int = 300
    batch_size: int = 8
    """Sequences a step."""
    num_tokens: int = 64
    """Bytes of a sequence, each of which predicts the next."""
    num_layers: int = 2
    model_dim: int = 64
    num_heads: int = 4
    num_experts: int = 8
    top_k: int = 2
    hidden_dim: int = 64
    """Of an expert."""
    learning_rate: float = 0.1
    """Its peak; it rises over `num_warmup_steps` and falls to a tenth along a cosine."""
    num_warmup_steps: int = 20
    momentum: float = 0.9
    max_grad_norm: float = 1.0
    balance: float = 0.01
    """Factor on the loss that keeps experts in use (Switch Transformer, section 2.2)."""


class Experts(nn.Module):
    """A router and its experts."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        E, D, F = settings.num_experts, settings.model_dim, settings.hidden_dim
        self.router = nn.Linear(D, E, bias=False)
        self.gate_up = nn.Parameter(torch.randn(E, 2 * F, D) / D**0.5)
        self.down = nn.Parameter(torch.randn(E, D, F) / (F * 2 * settings.num_layers) ** 0.5)
        self.config = RouterConfig(top_k=settings.top_k, scoring=Scoring.SOFTMAX, normalize=True)

    def forward(self, x_TD: Tensor, recipe: Recipe) -> tuple[Tensor, Tensor]:
        """The layer's output, and the balance loss, which is 1 where experts are used evenly."""
        logits_TE: Tensor = self.router(x_TD)
        weights_TK, ids_TK = reference.route(logits_TE, self.config)
        experts = ExpertWeights(gate_up=self.gate_up, down=self.down)
        y_TD = expert_layer_with_grad(x_TD.bfloat16(), ids_TK, weights_TK, experts, recipe=recipe)
        num_experts = logits_TE.shape[1]
        share_E = ids_TK.long().flatten().bincount(minlength=num_experts) / ids_TK.numel()
        return y_TD.float(), num_experts * (share_E * logits_TE.softmax(-1).mean(0)).sum()


class Layer(nn.Module):
    def __init__(self, settings: Settings) -> None:
        super().__init__()
        D = settings.model_dim
        self.num_heads = settings.num_heads
        self.attention_norm, self.experts_norm = nn.RMSNorm(D), nn.RMSNorm(D)
        self.qkv, self.out = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False)
        self.experts = Experts(settings)

    def forward(self, x_BTD: Tensor, recipe: Recipe) -> tuple[Tensor, Tensor]:
        batch_size, num_tokens, D = x_BTD.shape
        qkv: Tensor = self.qkv(self.attention_norm(x_BTD))
        q, k, v = qkv.view(batch_size, num_tokens, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x_BTD = x_BTD + self.out(mixed.transpose(1, 2).reshape(x_BTD.shape))
        y_TD, balance = self.experts(self.experts_norm(x_BTD).view(-1, D), recipe)
        return x_BTD + y_TD.view(x_BTD.shape), balance


class Model(nn.Module):
    def __init__(self, settings: Settings) -> None:
        super().__init__()
        D = settings.model_dim
        self.embedding = nn.Embedding(VOCABULARY, D)
        self.positions = nn.Parameter(0.1 * torch.randn(settings.num_tokens, D))
        self.layers = nn.ModuleList([Layer(settings) for _ in range(settings.num_layers)])
        self.norm, self.head = nn.RMSNorm(D), nn.Linear(D, VOCABULARY, bias=False)

    def forward(self, tokens_BT: Tensor, recipe: Recipe) -> tuple[Tensor, Tensor]:
        """Logits `[B, T, V]` and the layers' mean balance loss."""
        x_BTD = self.embedding(tokens_BT) + self.positions
        balances: list[Tensor] = []
        for layer in self.layers:
            x_BTD, balance = layer(x_BTD, recipe)
            balances.append(balance)
        return self.head(self.norm(x_BTD)), torch.stack(balances).mean()


def seeded_model(settings: Settings, seed: int) -> Model:
    """The same for every variant."""
    cast(Any, torch).manual_seed(seed)
    return Model(settings)
