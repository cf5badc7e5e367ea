"""The engine beside a busy machine, beside its own long work, and when a request is given up."""

import argparse
import asyncio
import inspect
import json
import multiprocessing
import tempfile
import textwrap
import time
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from bench.engines import MODEL, peer_server, real_engine
from bench.measure import p10, p50, p90, row
from composer_inference.hardware import read_hardware

SOURCE = inspect.getsource(textwrap) + inspect.getsource(argparse)
NUM_TRIES = 9
"""Odd, and enough for a keystroke to fall on different moments of a slice."""


async def run_busy() -> None:
    """Decode rate beside one busy process per core, as a share of the fair half.

    Both engines are alive throughout and measured in turn, so that a noisy minute meets both.
    """
    num_cores = read_hardware().num_usable_cores
    async with AsyncExitStack() as stack:
        folders = [
            Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="c-"))) for _ in "12"
        ]
        clients = {
            "composer": await stack.enter_async_context(real_engine(folders[0])),
            "llama.cpp's server": await stack.enter_async_context(
                peer_server(folders[1], num_cores)
            ),
        }
        idle: dict[str, list[float]] = {name: [] for name in clients}
        busy: dict[str, list[float]] = {name: [] for name in clients}
        for _ in range(NUM_TRIES):
            for name, client in clients.items():
                idle[name].append(await _decode_rate(client))
            with _busy_processes(num_cores):
                for name, client in clients.items():
                    busy[name].append(await _decode_rate(client))
    # Half of the faster one's idle rate: being slow when idle must not look like a good share.
    fair = max(p50(rates) for rates in idle.values()) / 2
    row("decode, tokens/s (median)", "idle", "busy", "of fair share", "p10 to p90")
    for name in clients:
        share = f"{p50(busy[name]) / fair:.0%}"
        spread = f"{p10(busy[name]) / fair:.0%} to {p90(busy[name]) / fair:.0%}"
        row(name, f"{p50(idle[name]):.1f}", f"{p50(busy[name]):.1f}", share, spread)


async def run_priorities() -> None:
    """First token of a keystroke: idle, beside a long prefill, beside a long generation."""
    with tempfile.TemporaryDirectory(prefix="c-") as folder:
        async with real_engine(Path(folder)) as client:
            await _first_token_ms(client, 0)  # Fills the cache.
            idle = [await _first_token_ms(client, number) for number in range(1, NUM_TRIES + 1)]
            beside_prefill = [await _beside(client, n, decoding=False) for n in range(NUM_TRIES)]
            beside_decode = [await _beside(client, n, decoding=True) for n in range(NUM_TRIES)]
            freed = [await _freed_after_ms(client, number) for number in range(NUM_TRIES)]
    row("first token of a keystroke, ms (median)", "ms", "over idle")
    row("idle", f"{p50(idle):.0f}", "1.00")
    for name, values in (
        ("beside a 4,000-token prefill", beside_prefill),
        ("beside a 4,000-token prefill, p90", [p90(beside_prefill)]),
        ("beside a long generation", beside_decode),
    ):
        row(name, f"{p50(values):.0f}", f"{p50(values) / p50(idle):.2f}")
    row("a closed stream frees the engine after, ms", f"{p50(freed):.0f}")


async def _decode_rate(client: httpx.AsyncClient) -> float:
    body = {"prompt": SOURCE[:1500], "max_tokens": 48, "temperature": 0, "ignore_eos": True}
    answer = (await client.post("/v1/completions", json={"model": MODEL, **body})).json()
    timings = answer["timings"]
    if "predicted_per_second" in timings:
        return timings["predicted_per_second"]
    return 1000 * timings["num_decoded_tokens"] / timings["decode_ms"]


@contextmanager
def _busy_processes(count: int) -> Generator[None]:
    workers = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(count)]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        for worker in workers:
            worker.terminate()


def _spin() -> None:
    while True:
        pass


async def _first_token_ms(client: httpx.AsyncClient, number: int) -> float:
    typed = f"\n    value_{number} = text.strip().split(', ')\n    return "
    body = {"prompt": SOURCE[:3000] + typed, "max_tokens": 8, "temperature": 0}
    started = time.perf_counter()
    async for _ in _events(client, body, "tab"):
        return 1000 * (time.perf_counter() - started)
    raise RuntimeError("no token came")


async def _beside(client: httpx.AsyncClient, number: int, *, decoding: bool) -> float:
    size = 1500 if decoding else 17_000  # Characters; 17,000 are about 4,000 tokens.
    start = 5_000 + 300 * number
    prompt = f"# {number} {decoding}\n" + SOURCE[start : start + size]
    body = {"prompt": prompt, "max_tokens": 400, "temperature": 0, "ignore_eos": True}
    under_way = asyncio.Event()
    if not decoding:
        asyncio.get_running_loop().call_later(3, under_way.set)

    async def agent() -> None:
        async for _ in _events(client, body, "agent"):
            under_way.set()

    task = asyncio.create_task(agent())
    await under_way.wait()
    assert not task.done(), "there is nothing to compete with"
    try:
        return await _first_token_ms(client, 100 + number)
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _freed_after_ms(client: httpx.AsyncClient, number: int) -> float:
    body = {"prompt": f"# {number}\n" + SOURCE[9000:20000], "max_tokens": 64, "temperature": 0}
    task = asyncio.create_task(anext(_events(client, body, "agent")))
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.wait([task])
    started = time.perf_counter()
    while "composer_running_requests 0" not in (await client.get("/metrics")).text:
        await asyncio.sleep(0.002)
    return 1000 * (time.perf_counter() - started)


async def _events(client: httpx.AsyncClient, body: dict[str, Any], priority: str) -> Any:
    request = {"model": MODEL, "stream": True, **body}
    headers = {"X-Composer-Priority": priority}
    async with client.stream("POST", "/v1/completions", json=request, headers=headers) as answer:
        answer.raise_for_status()
        async for line in answer.aiter_lines():
            if line.startswith("data: {"):
                yield json.loads(line[6:])
