"""Kernels on the CPU, with every public function's shapes and dtypes checked on each call."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

# Before Triton is imported: `@triton.jit` asks for it when it decorates.
os.environ["TRITON_INTERPRET"] = "1"

import jaxtyping
import torch

# Tests run in several processes, and shapes are small.
torch.set_num_threads(1)


def _checked_modules() -> list[str]:
    """All of the package but `*_details`, which Triton compiles from their source."""
    spec = find_spec("composer_kernels")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    (folder,) = map(Path, spec.submodule_search_locations)
    names = [path.stem for path in folder.glob("*.py") if path.stem != "__init__"]
    return [f"composer_kernels.{name}" for name in [*names, "reference"]]


jaxtyping.install_import_hook(_checked_modules(), "beartype.beartype")


@pytest.fixture
def unchecked() -> Iterator[None]:
    """As users run it: without the checks of shapes, so that the package's own errors show."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
