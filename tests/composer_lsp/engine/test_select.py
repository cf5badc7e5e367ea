"""The settings choose the engine, also while it answers."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from composer_lsp.completion.tab_engine import TabChunk
from composer_lsp.completion.templates import FimPrompt
from composer_lsp.config import EngineSettings, TabSettings
from composer_lsp.engine.launcher import Launcher
from composer_lsp.engine.select import ConfiguredTabEngine
from tests.composer_lsp.engine.servers import FakeServer, endless, on_port, streamed, text_event

PROMPT = FimPrompt(prefix="x = 1", suffix="\ny = 2\n")
LIMIT_S = 30


async def test_settings_that_change_leave_the_answers_that_run() -> None:
    async with on_port(FakeServer(endless)) as url:
        settings = [TabSettings(url=url, model="m")]
        engine = ConfiguredTabEngine(Launcher(EngineSettings), lambda: settings[-1])
        async with asyncio.timeout(LIMIT_S), aclosing(asked(engine)) as first:
            await anext(first)
            settings.append(replace(settings[0], context_tokens=768))
            async with aclosing(asked(engine)) as second:
                await anext(second)
                for _ in range(3):
                    await anext(first)
        await engine.aclose()


async def test_settings_that_change_while_many_ask() -> None:
    async with on_port(FakeServer(streamed(text_event("x + y", "stop")))) as url:
        settings = [TabSettings(url=url)]
        engine = ConfiguredTabEngine(Launcher(EngineSettings), lambda: settings[-1])

        async def answer(number: int) -> str:
            settings.append(replace(settings[0], context_tokens=256 + number))
            return "".join([chunk.text async for chunk in asked(engine)])

        async with asyncio.timeout(LIMIT_S):
            answers = await asyncio.gather(*map(answer, range(12)))
        assert set(answers) == {"x + y"}
        await engine.aclose()


def asked(engine: ConfiguredTabEngine) -> AsyncGenerator[TabChunk, None]:
    return engine.complete(PROMPT, max_tokens=8, stop=(), invoked=True)
