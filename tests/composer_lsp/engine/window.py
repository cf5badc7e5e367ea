"""Stands for one window: `python window.py SCRIPT` ensures an engine and prints its pid."""

import asyncio
import sys

from composer_lsp.config import EngineSettings
from composer_lsp.engine.launcher import Launcher
from composer_lsp.engine.probe import read_health


async def main(script: str) -> None:
    arguments = ("--backend=scripted", f"--script={script}")
    endpoint = await Launcher(EngineSettings, arguments=arguments).ensure()
    health = await read_health(endpoint)
    assert health is not None
    print(health.pid)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
