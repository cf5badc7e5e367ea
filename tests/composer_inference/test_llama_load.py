"""Loading a model with llama.cpp: where its socket goes, and what it says of a file it refuses."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from composer_inference.backends.base import BackendError
from composer_inference.backends.llama_cpp import LlamaCppBackend, LlamaCppConfig
from composer_inference.endpoint import MAX_SOCKET_PATH_BYTES
from tests.support.gguf_files import header, write_tiny_llama

LIMIT_S = 60

VOCABULARY = {
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", "a", "▁"],
    "tokenizer.ggml.scores": [0.0, 0.0, 0.0, -1.0, -2.0],
    "tokenizer.ggml.token_type": [2, 3, 3, 1, 1],
}


@pytest.fixture
def longest_runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The runtime folder with the longest path that the engine's own socket fits behind."""
    base = Path(tempfile.mkdtemp(prefix="c-"))
    num_bytes = MAX_SOCKET_PATH_BYTES - len(os.fsencode(base)) - len("//engine.sock")
    path = base / ("r" * num_bytes)
    monkeypatch.setenv("COMPOSER_RUNTIME_DIR", str(path))
    yield path
    shutil.rmtree(base)


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def config(path: Path) -> LlamaCppConfig:
    return LlamaCppConfig(path=path, threads=1, context_tokens=64, prefill_slice_tokens=16)


async def test_the_socket_fits_wherever_the_engines_does(
    longest_runtime: Path, tmp_path: Path
) -> None:
    path = write_tiny_llama(tmp_path / "m.gguf", VOCABULARY)
    backend = await LlamaCppBackend.load(config(path))
    await backend.close()
    assert names_in(longest_runtime) == []


async def test_a_model_that_is_let_go_at_once(longest_runtime: Path, tmp_path: Path) -> None:
    path = write_tiny_llama(tmp_path / "m.gguf", VOCABULARY)
    for _ in range(30):
        backend = await LlamaCppBackend.load(config(path))
        await backend.close()


async def test_llama_cpps_own_words_reach_the_log(
    longest_runtime: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(header({"general.architecture": "llama"}))
    with pytest.raises(BackendError, match=rf"cannot load {path}: .* The engine's log says why"):
        await LlamaCppBackend.load(config(path))
    # A thread of llama.cpp's writes them, when it comes to it.
    written = ""
    async with asyncio.timeout(LIMIT_S):
        while "key not found in model: llama.context_length" not in written:
            await asyncio.sleep(0.01)
            written += capfd.readouterr().err
