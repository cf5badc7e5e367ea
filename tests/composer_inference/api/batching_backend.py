"""A played backend that computes requests together, counts drafts and versions, and tells what it takes."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from composer_inference.backends.base import (
    BackendStats,
    Capability,
    GenerateChunk,
    GenerateRequest,
)
from composer_inference.weights.errors import CheckpointError
from tests.support.played import PlayedBackend

LIMIT_S = 60.0


class BatchingBackend(PlayedBackend):
    """Answers once `num_together` requests have come. Of each, 5 tokens were drafted, and 3 right."""

    def __init__(
        self, answer: Callable[[GenerateRequest], str] | str, *, num_together: int = 1
    ) -> None:
        capabilities = (Capability.BATCHING, Capability.DRAFT_TEXT, Capability.RELOAD)
        super().__init__(answer, capabilities=(*capabilities, Capability.GRAMMAR))
        self.num_together = num_together
        self.num_running = 0
        self.weights_version = 4
        self._all_here = asyncio.Event()

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[GenerateChunk, None]:
        self.num_running += 1
        if self.num_running == self.num_together:
            self._all_here.set()
        try:
            await asyncio.wait_for(self._all_here.wait(), LIMIT_S)
            async with aclosing(super().generate(request)) as chunks:
                async for chunk in chunks:
                    drafted = replace(chunk.timings, num_drafted=5, num_draft_accepted=3)
                    yield replace(chunk, timings=drafted, weights_version=self.weights_version)
                    await asyncio.sleep(0)  # The others' turn.
        finally:
            self.num_running -= 1

    def stats(self) -> BackendStats:
        return BackendStats(
            weights_bytes=1_000,
            kv_cache_bytes=2_000,
            num_blocks_free=7,
            num_blocks_cached=2,
            num_blocks_held=3,
            num_running=self.num_running,
            num_waiting=6,
            num_steps=11,
            num_computed_tokens=120,
            num_drafted=5,
            num_draft_accepted=3,
        )

    async def reload(self, path: Path) -> int:
        if not (path / "config.json").exists():
            raise CheckpointError(f"{path} holds no model")
        self.weights_version += 1
        return self.weights_version
