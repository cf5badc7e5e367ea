"""How many tokens of prompt are computed between two chances to stop."""

import pytest

from composer_inference.backends.llama_cpp import prefill_slice_tokens

SMALL, MEDIUM, LARGE = 491_400_064, 1_117_320_768, 18_000_000_000


@pytest.mark.parametrize(
    ("threads", "model_bytes", "tokens"),
    [
        pytest.param(2, SMALL, 16, id="as measured"),
        pytest.param(8, SMALL, 64, id="more threads, longer slices"),
        pytest.param(8, MEDIUM, 16, id="a larger model, shorter ones"),
        pytest.param(1, LARGE, 16, id="never under 16"),
        pytest.param(128, SMALL, 512, id="never over 512"),
    ],
)
def test_a_slice_lasts_about_as_long_everywhere(threads: int, model_bytes: int, tokens: int):
    assert prefill_slice_tokens(threads=threads, model_bytes=model_bytes) == tokens
