"""Warm time to ghost text: a typed trace through our server, and through llama.cpp's own server.

The peer gets the same model, budget of prompt and trace, and its `/infill` (prefix, suffix, middle in
the model's order, with its own prompt cache), asked at every keystroke as plain clients do. Some 40
characters are typed with some 300 tokens after the cursor; every keystroke waits for its suggestion.
Ours answers many from memory, so those that asked the model are told apart.
"""

import inspect
import itertools
import json
import os
import tempfile
import textwrap
import time
from pathlib import Path

import httpx

from bench.engines import MODEL, peer_server, real_engine
from bench.measure import p50, p90, row
from composer_inference.hardware import read_hardware
from tests.support.lsp import start_server

TYPED = "    total = sum(len(part) for part in parts"
MAX_TOKENS = 16


async def run() -> None:
    source = inspect.getsource(textwrap)
    cut = source.index("    def _split_chunks")
    before, after = source[cut - 2400 : cut], source[cut : cut + 1200]
    with tempfile.TemporaryDirectory(prefix="c-") as folder:
        async with real_engine(Path(folder)) as engine:
            ours = await _through_server(engine, Path(folder), before, after)
    with tempfile.TemporaryDirectory(prefix="c-") as folder:
        async with peer_server(Path(folder), read_hardware().num_usable_cores) as client:
            theirs = await _through_peer(client, before, after)
    asked = [ms for ms, tokens in ours if tokens]
    peers = [ms for ms, _ in theirs]
    row("keystroke to ghost text, ms", "composer", "llama.cpp", "ratio")
    for name, mine in (("all keystrokes", [ms for ms, _ in ours]), ("that asked the model", asked)):
        for percentile, of in (("p50", p50), ("p90", p90)):
            ratio = of(mine) / of(peers)
            row(f"{name}, {percentile}", f"{of(mine):.0f}", f"{of(peers):.0f}", f"{ratio:.2f}")
    row("keystrokes that asked the model", str(len(asked)), str(len(peers)))
    row(
        "prompt tokens computed, all keystrokes",
        *(str(int(sum(tokens for _, tokens in side))) for side in (ours, theirs)),
    )


async def _num_prefilled(engine: httpx.AsyncClient) -> float:
    """Prompt tokens that the engine has computed for keystrokes so far."""
    name = 'composer_prefill_tokens_total{priority="tab"} '
    lines = (await engine.get("/metrics")).text.splitlines()
    return next(float(line.removeprefix(name)) for line in lines if line.startswith(name))


def _differences(results: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Counts of each keystroke out of running totals; the first, cold one is left out."""
    pairs = itertools.pairwise(results)
    return [(ms, total - before) for (_, before), (ms, total) in pairs]


async def _through_server(
    engine: httpx.AsyncClient, folder: Path, before: str, after: str
) -> list[tuple[float, float]]:
    env = {"COMPOSER_DATA_DIR": os.environ.get("COMPOSER_DATA_DIR", "")}  # The user's models.
    async with start_server(folder, env=env) as client:
        options = {"tab": {"debounceMs": 0, "model": MODEL, "maxTokens": MAX_TOKENS}}
        await client.initialize(initializationOptions=options)
        uri = "untitled:trace.py"
        results: list[tuple[float, float]] = []
        for count in range(len(TYPED) + 1):
            text = f"{before}{TYPED[:count]}\n{after}"
            position = {"line": before.count("\n"), "character": count}
            started = time.perf_counter()
            if count == 0:
                client.open(uri, text)
            else:
                client.change(uri, count + 1, {"text": text})
            await client.inline_completion(uri, position)
            elapsed = 1000 * (time.perf_counter() - started)
            results.append((elapsed, await _num_prefilled(engine)))
    return _differences(results)


async def _through_peer(
    client: httpx.AsyncClient, before: str, after: str
) -> list[tuple[float, float]]:
    results: list[tuple[float, float]] = []
    for count in range(len(TYPED) + 1):
        body = {
            "input_prefix": before + TYPED[:count],
            "input_suffix": "\n" + after,
            "n_predict": MAX_TOKENS,
            "temperature": 0,
            "cache_prompt": True,
            "stream": False,
        }
        started = time.perf_counter()
        answer = (await client.post("/infill", content=json.dumps(body))).json()
        elapsed = 1000 * (time.perf_counter() - started)
        results.append((elapsed, answer["timings"]["prompt_n"]))
    return results[1:]
