"""The dense feed-forward: down(silu(gate(x)) * up(x)).

Dimensions: T tokens, D model dim, F hidden dim.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from composer_inference.decoder.config import MLPConfig
from composer_inference.decoder.layers.linear import Linear
from composer_inference.decoder.layers.step import Step


class MLP(nn.Module):
    def __init__(self, model_dim: int, config: MLPConfig, *, dtype: torch.dtype) -> None:
        super().__init__()
        self.gate_up = Linear(
            model_dim, config.hidden_dim, config.hidden_dim, bias=config.bias, dtype=dtype
        )
        self.down = Linear(config.hidden_dim, model_dim, bias=config.bias, dtype=dtype)

    def forward(self, x_TD: Float[Tensor, "T D"], _: Step) -> Float[Tensor, "T D"]:
        gate_TF, up_TF = self.gate_up(x_TD).chunk(2, dim=-1)
        return self.down(functional.silu(gate_TF) * up_TF)
