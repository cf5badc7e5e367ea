"""The index's worker as a child process, played by a small program that speaks the same lines."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from composer_lsp.engine.backoff import Backoff
from composer_lsp.index.client import IndexClient, WorkerError
from tests.support.workers import workers_of

WORKER = """
import asyncio
from composer_index.worker.channel import Channel, RefusedError

seen = []

async def echo(params):
    return params

async def note(params):
    seen.append(params)
    channel.tell("noted", params)

async def told(params):
    print("this line must not come between messages", flush=True)
    return seen

async def refuse(params):
    raise RefusedError("no such folder: /nowhere")

async def fault(params):
    raise ZeroDivisionError("a bug")

async def slow(params):
    channel.tell("slow began", {})
    try:
        await asyncio.sleep(600)
    finally:
        channel.tell("slow ended", {})

async def main():
    global channel
    handlers = (echo, note, told, refuse, fault, slow)
    channel = Channel({handler.__name__: handler for handler in handlers})
    await channel.run()

asyncio.run(main())
"""
LIMIT_S = 60


class Parent:
    """What owns a client: its state, and what the worker told it."""

    def __init__(self, log: Path, command: list[str], backoff: Backoff | None = None) -> None:
        self.state: list[tuple[str, dict[str, Any]]] = []
        self.events: asyncio.Queue[tuple[str, Mapping[str, Any]]] = asyncio.Queue()
        self.client = IndexClient(
            command,
            log=log,
            state=lambda: self.state,
            on_event=lambda method, params: self.events.put_nowait((method, params)),
            backoff=backoff,
        )

    async def until(self, name: str) -> Mapping[str, Any]:
        while True:
            method, params = await self.events.get()
            if method == name:
                return params


@asynccontextmanager
async def parent_of(
    folder: Path, command: list[str] | None = None, backoff: Backoff | None = None
) -> AsyncGenerator[Parent]:
    parent = Parent(folder / "index.log", command or [sys.executable, "-c", WORKER], backoff)
    try:
        async with asyncio.timeout(LIMIT_S):
            yield parent
    finally:
        await parent.client.close()


def worker_of_this_process() -> psutil.Process:
    (worker,) = workers_of(psutil.Process())
    return worker


@pytest.mark.parametrize("text", ["plain", "naïve 🦀", "no unicode: \udc80\udcff", "a\nb\r\n\0"])
async def test_any_text_goes_there_and_back(tmp_path: Path, text: str):
    async with parent_of(tmp_path) as parent:
        assert await parent.client.request("echo", {"text": text}) == {"text": text}


async def test_a_new_worker_is_told_the_state_first(tmp_path: Path):
    async with parent_of(tmp_path) as parent:
        parent.state = [("note", {"root": "/a"}), ("note", {"root": "/b"})]
        assert await parent.client.request("told", {}) == [{"root": "/a"}, {"root": "/b"}]


async def test_nothing_is_started_for_a_notification(tmp_path: Path):
    async with parent_of(tmp_path) as parent:
        parent.client.notify("note", {"root": "/a"})
        assert not parent.client.is_running


@pytest.mark.parametrize(
    ("method", "told"),
    [
        ("refuse", "no such folder: /nowhere"),
        ("fault", "ZeroDivisionError: a bug"),
        ("unheard", "no method 'unheard'"),
    ],
)
async def test_a_refusal_reaches_whoever_asked_and_harms_nobody(
    tmp_path: Path, method: str, told: str
):
    async with parent_of(tmp_path) as parent:
        with pytest.raises(WorkerError, match=told):
            await parent.client.request(method, {})
        assert await parent.client.request("echo", {}) == {}


@pytest.mark.skipif(sys.platform == "win32", reason="no process groups")
async def test_a_terminals_ctrl_c_does_not_reach_the_worker(tmp_path: Path):
    """It goes to all processes of the group that the terminal has in front."""
    async with parent_of(tmp_path) as parent:
        await parent.client.request("echo", {})
        assert os.getpgid(worker_of_this_process().pid) != os.getpgrp()


async def test_a_cancelled_request_ends_in_the_worker(tmp_path: Path):
    async with parent_of(tmp_path) as parent:
        task = asyncio.create_task(parent.client.request("slow", {}))
        await parent.until("slow began")
        task.cancel()
        await parent.until("slow ended")
        assert await parent.client.request("echo", {}) == {}


async def test_requests_fail_when_the_worker_dies_and_the_next_start_is_a_new_one(tmp_path: Path):
    backoff = Backoff(clock=lambda: 0.0 if parent_is_impatient else 1e6)
    parent_is_impatient = True
    async with parent_of(tmp_path, backoff=backoff) as parent:
        task = asyncio.create_task(parent.client.request("slow", {}))
        await parent.until("slow began")
        parent.state = [("note", {"root": "/a"})]
        os.kill(worker_of_this_process().pid, signal.SIGTERM)
        with pytest.raises(WorkerError, match=r"ended; see .*index\.log"):
            await task
        assert (await parent.until("ended"))["status"] == -signal.SIGTERM
        with pytest.raises(WorkerError, match="started again in"):
            await parent.client.request("told", {})
        parent_is_impatient = False
        assert await parent.client.request("told", {}) == [{"root": "/a"}]


async def test_a_worker_that_cannot_start_is_told(tmp_path: Path):
    async with parent_of(tmp_path, ["/nowhere/python"]) as parent:
        with pytest.raises(WorkerError, match="/nowhere/python"):
            await parent.client.request("echo", {})


async def test_the_worker_leaves_with_its_parent(tmp_path: Path):
    async with parent_of(tmp_path) as parent:
        await parent.client.request("echo", {})
        worker = worker_of_this_process()
    assert not worker.is_running()


async def test_a_closed_client_starts_nothing(tmp_path: Path):
    async with parent_of(tmp_path) as parent:
        await parent.client.close()
        with pytest.raises(WorkerError, match="closed"):
            await parent.client.request("echo", {})
