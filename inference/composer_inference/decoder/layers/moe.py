"""The mixture of experts: a router, the experts on `composer_kernels`, and a shared expert.

Dimensions: T tokens of a step, D model dim, E experts, K chosen experts a token, F expert hidden dim.
"""

from collections.abc import Iterator
from typing import Literal

import torch
from jaxtyping import Float, Float32
from torch import Tensor, nn
from torch.nn import functional

from composer_inference.decoder.config import MLPConfig, MoEConfig
from composer_inference.decoder.layers.mlp import MLP
from composer_inference.decoder.layers.step import Step
from composer_inference.decoder.parallel.parallel import Parallel
from composer_kernels import (
    BLOCK,
    ExpertWeights,
    MXFP4Tensor,
    MXFP8Tensor,
    expert_layer,
    route,
)

StoredFormat = Literal["mxfp8", "mxfp4", "bf16", "f32"]
"""What the experts' weights are kept in."""


class Router(nn.Module):
    """In f32 whatever the model's dtype: it is small, and the choice hangs on its last bits."""

    def __init__(self, model_dim: int, config: MoEConfig) -> None:
        super().__init__()

        def empty(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, dtype=torch.float32))

        self.weight = empty(config.num_experts, model_dim)
        self.bias = empty(config.num_experts) if config.router_bias else None
        self.correction_bias = empty(config.num_experts) if config.correction_bias else None

    def forward(self, x_TD: Float[Tensor, "T D"]) -> Float32[Tensor, "T E"]:
        return functional.linear(x_TD.float(), self.weight, self.bias)


class Experts(nn.Module):
    """Weights in the layout of `composer_kernels.ExpertWeights`."""

    def __init__(
        self,
        model_dim: int,
        config: MoEConfig,
        stored: StoredFormat,
        bias_dtype: torch.dtype,
        *,
        local: slice,
    ) -> None:
        """`local`: those of the `config.num_experts` that are kept here."""
        super().__init__()
        self.config = config
        self.local = local
        self.model_dim = model_dim
        self.stored: StoredFormat = stored
        num_experts, hidden_dim = local.stop - local.start, config.expert_dim
        for name, rows, columns in (
            ("gate_up", 2 * hidden_dim, model_dim),
            ("down", model_dim, hidden_dim),
        ):
            for suffix, num_columns, dtype in _tensors(stored, columns):
                empty = torch.empty((num_experts, rows, num_columns), dtype=dtype)
                self.register_parameter(name + suffix, nn.Parameter(empty, requires_grad=False))
            bias = torch.empty((num_experts, rows), dtype=bias_dtype)
            self.register_parameter(
                name + "_bias", nn.Parameter(bias) if config.expert_bias else None
            )

    def matrix(self, name: Literal["gate_up", "down"]) -> Tensor | MXFP8Tensor | MXFP4Tensor:
        """[E, 2 F, D] or [E, D, F]: the parameters themselves."""
        if self.stored in ("bf16", "f32"):
            return self.get_parameter(name)
        codes = self.get_parameter(name + "_codes")
        scales = self.get_parameter(name + "_scales")
        return MXFP8Tensor(codes, scales) if self.stored == "mxfp8" else MXFP4Tensor(codes, scales)

    @property
    def weights(self) -> ExpertWeights:
        bias = self.config.expert_bias
        return ExpertWeights(
            gate_up=self.matrix("gate_up"),
            down=self.matrix("down"),
            gate_up_bias=self.get_parameter("gate_up_bias") if bias else None,
            down_bias=self.get_parameter("down_bias") if bias else None,
            activation=self.config.activation,
        )


def _tensors(stored: StoredFormat, columns: int) -> Iterator[tuple[str, int, torch.dtype]]:
    """Suffix, columns and dtype of what holds a weight."""
    num_scales = -(-columns // BLOCK)
    match stored:
        case "f32":
            yield "", columns, torch.float32
        case "bf16":
            yield "", columns, torch.bfloat16
        case "mxfp8":
            yield "_codes", columns, torch.float8_e4m3fn
            yield "_scales", num_scales, torch.uint8
        case "mxfp4":
            yield "_codes", columns // 2, torch.uint8
            yield "_scales", num_scales, torch.uint8


class MoE(nn.Module):
    def __init__(
        self,
        model_dim: int,
        config: MoEConfig,
        *,
        stored: StoredFormat,
        dtype: torch.dtype,
        parallel: Parallel,
    ) -> None:
        super().__init__()
        self.config = config
        self.router = Router(model_dim, config)
        shard = parallel.experts
        local = shard.rows(config.num_experts, config.num_experts // shard.count)
        self.experts = Experts(model_dim, config, stored, dtype, local=local)
        self.shared = None
        if config.shared_dim is not None:
            self.shared = MLP(model_dim, MLPConfig(hidden_dim=config.shared_dim), dtype=dtype)

    def forward(self, x_TD: Float[Tensor, "T D"], step: Step) -> Float[Tensor, "T D"]:
        weights_TK, ids_TK = route(
            self.router(x_TD), self.config.router, bias_E=self.router.correction_bias
        )
        if step.router_choices is not None:
            step.router_choices.append(ids_TK)
        y_TD = expert_layer(
            x_TD,
            ids_TK,
            weights_TK,
            self.experts.weights,
            first_local_expert=self.experts.local.start,
            num_experts=self.config.num_experts,
        )
        return y_TD if self.shared is None else y_TD + self.shared(x_TD, step)
