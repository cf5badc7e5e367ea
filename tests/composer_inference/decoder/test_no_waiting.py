"""A decode step on a GPU that is not there: torch's meta device, whose tensors hold nothing, and kernels that
are not launched. It shows that nothing in a step asks the device for a number or copies between it and
the host, which would make it wait, and could not be captured as a CUDA graph."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import composer_kernels
from composer_inference.decoder.batch import Batch
from composer_inference.decoder.config import ConfigReader
from composer_inference.decoder.families.registry import family_of
from composer_inference.decoder.layers.moe import StoredFormat
from composer_inference.decoder.model import Decoder
from composer_inference.kv.pool import KVPool
from composer_kernels import BlockTable, Target, target_from_capability
from tests.composer_inference.decoder.test_graphs import FAMILIES
from tests.composer_inference.decoder.test_parity import CASES
from tests.composer_inference.decoder.tiny import BASE

GPU = torch.device("meta")
"""It stands for one: no number can be read from it."""
NUM_SEQUENCES = 4


class HostTraffic(TorchDispatchMode):
    """Raises where numbers go between host and device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        outputs = func(*args, **(kwargs or {}))
        leaves = tree_leaves((args, kwargs, outputs))
        # A number on the host may be an operand: it is an argument of the launch.
        kinds = {each.device.type for each in leaves if isinstance(each, Tensor) and each.dim()}
        if len(kinds) > 1:
            raise AssertionError(f"{func} has tensors on {', '.join(sorted(kinds))}")
        return outputs


class Launches:
    """In place of a kernel."""

    def __init__(self, name: str, names: list[str]) -> None:
        self._name = name
        self._names = names

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        assert all(isinstance(size, int) for size in grid)
        return self

    def __call__(self, *args: object, **switches: object) -> None:
        self._names.append(self._name)


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of the kernels, as on an H100."""
    names: list[str] = []

    def target_of(tensor: Tensor) -> Target:
        assert tensor.device == GPU
        return target_from_capability(9, 0)

    for info in pkgutil.walk_packages(composer_kernels.__path__, "composer_kernels."):
        module = importlib.import_module(info.name)
        for name in list(vars(module)):
            if name == "target_of":
                monkeypatch.setattr(module, name, target_of)
            elif name == "num_multiprocessors":
                monkeypatch.setattr(module, name, lambda _: 132)
            elif "_details." in info.name and name.endswith("_kernel"):
                monkeypatch.setattr(module, name, Launches(name, names))
    yield names


def step(kind: str, stored: StoredFormat) -> None:
    """One to make what is made once, and one that is watched."""
    from transformers import AutoConfig

    config = AutoConfig.for_model(kind, **{**BASE, **CASES[FAMILIES[kind]][1]}).to_dict()
    parsed = family_of(config).read_config(ConfigReader(config))
    with torch.inference_mode():
        with GPU:
            decoder = Decoder(parsed, dtype=torch.bfloat16, experts=stored)
        pool = KVPool(
            decoder.cache_shapes, num_blocks=8, block_size=4, dtype=torch.bfloat16, device=GPU
        )
        batch = decodes()
        decoder(batch, pool, router_choices=[])
        with HostTraffic():
            logits = decoder(batch, pool, router_choices=[])
        assert logits.shape == (NUM_SEQUENCES, parsed.vocab_size)
        assert logits.device == GPU


def decodes() -> Batch:
    def ids(num: int) -> Tensor:
        return torch.zeros(num, dtype=torch.int64, device=GPU)

    num = NUM_SEQUENCES
    table = BlockTable(
        blocks_X=ids(8),
        block_starts_B=ids(num),
        num_tokens_B=ids(num),
        query_starts_C=ids(num + 1),
        max_queries=1,
        block_size=4,
    )
    return Batch(
        spans=(),
        token_ids_T=ids(num),
        positions_T=ids(num),
        slots_T=ids(num),
        logits_rows_R=ids(num),
        block_table=table,
    )


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_decode_step_waits_for_nothing(kind: str, launched: list[str]) -> None:
    step(kind, "bf16")
    assert "paged_attention_kernel" in launched
    if "experts_per_tok" in str(CASES[FAMILIES[kind]][1]):
        assert {"route_kernel", "grouped_gemm_kernel"} <= set(launched)


@pytest.mark.parametrize("stored", ["mxfp8", "mxfp4"])
def test_nor_with_quantised_experts(stored: StoredFormat, launched: list[str]) -> None:
    step("gpt_oss", stored)
    assert {"route_kernel", "grouped_gemm_kernel"} <= set(launched)


def test_waiting_would_be_seen() -> None:
    x = torch.ones(3, device=GPU)
    for ask in (lambda: x[0].item(), lambda: x.tolist(), lambda: x.nonzero(), lambda: bool(x[0])):
        with pytest.raises((RuntimeError, NotImplementedError), match="meta"):
            ask()
    with HostTraffic():
        with pytest.raises(AssertionError, match="cpu, meta"):
            torch.ones(3).to(GPU)
        with pytest.raises((AssertionError, NotImplementedError), match="meta"):
            x.cpu()
