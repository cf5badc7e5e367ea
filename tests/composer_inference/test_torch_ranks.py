"""The engine with a model that two processes share: same texts, and no hang when one of them ends."""

import asyncio
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from composer_inference.api.app import create_app
from composer_inference.backends.base import BackendLostError, GenerateRequest, SamplingParams
from composer_inference.backends.torch_config import DecoderOptions
from composer_inference.decoder.parallel.shard import ParallelConfig, ParallelError
from composer_inference.engine import Engine
from composer_inference.priority import Priority
from composer_inference.torch_loader import TorchLoader
from tests.composer_inference.decoder.tiny import save_mixture

LIMIT_S = 120.0
PROMPT = "def greet(name):\n    return"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_mixture(tmp_path_factory.mktemp("mixture"))


Start = Callable[..., Engine]


@pytest.fixture
async def start(
    folder: Path, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Start]:
    monkeypatch.setenv("COMPOSER_DATA_DIR", str(short_dir / "data"))
    monkeypatch.setenv("COMPOSER_RUNTIME_DIR", str(short_dir / "run"))
    async with AsyncExitStack() as stack:

        def engine(*, tp: int = 1, ep: int = 1) -> Engine:
            given = DecoderOptions(device="cpu", dtype="f32", parallel=ParallelConfig(tp=tp, ep=ep))
            loader = TorchLoader(str(folder), given, threads=1, context_tokens=256)
            made = Engine(loader, on_drain=lambda: None)
            stack.push_async_callback(made.close)
            return made

        yield engine
    assert not multiprocessing.active_children()


def client(engine: Engine) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(create_app(engine, token=None))
    return httpx.AsyncClient(transport=transport, base_url="http://engine")


async def texts(http: httpx.AsyncClient) -> list[str]:
    """Of requests that are computed together: greedy, drawn, drafted."""
    bodies: list[dict[str, Any]] = [
        {"prompt": PROMPT},
        {"prompt": PROMPT * 5, "temperature": 1.0, "seed": 3},
        {"prompt": PROMPT, "prediction": {"type": "content", "content": PROMPT * 2}},
    ]
    fields = {"ignore_eos": True, "max_tokens": 24}
    answers = await asyncio.gather(
        *(http.post("/v1/completions", json={**fields, **body}) for body in bodies)
    )
    assert [answer.status_code for answer in answers] == [200] * len(bodies), answers[0].text
    return [answer.json()["choices"][0]["text"] for answer in answers]


async def test_texts_are_those_of_one_process_also_of_other_weights(
    start: Start, tmp_path: Path
) -> None:
    other, unfit = tmp_path / "other", tmp_path / "unfit"
    for path, changes in ((other, {"initializer_range": 0.3}), (unfit, {"num_experts": 4})):
        save_mixture(path, **changes)
    found: list[list[str]] = []
    for options in ({}, {"tp": 2, "ep": 2}):
        async with asyncio.timeout(LIMIT_S), client(start(**options)) as http:
            found.append(await texts(http))
            refused = await http.post("/v1/composer/reload", json={"path": str(unfit)})
            assert refused.status_code == 400 and "another model" in refused.text
            found.append(await texts(http))
            taken = await http.post("/v1/composer/reload", json={"path": str(other)})
            assert taken.status_code == 200, taken.text
            found.append(await texts(http))
    alone, shared = found[:3], found[3:]
    assert shared == alone
    assert alone[0] == alone[1] != alone[2]


async def test_a_killed_process_ends_the_request_and_the_next_one_loads_anew(start: Start) -> None:
    engine = start(tp=2)
    request = GenerateRequest(
        prompt=(PROMPT,), sampling=SamplingParams(max_tokens=200, ignore_eos=True)
    )
    async with asyncio.timeout(LIMIT_S):
        with pytest.raises(BackendLostError, match="rank 1 ended with -9"):
            async for _ in engine.generate("auto", request, Priority.AGENT):
                for process in multiprocessing.active_children():
                    process.kill()
        async with client(engine) as http:
            assert len(await texts(http)) == 3


async def test_what_cannot_be_shared_out_is_told(start: Start) -> None:
    async with asyncio.timeout(LIMIT_S), client(start(ep=4)) as http:
        answer = await http.post("/v1/completions", json={"prompt": PROMPT})
    assert answer.status_code == 500
    assert "6 experts cannot be shared out evenly over 4" in answer.json()["error"]["message"]


def test_options_that_do_not_go_together_are_told_at_the_start(folder: Path) -> None:
    with pytest.raises(ParallelError, match="--tp 4 and --ep 3"):
        ParallelConfig(tp=4, ep=3)
    options, path = DecoderOptions(parallel=ParallelConfig(tp=2)), str(folder)
    with pytest.raises(ParallelError, match="leave out --tp and --ep, or --draft-model"):
        TorchLoader(path, options, threads=1, context_tokens=256, draft_model=path)


PARENT = """
import multiprocessing, sys
from tests.support.orphans import wait_forever

if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=wait_forever)
    process.start()
    process.join()
"""


def test_a_process_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert parent.stdout is not None
    child = json.loads(parent.stdout.readline())
    assert child["parent"] == parent.pid
    parent.send_signal(signal.SIGKILL)
    # The child holds the other end: this returns when it has ended.
    assert parent.communicate(timeout=LIMIT_S) == (b"", None)
