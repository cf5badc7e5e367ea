"""The index by models of the engine, which the window starts when they are needed."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from composer_lsp.config import EmbedderSettings, IndexSettings, RerankerSettings
from composer_lsp.index.service import IndexService
from tests.composer_inference.test_engine_models import EMBEDDER, RERANKER, install
from tests.composer_lsp.engine.conftest import engine_processes, homes
from tests.composer_lsp.index.test_models import answers, until
from tests.composer_lsp.index.test_service import Window, service_of, write

__all__ = ["homes"]
NAME = f"{EMBEDDER} by the engine"


@pytest.fixture
def root(tmp_path: Path) -> str:
    """Two files of one word each, which the tiny models know."""
    folder = tmp_path / "root"
    folder.mkdir()
    for color in ("red", "blue"):
        (folder / f"{color}.txt").write_text(f"{color} {color}\n")
    return str(folder)


async def paths(service: IndexService, query: str) -> Sequence[str]:
    return [each["path"] for each in (await service.search(query))["results"]]


async def test_the_engine_is_started_for_the_index_and_again_when_it_died(homes: Path, root: str):
    install(homes / "d", EMBEDDER, unknown=(0.5, 0.5))
    install(homes / "d", RERANKER)
    settings = IndexSettings(
        embedder=EmbedderSettings(model=EMBEDDER),
        reranker=RerankerSettings(model=RERANKER, timeout_s=60),
    )
    window = Window([root], settings)
    async with service_of(window) as service:
        await until(answers(service, NAME))

        async def is_reranked() -> bool:
            # The tiny reranker counts 2 for blue and 1 for red.
            return await paths(service, "red blue") == ["blue.txt", "red.txt"]

        await until(is_reranked)
        (engine,) = engine_processes(homes)
        engine.kill()
        assert len(await paths(service, "red blue")) > 0
        write(root, "new.txt", text="red blue\n")

        async def is_embedded() -> bool:
            (status,) = await service.status()
            is_done = status["num_files"] == 3 and status["num_unembedded"] == 0
            return is_done and [each.pid != engine.pid for each in engine_processes(homes)] == [
                True
            ]

        await until(is_embedded)
    assert window.messages == []


async def test_a_model_that_is_not_installed_is_told_with_the_way_to_it(homes: Path, root: str):
    window = Window([root], IndexSettings(embedder=EmbedderSettings(model=EMBEDDER)))
    async with service_of(window) as service:
        while not window.messages:
            await asyncio.sleep(0.02)
        assert f"fetch it with: composer-lsp model pull {EMBEDDER}" in window.messages[0]
        assert "red.txt" in await paths(service, "red")
