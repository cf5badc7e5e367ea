"""A model of a server in a window's index: from the settings through the worker to the answers."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from composer_inference.endpoint import TcpEndpoint, UnixEndpoint
from composer_lsp.config import (
    EmbedderSettings,
    EngineSettings,
    IndexSettings,
    RerankerSettings,
)
from composer_lsp.index.models import NO_MODELS, IndexModels, ModelsError, served
from composer_lsp.index.service import IndexService
from tests.composer_lsp.index.test_service import Window, roots, service_of, write
from tests.support.model_server import FakeModels, model_server

__all__ = ["roots"]
MakeService = Callable[[Window], AbstractAsyncContextManager[IndexService]]


@pytest.fixture
def models() -> Iterator[FakeModels]:
    with model_server() as models:
        yield models


def by(models: FakeModels, model: str = "tiny") -> IndexSettings:
    return IndexSettings(embedder=EmbedderSettings(model=model, url=models.url))


async def until(condition: Callable[[], Any]) -> None:
    while not await condition():
        await asyncio.sleep(0.02)


def answers(service: IndexService, name: str) -> Callable[[], Any]:
    async def ask() -> bool:
        return all(each["embedder"].startswith(name) for each in await service.status())

    return ask


async def paths(service: IndexService, query: str) -> Sequence[str]:
    return [each["path"] for each in (await service.search(query))["results"]]


async def test_a_model_is_filled_in_and_answers_and_the_table_takes_over_again(
    roots: list[str], models: FakeModels
):
    window = Window(roots, by(models))
    async with service_of(window) as service:
        await until(answers(service, "tiny"))
        status = await service.status()
        assert [(each["model"], each["num_unembedded"]) for each in status] == [("tiny", 0)] * 2
        num_texts = len(models.texts)
        assert await paths(service, "cost")
        assert len(models.texts) == num_texts + 2  # a query of each folder
        window.index_settings = IndexSettings()
        await service.refresh()
        await until(answers(service, "composer-static"))
    assert window.messages == []


async def test_what_changes_later_is_embedded_too(roots: list[str], models: FakeModels):
    async with service_of(Window(roots, by(models))) as service:
        await until(answers(service, "tiny"))
        path = write(roots[0], "new.py", text="def rent_bicycle():\n    pass\n")
        service.files_changed([path])

        async def is_embedded() -> bool:
            return any("rent_bicycle" in text for text in models.texts)

        await until(is_embedded)


async def test_a_paused_index_sends_nothing(roots: list[str], models: FakeModels):
    window = Window(roots)
    async with service_of(window) as service:
        await until(answers(service, "composer-static"))
        service.pause(paused=True)
        window.index_settings = by(models)
        await service.refresh()
        await service.status()
        assert models.requests == []
        service.pause(paused=False)
        await until(answers(service, "tiny"))


async def test_a_server_that_is_down_is_told_once_and_used_when_it_is_up(
    roots: list[str], models: FakeModels
):
    models.fails = lambda body: (503, "still loading")
    window = Window(roots, by(models))
    async with service_of(window) as service:

        async def is_told() -> bool:
            return len(window.messages) == len(roots)

        await until(is_told)
        assert "Search goes on by the index's own vectors" in window.messages[0]
        assert "503: still loading" in window.messages[0]
        assert await paths(service, "total price")
        (problem, _) = [each["model_problem"] for each in await service.status()]
        assert "still loading" in problem
        models.fails = lambda body: None
        await until(answers(service, "tiny"))
        assert len(window.messages) == len(roots)


async def test_results_are_reranked(roots: list[str], models: FakeModels):
    models.score = lambda query, text: 1.0 if "weather" in text else 0.0
    write(roots[0], "weather.py", text="# total price of the weather\n")
    settings = IndexSettings(reranker=RerankerSettings(model="judge", url=models.url, timeout_s=60))
    async with service_of(Window(roots[:1], settings)) as service:

        async def is_there() -> bool:
            return [each["num_files"] for each in await service.status()] == [2]

        await until(is_there)
        assert await paths(service, "total price") == ["weather.py", "main.py"]


def test_where_a_model_is_served(monkeypatch: pytest.MonkeyPatch):
    role = RerankerSettings(model="judge")
    assert served(role, None) == {
        "model": "judge",
        "timeout_s": 2.0,
        "origin": "the engine",
        "is_engine": True,
    }
    assert served(role, UnixEndpoint(Path("/run/engine.sock"))) == {
        **served(role, None),
        "url": "http://composer/v1/",
        "socket": "/run/engine.sock",
    }
    assert served(role, TcpEndpoint(123, "secret")) == {
        **served(role, None),
        "url": "http://127.0.0.1:123/v1/",
        "api_key": "secret",
    }
    monkeypatch.setenv("SOME_KEY", "abc")
    remote = replace(role, url="https://example.org/v1/rerank", api_key_env="SOME_KEY")
    assert served(remote, None) == {
        "model": "judge",
        "timeout_s": 2.0,
        "origin": "https://example.org/v1/rerank",
        "url": "https://example.org/v1/",
        "api_key": "abc",
    }


@pytest.mark.parametrize(
    ("role", "message"),
    [
        ({"url": "localhost"}, "the URL 'localhost' is not like"),
        ({"url": "http://a/v1", "api_key_env": "NO_SUCH_KEY"}, "NO_SUCH_KEY"),
    ],
)
def test_settings_that_cannot_be_used_are_told(role: dict[str, Any], message: str):
    settings = IndexSettings(embedder=EmbedderSettings(model="tiny", **role))
    with pytest.raises(ModelsError, match=message):
        IndexModels(lambda: settings, EngineSettings).now()
    assert IndexModels(IndexSettings, EngineSettings).now() == NO_MODELS
