"""Frequencies against transformers', and rotations against the formula."""

import math
from typing import Any

import pytest
import torch

from composer_inference.decoder.config import ConfigReader
from composer_inference.decoder.rope import (
    Rope,
    RopeConfig,
    YarnScaling,
    inverse_frequencies,
    read_rope,
)
from composer_inference.weights.errors import CheckpointError

POSITIONS = {"max_position_embeddings": 4096}
LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 512,
}

KINDS: dict[str, dict[str, Any]] = {
    "linear": {"rope_type": "linear", "factor": 3.0},
    "llama3": {"rope_type": "llama3", **LLAMA3},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024},
    "yarn, original from the whole": {"rope_type": "yarn", "factor": 40.0},
    "yarn, not truncated": {
        "rope_type": "yarn",
        "factor": 32.0,
        "original_max_position_embeddings": 512,
        "beta_fast": 20.0,
        "beta_slow": 2.0,
        "truncate": False,
    },
    "yarn, DeepSeek's": {
        "rope_type": "yarn",
        "factor": 40.0,
        "original_max_position_embeddings": 256,
        "mscale": 0.707,
        "mscale_all_dim": 1.0,
    },
    "yarn, given attention factor": {
        "rope_type": "yarn",
        "factor": 2.0,
        "attention_factor": 1.25,
    },
}


def read(values: dict[str, Any], **given: Any) -> RopeConfig:
    return read_rope(ConfigReader({**POSITIONS, **values}), head_dim=32, **given)


@pytest.mark.parametrize("partial", [1.0, 0.5])
@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_frequencies(kind: dict[str, Any], partial: float) -> None:
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    parameters = {**kind, "rope_theta": 20000.0, "partial_rotary_factor": partial}
    ours = read({"rope_parameters": parameters})
    config = LlamaConfig(
        hidden_size=128, num_attention_heads=4, rope_parameters=parameters, **POSITIONS
    )
    theirs, factor = ROPE_INIT_FUNCTIONS[kind["rope_type"]](config, torch.device("cpu"))
    torch.testing.assert_close(inverse_frequencies(ours), theirs, rtol=1e-6, atol=0)
    is_yarn = isinstance(ours.scaling, YarnScaling)
    assert (ours.scaling.attention_factor if is_yarn else 1.0) == pytest.approx(factor)


def test_default_frequencies() -> None:
    config = read({"rope_theta": 500.0})
    expected = [500.0 ** (-2 * i / 32) for i in range(16)]
    torch.testing.assert_close(inverse_frequencies(config), torch.tensor(expected))


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
@pytest.mark.parametrize("key", ["rope_type", "type"])
def test_older_names_read_the_same(kind: dict[str, Any], key: str) -> None:
    older = {**kind, key: kind["rope_type"]}
    if key == "type":
        del older["rope_type"]
    newer = {"rope_parameters": {**kind, "rope_theta": 77.0, "partial_rotary_factor": 0.5}}
    assert read({"rope_scaling": older, "rope_theta": 77.0, "partial_rotary_factor": 0.5}) == read(
        newer
    )


def test_families_own_values_where_the_file_says_nothing() -> None:
    config = read({"rope_scaling": None}, theta=9.0, partial_rotary_factor=0.25, interleaved=True)
    assert config == RopeConfig(theta=9.0, dim=8, interleaved=True)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"rope_scaling": {"type": "longrope", "factor": 2.0}},
            r"rope_scaling\.type is 'longrope'; one of default, linear, llama3, yarn",
        ),
        ({"rope_scaling": {"type": "linear"}}, r"factor is missing"),
        ({"rope_scaling": "linear"}, r"rope_scaling is 'linear'; an object"),
        ({"rope_theta": "x"}, r"rope_theta is 'x'; a number"),
    ],
)
def test_errors_name_key_and_value(values: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        read(values)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("dim", [4, 8])
def test_rotation(interleaved: bool, dim: int) -> None:
    config = RopeConfig(theta=100.0, dim=dim, interleaved=interleaved)
    positions = torch.tensor([0, 3, 70000])
    x = torch.randn(3, 2, 8, generator=torch.Generator().manual_seed(0))
    rotated = Rope(config).rotation(positions, torch.float32).apply(x)
    assert torch.equal(rotated[..., dim:], x[..., dim:])
    half = dim // 2
    for token, position in enumerate(positions.tolist()):
        # An angle of 70,000 radians is known in f32 to 0.004.
        tolerance = 1e-6 if position < 10 else 2e-2
        for i in range(half):
            first, second = (2 * i, 2 * i + 1) if interleaved else (i, i + half)
            angle = position * 100.0 ** (-2 * i / dim)
            a, b = x[token, :, first], x[token, :, second]
            expected = torch.stack(
                (
                    a * math.cos(angle) - b * math.sin(angle),
                    b * math.cos(angle) + a * math.sin(angle),
                )
            )
            ours = torch.stack((rotated[token, :, i], rotated[token, :, i + half]))
            torch.testing.assert_close(ours, expected, atol=tolerance, rtol=0)
