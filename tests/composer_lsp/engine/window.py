"""Stands for one window: `python window.py SCRIPT` ensures an engine and prints its pid."""

import asyncio
import sys

from composer_lsp.config import EngineSettings
from composer_lsp.engine.launcher import ensure_engine
from composer_lsp.engine.probe import read_health


async def main(script: str) -> None:
    endpoint = await ensure_engine(
        EngineSettings(), arguments=("--backend=scripted", f"--script={script}")
    )
    health = await read_health(endpoint)
    assert health is not None
    print(health.pid)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
