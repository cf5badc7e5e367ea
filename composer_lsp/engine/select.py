"""Which engine answers the tab role: the one on this machine, or the URL in the settings."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing

from composer_lsp.completion.tab_engine import TabChunk
from composer_lsp.completion.templates import FimPrompt
from composer_lsp.config import TabSettings
from composer_lsp.engine.launcher import Launcher
from composer_lsp.engine.local import LocalTabEngine
from composer_lsp.engine.remote import RemoteTabEngine


class ConfiguredTabEngine:
    """Implements `TabEngine` and follows the settings while they change. With a URL configured
    the local engine is never started."""

    def __init__(self, launcher: Launcher, settings: Callable[[], TabSettings]) -> None:
        self._settings = settings
        self._local = LocalTabEngine(launcher, settings)
        self._remote: tuple[TabSettings, RemoteTabEngine] | None = None

    async def complete(
        self,
        prompt: FimPrompt,
        *,
        max_tokens: int,
        stop: Sequence[str],
        invoked: bool,
        seed: int | None = None,
    ) -> AsyncGenerator[TabChunk, None]:
        """Raises: EngineError."""
        engine = await self._current()
        chunks = engine.complete(
            prompt, max_tokens=max_tokens, stop=stop, invoked=invoked, seed=seed
        )
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk

    async def prepare(self, prompt: FimPrompt) -> Mapping[str, float]:
        """Have the prompt read while nothing more urgent is to be done, so that one that begins like it
        waits for what is new alone. Returns the timings, none where nothing was read.

        Raises: EngineError.
        """
        return await (await self._current()).prepare(prompt)

    async def aclose(self) -> None:
        await self._local.aclose()
        await self._close_remote()

    async def _current(self) -> LocalTabEngine | RemoteTabEngine:
        while self._remote is not None and self._remote[0] != self._settings():
            await self._close_remote()  # Meanwhile they may change again.
        settings = self._settings()
        if not settings.url:
            return self._local
        if self._remote is None:
            self._remote = (settings, RemoteTabEngine(settings))
        return self._remote[1]

    async def _close_remote(self) -> None:
        if self._remote is not None:
            _, engine = self._remote
            self._remote = None
            await engine.aclose()
