"""A decoder from a checkpoint, one tensor at a time. What a tensor takes while it is converted is as much
as itself or twice that: the largest come first, so that the peak is hardly more than the model's size.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, cast

import torch
from torch import Tensor, nn

from composer_inference.backends.base import BackendLostError
from composer_inference.decoder.config import ConfigReader, DecoderConfig
from composer_inference.decoder.families.family import ExpertNames, Family
from composer_inference.decoder.families.names import is_unused, layer_prefix, tensor_names
from composer_inference.decoder.families.registry import family_of
from composer_inference.decoder.layers.linear import Linear
from composer_inference.decoder.layers.moe import Experts, StoredFormat
from composer_inference.decoder.layers.packed import can_pack
from composer_inference.decoder.model import Decoder
from composer_inference.decoder.parallel.parallel import Parallel
from composer_inference.weights.checkpoint import Checkpoint
from composer_inference.weights.errors import CheckpointError
from composer_inference.weights.expert_loading import FusedExperts, SeparateExperts
from composer_kernels import KernelError

ExpertFormat = Literal["mxfp8", "bf16", "f32"]


class MixedWeightsError(BackendLostError):
    """Some weights are of one checkpoint and some of another."""


def load_decoder(
    checkpoint: Checkpoint,
    *,
    dtype: torch.dtype,
    device: torch.device,
    experts: ExpertFormat | None = None,
    trainable: bool = False,
    parallel: Parallel | None = None,
) -> Decoder:
    """`dtype`: bf16 or f32, of all but the routers, which are f32, and the experts. `experts`: their
    format; None: MXFP8 or MXFP4 where the checkpoint has them so, else `dtype`. `trainable`: all
    parameters take gradients, for which experts must be bf16 or f32; else weights on a CPU are kept
    in the layout that its products read fastest. `parallel`: the part of the model that is loaded, which
    is all that is read of mapped files; None: all.

    Raises: ParallelError for a model that cannot be shared out so; CheckpointError for a family or a
    configuration that is not supported, and for a tensor that is missing, of another shape or kind, or
    not the model's; found before any tensor is read.
    """
    parallel = parallel or Parallel()
    if trainable and parallel.config.num_ranks > 1:
        raise ValueError("sums over ranks have no gradient; train with one rank")
    family, config = _read_config(checkpoint)
    with torch.device("meta"):
        stored = _stored_format(checkpoint, family, dtype)
        decoder = Decoder(config, dtype=dtype, experts=experts or stored, parallel=parallel)
    _check(config, family, checkpoint)
    decoder.to_empty(device=device)
    _fill(decoder, family, checkpoint, packed=not trainable and can_pack(dtype, device))
    return decoder.requires_grad_(trainable)


def reload_decoder(decoder: Decoder, checkpoint: Checkpoint) -> None:
    """Other weights of the same model into the same memory.

    Raises: CheckpointError as `load_decoder`, or where the configuration is another, before any
    weight has changed; MixedWeightsError for a tensor that cannot be read, when some have.
    """
    family, config = _read_config(checkpoint)
    if config != decoder.config:
        raise CheckpointError(
            "config.json describes another model than the one that is loaded; load it anew"
        )
    _check(config, family, checkpoint)
    try:
        _fill(decoder, family, checkpoint, packed=decoder.is_packed)
    except (CheckpointError, OSError, RuntimeError) as error:
        raise MixedWeightsError(
            f"{error}; some weights had been replaced by then, so the model has to be loaded anew"
        ) from error


class _Part(Protocol):
    """What fills some of the parameters."""

    @property
    def num_at_once(self) -> int:
        """Elements of what is converted at a time, at most."""
        ...

    def expected(self, checkpoint: Checkpoint) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Names and shapes of the tensors that it reads."""
        ...

    def fill(self, checkpoint: Checkpoint) -> None: ...


@dataclass(frozen=True, slots=True)
class _Stacked:
    """Tensors that make one parameter, stacked by rows: of each the part that is kept here."""

    module: nn.Module
    parameter: str
    names: tuple[str, ...]
    rows: tuple[int, ...]
    parallel: Parallel

    @property
    def num_at_once(self) -> int:
        return self._target.numel()

    def expected(self, checkpoint: Checkpoint) -> Iterator[tuple[str, tuple[int, ...]]]:
        for name, num_rows in zip(self.names, self.rows, strict=True):
            yield name, (num_rows, *self._target.shape[1:])

    def fill(self, checkpoint: Checkpoint) -> None:
        target, first = self._target, 0
        for name, num_rows in zip(self.names, self.rows, strict=True):
            local = target[first : first + num_rows]
            if self._is_added_elsewhere(checkpoint, name):
                local.zero_()
            else:
                part = self._part(checkpoint.shapes[name], local.shape)
                local.copy_(checkpoint.tensor(name)[part])
            first += num_rows

    @property
    def packable(self) -> Linear | Decoder | None:
        """The module, if it keeps this parameter in the layout of `layers.packed`."""
        is_matrix = self.parameter in ("weight", "embedding")
        return self.module if is_matrix and isinstance(self.module, Linear | Decoder) else None

    def _part(self, whole: Sequence[int], local: Sequence[int]) -> tuple[slice, ...]:
        shards = (self.parallel.tensor,) * len(whole)
        if isinstance(self.module, Experts):
            shards = (self.parallel.experts, self.parallel.expert_dims)
        sizes = zip(shards, whole, local, strict=True)
        return tuple(shard.rows(size, part) for shard, size, part in sizes)

    def _is_added_elsewhere(self, checkpoint: Checkpoint, name: str) -> bool:
        """Whether this is the bias of a sum over ranks, of which only the first has it."""
        if isinstance(self.module, Experts):
            return self.parameter == "down_bias" and self.parallel.expert_dims.index > 0
        if not isinstance(self.module, Linear) or self.parameter != "bias":
            return False
        num_columns = checkpoint.shapes[f"{name.removesuffix('bias')}weight"][1]
        return num_columns != self.module.weight.shape[1] and self.parallel.tensor.index > 0

    @property
    def _target(self) -> Tensor:
        return self.module.get_parameter(self.parameter).detach()


def _read_config(checkpoint: Checkpoint) -> tuple[Family, DecoderConfig]:
    family = family_of(checkpoint.config)
    try:
        return family, family.read_config(ConfigReader(checkpoint.config))
    except KernelError as error:
        raise CheckpointError(f"config.json: {error}") from error


def _stored_format(checkpoint: Checkpoint, family: Family, dtype: torch.dtype) -> StoredFormat:
    """Of the experts, as the checkpoint has them; where it has them plain, the decoder's dtype."""
    quantization = ConfigReader(checkpoint.config).section("quantization_config")
    if "quant_method" not in quantization:
        return "bf16" if dtype == torch.bfloat16 else "f32"
    known: StoredFormat = "mxfp8" if isinstance(family.experts, ExpertNames) else "mxfp4"
    if quantization.text("quant_method") != known:
        raise quantization.error("quant_method", f"{known!r} is supported of {family.model_type}")
    return known


def _parts(decoder: Decoder, family: Family) -> list[_Part]:
    return [*_stacked(decoder, family), *_experts(decoder, family)]


def _fill(decoder: Decoder, family: Family, checkpoint: Checkpoint, *, packed: bool) -> None:
    largest_first = sorted(_parts(decoder, family), key=lambda part: -part.num_at_once)
    for part in largest_first:
        if packed and isinstance(part, _Stacked) and part.packable is not None:
            part.packable.unpack()
            part.fill(checkpoint)
            part.packable.pack()
        else:
            part.fill(checkpoint)


def _check(config: DecoderConfig, family: Family, checkpoint: Checkpoint) -> None:
    with torch.device("meta"):
        whole = Decoder(config, dtype=torch.float32)
    parts = _parts(whole, family)
    found = checkpoint.shapes
    expected = {name: shape for part in parts for name, shape in part.expected(checkpoint)}
    plain = {name for part in parts if isinstance(part, _Stacked) for name in part.names}
    for name, shape in expected.items():
        if name not in found:
            raise CheckpointError(
                f"tensor {name} is missing; the files are incomplete or of another model"
            )
        if name in plain and not checkpoint.dtype(name).is_floating_point:
            raise CheckpointError(
                f"tensor {name} holds {checkpoint.dtype(name)}, where f32, bf16 or f16 is needed"
            )
        if tuple(found[name]) != shape:
            raise CheckpointError(
                f"tensor {name} has shape {list(found[name])}; config.json asks for {list(shape)}"
            )
    unknown = [name for name in found if name not in expected and not is_unused(name, config)]
    if unknown:
        others = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
        raise CheckpointError(
            f"tensor {unknown[0]}{others} has no place in a {config.family} model of this config.json"
        )


def _stacked(decoder: Decoder, family: Family) -> Iterator[_Stacked]:
    for path, module in _modules(decoder):
        for name, parameter in module.named_parameters(recurse=False):
            full = f"{path}.{name}" if path else name
            if isinstance(module, Experts) and not name.endswith("_bias"):
                continue
            rows = module.out_dims if isinstance(module, Linear) else (parameter.shape[0],)
            names = tensor_names(full, family.modules)
            yield _Stacked(module, name, names, rows, decoder.parallel)


def _experts(decoder: Decoder, family: Family) -> Iterator[SeparateExperts | FusedExperts]:
    for path, module in _modules(decoder):
        if isinstance(module, Experts):
            layer, names, dims = layer_prefix(path), family.experts, decoder.parallel.expert_dims
            if isinstance(names, ExpertNames):
                yield SeparateExperts(module, layer, names, dims)
            else:
                yield FusedExperts(module, layer, names, dims)


def _modules(decoder: Decoder) -> Iterator[tuple[str, nn.Module]]:
    return cast(Iterator[tuple[str, nn.Module]], decoder.named_modules())
