import pytest
import torch

from composer_inference.decoder.model import Decoder
from tests.composer_inference.batching.tiny import tiny_decoder


@pytest.fixture(scope="session")
def decoder() -> Decoder:
    torch.set_num_threads(1)
    return tiny_decoder()
