"""Kernels on the CPU."""

from collections.abc import Iterator

import jaxtyping
import pytest
import torch

# Tests run in several processes, and shapes are small.
torch.set_num_threads(1)


@pytest.fixture
def unchecked() -> Iterator[None]:
    """As users run it: without the checks of shapes, so that the package's own errors show."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
