"""Time to the answer of `initialize`, and resident memory, against a bare pygls server."""

import sys
import tempfile
import time
from pathlib import Path

import psutil

from bench.measure import p50, row
from tests.support.lsp import SERVER_COMMAND, start_server

NUM_RUNS = 9
BARE = """
from lsprotocol.types import TEXT_DOCUMENT_INLINE_COMPLETION, InlineCompletionOptions
from pygls.lsp.server import LanguageServer
server = LanguageServer("bare", "1")
@server.feature(TEXT_DOCUMENT_INLINE_COMPLETION, InlineCompletionOptions())
def inline_completion(params):
    return []
server.start_io()
"""


async def run() -> None:
    commands = {"bare pygls": (sys.executable, "-c", BARE), "composer-lsp": SERVER_COMMAND}
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    memory: dict[str, float] = {}
    for attempt in range(NUM_RUNS + 1):  # The first warms the disk cache.
        for name, command in commands.items():
            with tempfile.TemporaryDirectory(prefix="c-") as folder:
                started = time.perf_counter()
                env = {"PYTHONDONTWRITEBYTECODE": ""}
                async with start_server(Path(folder), command=command, env=env) as client:
                    await client.initialize()
                    elapsed = time.perf_counter() - started
                    memory[name] = psutil.Process(client.process.pid).memory_info().rss / 1e6
            if attempt:
                seconds[name].append(elapsed)
    bare, ours = (p50(seconds[name]) for name in commands)
    row("", *commands, "ratio")
    row("initialize answered after, s (median)", f"{bare:.3f}", f"{ours:.3f}", f"{ours / bare:.2f}")
    row("resident memory then, MB", *(f"{value:.0f}" for value in memory.values()), "")
