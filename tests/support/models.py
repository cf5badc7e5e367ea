"""The weights of real models, where this machine has them."""

from pathlib import Path

import pytest

from composer_inference.models.errors import ModelNotInstalledError
from composer_inference.models.store import ModelStore


def model_path(name: str) -> Path:
    """The installed model's file; the test is skipped where it was not fetched."""
    try:
        return ModelStore().path(name)
    except ModelNotInstalledError as error:
        pytest.skip(str(error))
