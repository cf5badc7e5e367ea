"""SwiGLU of stored rows and its gradient, for training: `activation_details` has the formulas.

The forward pass for inference fuses SwiGLU into `grouped_gemm`; training keeps its input.

Dimensions: P rows, F expert hidden dim, G = 2 F, gate and up interleaved by column.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from composer_kernels import reference
from composer_kernels.errors import ShapeError, check_device, check_dtype, check_shape
from composer_kernels.formats import VALUE_DTYPES
from composer_kernels.swiglu import SwiGLU
from composer_kernels.target_info import Target, target_of

_BLOCK_P, _BLOCK_F = 16, 128


def apply_swiglu(gate_up_PG: Float[Tensor, "P G"], activation: SwiGLU) -> Float[Tensor, "P G_half"]:
    """SwiGLU of each row, computed in f32 and rounded once to the input's dtype, bf16 or f32.

    Zero rows stay zero. Keeps no gradient on CUDA. Raises a `KernelError` where shape or dtype do
    not fit.
    """
    _check_gate_up(gate_up_PG)
    target = target_of(gate_up_PG)
    if target.capability == 0:
        return reference.apply_swiglu(gate_up_PG, activation)
    return _launch_swiglu(gate_up_PG, activation, target=target)


def swiglu_backward(
    grad_PF: Float[Tensor, "P F"], gate_up_PG: Float[Tensor, "P G"], activation: SwiGLU
) -> Float[Tensor, "P G"]:
    """The gradient in gate and up of what `apply_swiglu` computes, in its input's dtype.

    At the limits it is that of what lies inside, as torch has it for `clamp`. Raises as
    `apply_swiglu` does.
    """
    _check_gate_up(gate_up_PG)
    check_dtype("grad", grad_PF, VALUE_DTYPES)
    check_shape("grad", grad_PF, (gate_up_PG.shape[0], gate_up_PG.shape[1] // 2))
    check_device(grad=grad_PF, gate_up=gate_up_PG)
    target = target_of(gate_up_PG)
    if target.capability == 0:
        return reference.swiglu_backward(grad_PF, gate_up_PG, activation)
    return _launch_swiglu_backward(grad_PF, gate_up_PG, activation, target=target)


def _check_gate_up(gate_up: Tensor) -> None:
    check_dtype("gate_up", gate_up, VALUE_DTYPES)
    if gate_up.dim() != 2 or gate_up.shape[1] % 2:
        raise ShapeError("gate_up", gate_up.shape, "[P, 2 F]")


# Triton is imported where kernels are launched; a grid of no programs is no launch.


def _launch_swiglu(gate_up_PG: Tensor, activation: SwiGLU, *, target: Target) -> Tensor:
    from composer_kernels.activation_details import _swiglu

    P, F = gate_up_PG.shape[0], gate_up_PG.shape[1] // 2
    hidden_PF = gate_up_PG.new_empty(P, F)
    details: Any = _swiglu
    details.swiglu_kernel[_grid(P, F)](
        hidden_PF, gate_up_PG.contiguous(), P, F, **swiglu_switches(activation, target)
    )
    return hidden_PF


def _launch_swiglu_backward(
    grad_PF: Tensor, gate_up_PG: Tensor, activation: SwiGLU, *, target: Target
) -> Tensor:
    from composer_kernels.activation_details import _swiglu

    P, F = grad_PF.shape
    grad_gate_up_PG = torch.empty_like(gate_up_PG, memory_format=torch.contiguous_format)
    details: Any = _swiglu
    details.swiglu_backward_kernel[_grid(P, F)](
        grad_gate_up_PG,
        grad_PF.contiguous(),
        gate_up_PG.contiguous(),
        P,
        F,
        **swiglu_switches(activation, target),
    )
    return grad_gate_up_PG


def swiglu_switches(activation: SwiGLU, target: Target) -> dict[str, object]:
    """The kernels' `tl.constexpr` arguments, for a launch or for ahead-of-time compilation."""
    return {
        "ALPHA": activation.alpha,
        "LIMIT": activation.limit,
        "UP_OFFSET": activation.up_offset,
        "BLOCK_P": _BLOCK_P,
        "BLOCK_F": _BLOCK_F,
        "INTERPRETED": target.interpreted,
    }


def _grid(num_rows: int, num_columns: int) -> tuple[int, int]:
    return -(-num_rows // _BLOCK_P), -(-num_columns // _BLOCK_F)
