"""The index of each session's folders, shared by sessions that have the same ones."""

import asyncio
import logging
from collections.abc import Sequence

from composer_lsp.config import EngineSettings, IndexSettings
from composer_lsp.index.service import IndexService

logger = logging.getLogger(__name__)


class Indexes:
    """For the event loop."""

    def __init__(self) -> None:
        self._services: dict[tuple[str, ...], IndexService] = {}

    async def of(self, roots: Sequence[str]) -> IndexService:
        """Started. It indexes in a process of its own, and stays until `close`."""
        key = tuple(roots)
        if key not in self._services:
            self._services[key] = IndexService(_Folders(key))
        service = self._services[key]
        await service.refresh()
        return service

    async def close(self) -> None:
        services, self._services = list(self._services.values()), {}
        await asyncio.gather(*(service.close() for service in services))


class _Folders:
    """What an index needs of a window."""

    def __init__(self, roots: tuple[str, ...]) -> None:
        self._roots = roots
        self.index_settings = IndexSettings()
        self.engine_settings = EngineSettings()

    def index_roots(self) -> Sequence[str]:
        return self._roots

    def on_index_progress(self, root: str, done: int, left: int) -> None: ...

    def on_index_message(self, text: str) -> None:
        logger.warning("%s", text)
