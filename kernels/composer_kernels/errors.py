"""What a caller's tensors can get wrong."""

from collections.abc import Sequence
from enum import Enum

import torch


class KernelError(ValueError):
    """A tensor that a kernel cannot take."""


class ShapeError(KernelError):
    """Names the tensor, the shape that it has and the one that was asked for."""

    def __init__(self, name: str, shape: Sequence[int], asked: str) -> None:
        super().__init__(f"{name} has shape {list(shape)}; {asked} is asked for")


class DtypeError(KernelError):
    """Names the tensor, the dtype that it has and those that were asked for."""

    def __init__(self, name: str, dtype: torch.dtype, asked: Sequence[torch.dtype]) -> None:
        names = " or ".join(str(each) for each in asked)
        super().__init__(f"{name} has dtype {dtype}; {names} is asked for")


class DeviceError(KernelError):
    """Names the tensors that lie on different devices, or one on a device without kernels."""


def check_member(name: str, value: object, kind: type[Enum]) -> None:
    """Raises `KernelError` unless the value is one of the enumeration's, not a string that equals it."""
    if not isinstance(value, kind):
        members = " or ".join(str(each.value) for each in kind)
        raise KernelError(f"{name} is {value!r}; {kind.__name__} {members} is asked for")


def check_dtype(name: str, tensor: torch.Tensor, asked: Sequence[torch.dtype]) -> None:
    """Raises `DtypeError` unless the tensor has one of the dtypes."""
    if tensor.dtype not in asked:
        raise DtypeError(name, tensor.dtype, asked)


def check_shape(name: str, tensor: torch.Tensor, asked: Sequence[int]) -> None:
    """Raises `ShapeError` unless the tensor has this shape."""
    if tuple(tensor.shape) != tuple(asked):
        raise ShapeError(name, tensor.shape, str(list(asked)))


def check_device(**tensors: torch.Tensor) -> None:
    """Raises `DeviceError` unless all lie on the same device."""
    devices = {name: tensor.device for name, tensor in tensors.items()}
    if len(set(devices.values())) > 1:
        seen = ", ".join(f"{name} on {device}" for name, device in devices.items())
        raise DeviceError(f"tensors lie on different devices: {seen}")
