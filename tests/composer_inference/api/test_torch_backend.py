"""Our own decoder over HTTP: a tiny mixture of experts, made on the spot."""

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from composer_inference.api.app import create_app
from composer_inference.backends.torch_config import DecoderOptions, TorchDecoderConfig
from composer_inference.backends.torch_decoder import TorchDecoderBackend
from composer_inference.engine import Engine
from tests.composer_inference.decoder.tiny import save_mixture, save_reference
from tests.support.played import PlayedLoader
from tests.support.vocabularies import byte_level_folder

LIMIT_S = 60.0
PROMPT = "def greet(name):\n    return"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_mixture(tmp_path_factory.mktemp("mixture"))


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dense")
    save_reference("qwen2", path, vocab_size=512)
    return byte_level_folder(path)


async def load(path: Path) -> TorchDecoderBackend:
    options = DecoderOptions(dtype="f32", device="cpu", cache_bytes=4 << 20)
    config = TorchDecoderConfig(path=path, threads=1, context_tokens=256, options=options)
    return await TorchDecoderBackend.load(config)


@pytest.fixture
async def backend(folder: Path) -> TorchDecoderBackend:
    return await load(folder)


@pytest.fixture
async def http(backend: TorchDecoderBackend) -> AsyncIterator[httpx.AsyncClient]:
    engine = Engine(PlayedLoader(backend), on_drain=lambda: None)
    transport = httpx.ASGITransport(create_app(engine, token=None))
    async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
        yield client
    await backend.close()


async def complete(http: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    fields = {"prompt": PROMPT, "ignore_eos": True, "max_tokens": 12, **body}
    answer = await http.post("/v1/completions", json=fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_choices_share_their_prompt(http: httpx.AsyncClient):
    prompt = PROMPT * 3
    body = await complete(http, prompt=prompt, n=3, seed=5, temperature=1)
    texts = [choice["text"] for choice in body["choices"]]
    assert len(set(texts)) == 3
    for index, text in enumerate(texts):
        alone = await complete(http, prompt=prompt, seed=5 + index, temperature=1)
        assert alone["choices"][0]["text"] == text
    num_prompt = body["usage"]["prompt_tokens"]
    assert body["usage"]["completion_tokens"] == 36
    assert body["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
    # Once, and of each but the first the tokens of the block that is not whole.
    assert num_prompt <= body["timings"]["num_prefill_tokens"] < num_prompt + 2 * 16 + 1


async def test_a_prediction_saves_steps(http: httpx.AsyncClient, backend: TorchDecoderBackend):
    plain = await complete(http, max_tokens=60)
    old = {"type": "content", "content": plain["choices"][0]["text"]}
    counts = backend.stepper.counts
    before = counts.num_steps
    drafted = await complete(http, max_tokens=60, prediction=old)
    assert drafted["choices"][0]["text"] == plain["choices"][0]["text"]
    assert counts.num_steps - before < 60
    details = drafted["usage"]["completion_tokens_details"]
    assert details["accepted_prediction_tokens"] > 0
    assert "completion_tokens_details" not in plain["usage"]


async def test_token_ids_are_those_sampled(http: httpx.AsyncClient, backend: TorchDecoderBackend):
    body = await complete(http, return_token_ids=True, logprobs=1, temperature=1, seed=3)
    [choice] = body["choices"]
    assert len(choice["token_ids"]) == 12
    more = await http.post(
        "/v1/completions",
        json={"prompt": [PROMPT, *choice["token_ids"]], "max_tokens": 0},
    )
    assert more.json()["usage"]["prompt_tokens"] == body["usage"]["prompt_tokens"] + 12


async def test_router_choices_of_every_token(http: httpx.AsyncClient):
    for path, said in (
        ("/v1/completions", {"prompt": PROMPT}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
    ):
        answer = await http.post(
            path, json={**said, "max_tokens": 5, "ignore_eos": True, "return_router_choices": True}
        )
        body = answer.json()
        choices = body["choices"][0]["router_choices"]
        assert len(choices) == body["usage"]["total_tokens"] - 1
        assert {len(layers) for layers in choices} == {2}
        assert {len(experts) for layers in choices for experts in layers} == {2}
        assert {e for layers in choices for experts in layers for e in experts} <= set(range(6))
    assert "router_choices" not in (await complete(http))["choices"][0]


async def test_a_dense_model_has_no_router(dense: Path):
    backend = await load(dense)
    try:
        engine = Engine(PlayedLoader(backend), on_drain=lambda: None)
        transport = httpx.ASGITransport(create_app(engine, token=None))
        async with httpx.AsyncClient(transport=transport, base_url="http://engine") as http:
            answer = await http.post(
                "/v1/completions", json={"prompt": "x", "return_router_choices": True}
            )
    finally:
        await backend.close()
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unsupported")
    assert "router_choices" in answer.json()["error"]["message"]


async def test_weights_are_replaced(
    http: httpx.AsyncClient, folder: Path, dense: Path, tmp_path: Path
):
    from safetensors.torch import load_file, save_file

    long = PROMPT * 3
    before = await complete(http, prompt=long)
    assert before["composer"] == {"weights_version": 0}
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    head = tensors["lm_head.weight"]
    save_file({**tensors, "lm_head.weight": head.roll(1, 0)}, file)

    running = asyncio.create_task(complete(http, max_tokens=100))
    reloaded = await http.post("/v1/composer/reload", json={"path": str(tmp_path)})
    assert (reloaded.status_code, reloaded.json()) == (200, {"weights_version": 1})
    assert (await running)["usage"]["completion_tokens"] == 100
    after = await complete(http, prompt=long)
    assert after["composer"] == {"weights_version": 1}
    assert after["choices"][0]["text"] != before["choices"][0]["text"]
    assert after["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}

    for path, says in ((dense, "describes another model"), (tmp_path / "gone", "there is no")):
        refused = await http.post("/v1/composer/reload", json={"path": str(path)})
        assert refused.status_code == 400
        assert says in refused.json()["error"]["message"]
    again = await complete(http, prompt=long)
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] >= 16
    assert again["composer"] == {"weights_version": 1}
    assert again["choices"][0]["text"] == after["choices"][0]["text"]


async def test_metrics_of_the_model(
    backend: TorchDecoderBackend, http: httpx.AsyncClient, folder: Path
):
    prediction = {"type": "content", "content": "anything at all"}
    body = await complete(http, prompt=PROMPT * 2, prediction=prediction)
    async with asyncio.timeout(LIMIT_S):
        while backend.stats().num_running:  # The answer comes before its memory is free.
            await asyncio.sleep(0)
    text = (await http.get("/metrics")).text
    values = {
        name: int(value)
        for name, value in re.findall(r"^composer_model_(\w+)\{.*?\} (\d+)$", text, re.M)
    }
    index = json.loads((folder / "model.safetensors").read_bytes()[8:].split(b"}}")[0] + b"}}")
    stored = {name: entry["data_offsets"] for name, entry in index.items() if "dtype" in entry}
    assert values["weights_bytes"] == sum(end - start for start, end in stored.values())
    assert values["kv_cache_bytes"] > 3 << 20
    assert values["running_requests"] == values["waiting_requests"] == 0
    assert values["computed_tokens_total"] >= body["usage"]["total_tokens"] - 1
    assert 0 < values["steps_total"] <= values["computed_tokens_total"]
    drafted, accepted = values["drafted_tokens_total"], values["accepted_tokens_total"]
    assert (drafted, accepted) == (
        body["timings"]["num_drafted"],
        body["timings"]["num_draft_accepted"],
    )
    blocks = dict(re.findall(r'composer_model_kv_blocks\{.*state="(\w+)"\} (\d+)', text))
    assert int(blocks["held"]) == 0
    assert int(blocks["cached"]) == (body["usage"]["total_tokens"] - 1) // 16
    assert int(blocks["free"]) > int(blocks["cached"])


async def test_what_was_said_is_penalised(http: httpx.AsyncClient):
    plain = await complete(http, max_tokens=40, return_token_ids=True)
    said = set(plain["choices"][0]["token_ids"])
    fields = {"frequency_penalty": 2, "presence_penalty": 2}
    varied = await complete(http, max_tokens=40, return_token_ids=True, **fields)
    assert len(set(varied["choices"][0]["token_ids"])) > len(said)
    prediction = {"type": "content", "content": plain["choices"][0]["text"]}
    drafted = await complete(http, max_tokens=40, prediction=prediction, **fields)
    assert drafted["choices"][0]["text"] == varied["choices"][0]["text"]
