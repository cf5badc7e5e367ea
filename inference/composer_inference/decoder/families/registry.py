"""The families that can be loaded."""

from collections.abc import Mapping
from typing import Any

from composer_inference.decoder.families.deepseek import DEEPSEEK_V2, DEEPSEEK_V3
from composer_inference.decoder.families.family import Family
from composer_inference.decoder.families.glm4_moe import GLM4_MOE
from composer_inference.decoder.families.gpt_oss import GPT_OSS
from composer_inference.decoder.families.llama import LLAMA
from composer_inference.decoder.families.mixtral import MIXTRAL
from composer_inference.decoder.families.olmoe import OLMOE
from composer_inference.decoder.families.qwen2 import QWEN2
from composer_inference.decoder.families.qwen3 import QWEN3
from composer_inference.decoder.families.qwen3_moe import QWEN3_MOE
from composer_inference.weights.errors import CheckpointError

FAMILIES: tuple[Family, ...] = (
    LLAMA,
    QWEN2,
    QWEN3,
    QWEN3_MOE,
    GLM4_MOE,
    MIXTRAL,
    OLMOE,
    DEEPSEEK_V2,
    DEEPSEEK_V3,
    GPT_OSS,
)


def family_of(config: Mapping[str, Any]) -> Family:
    """By `model_type`, or where that is missing by `architectures`.

    Raises: CheckpointError for a family that is not known.
    """
    model_type = config.get("model_type")
    architectures: list[Any] = config.get("architectures") or []
    for family in FAMILIES:
        if family.model_type == model_type:
            return family
        if model_type is None and family.architecture in architectures:
            return family
    known = ", ".join(family.model_type for family in FAMILIES)
    raise CheckpointError(
        f"config.json: model_type is {model_type!r}, architectures {architectures!r}; "
        f"the families that can be loaded are {known}. Others may run by llama.cpp from a GGUF."
    )
