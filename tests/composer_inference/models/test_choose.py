"""`auto`, by the hardware and by what is installed."""

import pytest

from composer_inference.hardware import Hardware
from composer_inference.models.choose import choose_model, next_smaller, recommend_model

SMALL, LARGE = "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"


def _hardware(cores: int, memory_bytes: float) -> Hardware:
    return Hardware(
        system="Linux",
        machine="x86_64",
        cpu="",
        cpu_features=(),
        num_physical_cores=cores,
        num_usable_cores=cores,
        total_memory_bytes=int(memory_bytes),
        available_memory_bytes=int(memory_bytes),
        gpus=(),
    )


@pytest.mark.parametrize(
    ("cores", "memory_bytes", "name"),
    [(2, 64e9, SMALL), (3, 64e9, SMALL), (4, 64e9, LARGE), (16, 4e9, SMALL), (4, 7.7e9, LARGE)],
)
def test_the_recommendation_follows_cores_and_memory(
    cores: int, memory_bytes: float, name: str
) -> None:
    choice = recommend_model(_hardware(cores, memory_bytes))

    assert choice.name == name
    assert f"{cores} usable cores" in choice.reason


@pytest.mark.parametrize(
    ("installed", "name"),
    [
        ((), LARGE),
        ((SMALL, LARGE), LARGE),
        ((SMALL,), SMALL),
        (("smollm2-135m",), LARGE),
        (("mine",), LARGE),
    ],
    ids=["nothing", "both", "the small one", "one unfit for code", "a file of the user's"],
)
def test_an_installed_model_is_used_until_the_better_one_comes(
    installed: tuple[str, ...], name: str
) -> None:
    choice = choose_model(_hardware(8, 32e9), installed)

    assert choice.name == name
    if name == SMALL:
        assert f"composer-lsp model pull {LARGE}" in choice.reason


@pytest.mark.parametrize(
    ("name", "installed", "smaller"),
    [
        (LARGE, {SMALL, LARGE}, SMALL),
        (LARGE, {LARGE}, None),
        (SMALL, {SMALL, LARGE}, None),
        ("a file of mine", {SMALL}, None),
    ],
)
def test_the_next_smaller_model_for_tab(
    name: str, installed: set[str], smaller: str | None
) -> None:
    assert next_smaller(name, installed) == smaller
