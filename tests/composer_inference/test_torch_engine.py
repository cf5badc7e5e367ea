"""The engine with our own decoder: a model's folder over HTTP, and what happens when it is damaged."""

import asyncio
import json
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from safetensors.torch import load_file, save_file

from composer_inference.api.app import create_app
from composer_inference.backends.base import Backend
from composer_inference.backends.torch_config import DecoderOptions
from composer_inference.batching.batcher import Batcher
from composer_inference.engine import Engine
from composer_inference.load_guard import LoadGuard
from composer_inference.models.store import ModelStore
from composer_inference.torch_loader import TorchLoader
from composer_inference.weights.checkpoint import CheckpointError
from composer_inference.weights.safetensors_checkpoint import SafetensorsCheckpoint
from tests.support.gguf_files import write_tiny_llama
from tests.support.vocabularies import byte_level_folder

SHARD = "model.safetensors"
CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 512,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
}


def weights() -> dict[str, torch.Tensor]:
    shapes = {"model.embed_tokens.weight": (512, 16), "lm_head.weight": (512, 16)}
    for layer in range(2):
        prefix = f"model.layers.{layer}"
        for name, shape in {
            "self_attn.q_proj": (16, 16),
            "self_attn.k_proj": (8, 16),
            "self_attn.v_proj": (8, 16),
            "self_attn.o_proj": (16, 16),
            "mlp.gate_proj": (32, 16),
            "mlp.up_proj": (32, 16),
            "mlp.down_proj": (16, 32),
        }.items():
            shapes[f"{prefix}.{name}.weight"] = shape
    generator = torch.Generator().manual_seed(0)
    found = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    norms = ["input_layernorm", "post_attention_layernorm"]
    for name in [f"model.layers.{layer}.{norm}" for layer in range(2) for norm in norms]:
        found[f"{name}.weight"] = torch.ones(16)
    return found | {"model.norm.weight": torch.ones(16)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "tiny-llama"
    path.mkdir()
    byte_level_folder(path)
    (path / "config.json").write_text(json.dumps(CONFIG))
    save_file(weights(), path / SHARD)
    return path


@pytest.fixture
async def http(
    folder: Path, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[httpx.AsyncClient]:
    monkeypatch.setenv("COMPOSER_DATA_DIR", str(short_dir / "data"))
    monkeypatch.setenv("COMPOSER_RUNTIME_DIR", str(short_dir / "run"))
    async with served(folder) as client:
        yield client


@asynccontextmanager
async def served(
    folder: Path, *, draft_model: str = "", **options: Any
) -> AsyncGenerator[httpx.AsyncClient]:
    chosen = DecoderOptions(device="cpu", dtype="f32", **options)
    loader = TorchLoader(
        str(folder), chosen, threads=1, context_tokens=200, draft_model=draft_model
    )
    engine = Engine(loader, on_drain=lambda: None)
    transport = httpx.ASGITransport(create_app(engine, token=None))
    async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
        yield client
    await engine.close()


async def complete(http: httpx.AsyncClient, **body: Any) -> httpx.Response:
    return await http.post(
        "/v1/completions", json={"prompt": "def greet(name):", "max_tokens": 12, **body}
    )


async def test_a_folder_that_ended_engines_is_not_to_be_verified(
    http: httpx.AsyncClient, folder: Path
) -> None:
    # Kept, since a collected one would count as a load that came to an end.
    begun = [LoadGuard("tiny-llama", folder).watched() for _ in range(2)]
    for each in begun:
        each.__enter__()
    answer = await complete(http)
    assert answer.status_code >= 500
    assert "ended the engine 2 times" in answer.text
    assert "model verify" not in answer.text


async def test_a_folder_is_served_under_its_name(http: httpx.AsyncClient) -> None:
    answer = await complete(http, model="tiny-llama")
    assert answer.status_code == 200, answer.text
    choice = answer.json()["choices"][0]
    assert choice["finish_reason"] in ("stop", "length")
    assert (await complete(http)).json()["choices"][0]["text"] == choice["text"]
    models = (await http.get("/v1/models")).json()["data"]
    assert [model["id"] for model in models] == ["tiny-llama"]


async def test_a_smaller_model_drafts_and_changes_no_text(
    http: httpx.AsyncClient, folder: Path
) -> None:
    asked = {"prompt": "qz", "max_tokens": 60, "ignore_eos": True}
    plain = (await complete(http, **asked)).json()
    async with served(folder, draft_model=str(folder)) as drafting:
        drafted = (await complete(drafting, **asked)).json()
        entries = await drafting.get("/metrics")
    assert drafted["choices"][0]["text"] == plain["choices"][0]["text"]
    assert drafted["timings"]["num_draft_accepted"] > plain["timings"]["num_draft_accepted"]
    assert weights_bytes(entries.text) == 2 * weights_bytes((await http.get("/metrics")).text)


def weights_bytes(metrics: str) -> float:
    return metric(metrics, "composer_model_weights_bytes")


def metric(metrics: str, name: str) -> float:
    return float(next(line for line in metrics.splitlines() if line.startswith(name)).split()[-1])


async def test_a_draft_model_of_another_vocabulary_is_refused(
    folder: Path, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMPOSER_DATA_DIR", str(short_dir / "data"))
    other = folder.with_name("other")
    shutil.copytree(folder, other)
    vocabulary = json.loads((other / "tokenizer.json").read_text())
    tokens = vocabulary["model"]["vocab"]
    first, second = list(tokens)[40:42]
    tokens[first], tokens[second] = tokens[second], tokens[first]
    (other / "tokenizer.json").write_text(json.dumps(vocabulary))
    async with served(folder, draft_model=str(other)) as client:
        answer = await complete(client)
    assert answer.status_code == 500
    assert "other cannot draft for this model: its token" in answer.json()["error"]["message"]


def without_norm(folder: Path) -> None:
    tensors = load_file(folder / SHARD)
    del tensors["model.norm.weight"]
    save_file(tensors, folder / SHARD)


def with_another_layer(folder: Path) -> None:
    tensors = load_file(folder / SHARD)
    last = {name: tensor for name, tensor in tensors.items() if ".layers.1." in name}
    more = {name.replace(".1.", ".2."): tensor.clone() for name, tensor in last.items()}
    save_file(tensors | more, folder / SHARD)
    (folder / "config.json").write_text(json.dumps(CONFIG | {"num_hidden_layers": 3}))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(
            without_norm, "the draft model: tensor model.norm.weight is missing", id="incomplete"
        ),
        pytest.param(
            with_another_layer, "the model that it is to draft for 21,072; take", id="larger"
        ),
    ],
)
async def test_a_draft_model_that_cannot_be_used_is_told_as_such(
    folder: Path,
    short_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path], object],
    told: str,
) -> None:
    monkeypatch.setenv("COMPOSER_DATA_DIR", str(short_dir / "data"))
    draft = shutil.copytree(folder, folder.with_name("draft"))
    change(draft)
    async with served(folder, draft_model=str(draft)) as client:
        answer = await complete(client)
    assert answer.status_code == 500
    assert told in answer.json()["error"]["message"]


OTHER_VOCABULARY: dict[str, Any] = {
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))],
    "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256],
    "tokenizer.ggml.scores": [0.0] * 259,
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
}


async def test_a_draft_model_drafts_for_the_named_model_alone(
    http: httpx.AsyncClient, folder: Path, short_dir: Path
) -> None:
    other = short_dir / "other.gguf"
    ModelStore().register(write_tiny_llama(other, OTHER_VOCABULARY), "other")
    async with served(folder, draft_model=str(folder)) as drafting:
        answer = await complete(drafting, model="other", prompt=[1, 2])
        assert answer.status_code == 200, answer.text
        assert (await complete(drafting)).status_code == 200


async def test_both_models_share_the_memory_that_is_given(
    http: httpx.AsyncClient, folder: Path
) -> None:
    given = 256 << 10
    async with served(folder, draft_model=str(folder), cache_bytes=given) as drafting:
        assert (await complete(drafting)).status_code == 200
        taken = metric((await drafting.get("/metrics")).text, "composer_model_kv_cache_bytes")
    assert 0.9 * given < taken <= given


async def test_the_same_seed_gives_the_same_text_whatever_else_is_computed(
    http: httpx.AsyncClient,
) -> None:
    alone = await complete(http, temperature=1.0, seed=3)
    beside = await asyncio.gather(
        complete(http, temperature=1.0, seed=3),
        *(complete(http, temperature=1.0, seed=seed, prompt="x" * seed) for seed in range(4, 9)),
    )
    assert beside[0].json()["choices"][0]["text"] == alone.json()["choices"][0]["text"]
    assert len({answer.json()["choices"][0]["text"] for answer in beside}) > 1


async def test_a_decoder_that_failed_is_loaded_anew(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Batcher, max_tokens: int) -> object:
        raise AssertionError("an invariant")

    whole = await complete(http)
    with monkeypatch.context() as patch:
        patch.setattr(Batcher, "plan", fail)
        answer = await complete(http)
        assert answer.status_code == 500
        assert "an invariant" in answer.json()["error"]["message"]
    assert (await complete(http)).json()["choices"] == whole.json()["choices"]


def truncate(folder: Path) -> None:
    shard = folder / SHARD
    shard.write_bytes(shard.read_bytes()[:-100])


def drop_tensor(folder: Path) -> None:
    tensors = load_file(folder / SHARD)
    del tensors["model.layers.1.mlp.down_proj.weight"]
    save_file(tensors, folder / SHARD)


def round_weights(folder: Path) -> None:
    tensors = load_file(folder / SHARD)
    name = "model.layers.1.mlp.down_proj.weight"
    save_file({**tensors, name: tensors[name].long()}, folder / SHARD)


def enlarge_tokenizer(folder: Path) -> None:
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    last = tokenizer["added_tokens"][-1]
    tokenizer["added_tokens"] += [
        {**last, "id": last["id"] + number, "content": f"<more-{number}>"}
        for number in range(1, 200)
    ]
    path.write_text(json.dumps(tokenizer))


def configured(**values: Any) -> Callable[[Path], object]:
    return lambda folder: (folder / "config.json").write_text(json.dumps(CONFIG | values))


def scaled(kind: str, **values: Any) -> Callable[[Path], object]:
    return configured(rope_scaling={"rope_type": kind, **values})


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        pytest.param(configured(num_hidden_layers=10**6), "num_hidden_layers", id="layers"),
        pytest.param(configured(hidden_size=2**63), "hidden_size", id="a size beyond 64 bits"),
        pytest.param(configured(rms_norm_eps=float("nan")), "rms_norm_eps", id="an eps of NaN"),
        pytest.param(configured(rms_norm_eps=-1.0), "rms_norm_eps", id="a negative eps"),
        pytest.param(configured(rope_theta=0), "rope_theta", id="a theta of 0"),
        pytest.param(configured(rope_theta=10**400), "rope_theta", id="a theta beyond floats"),
        pytest.param(
            configured(partial_rotary_factor=2.0), "partial_rotary_factor", id="two heads rotated"
        ),
        pytest.param(scaled("linear", factor=0), "rope_scaling.factor", id="a factor of 0"),
        pytest.param(scaled("yarn", factor=float("inf")), "rope_scaling.factor", id="infinite"),
        pytest.param(scaled("yarn", factor=2.0, beta_fast=0), "beta_fast", id="a beta of 0"),
        pytest.param(
            lambda f: (f / "config.json").write_text("[" * 100_000), "config.json", id="deep JSON"
        ),
        pytest.param(truncate, SHARD, id="a shard cut short"),
        pytest.param(drop_tensor, "model.layers.1.mlp.down_proj.weight", id="a missing tensor"),
        pytest.param(round_weights, "down_proj.weight holds torch.int64", id="whole numbers"),
        pytest.param(enlarge_tokenizer, "512", id="a tokenizer that does not fit"),
        pytest.param(
            lambda f: (f / "tokenizer.json").unlink(), "tokenizer.json", id="no tokenizer"
        ),
        pytest.param(lambda f: (f / "config.json").write_text("{"), "config.json", id="no config"),
        pytest.param(
            lambda f: (f / "config.json").write_text('{"model_type": "llama"}'),
            "vocab_size",
            id="a config without its keys",
        ),
    ],
)
async def test_damaged_files_are_named_and_the_engine_lives(
    folder: Path, http: httpx.AsyncClient, damage: Callable[[Path], object], told: str
) -> None:
    whole = folder.with_name("whole")
    shutil.copytree(folder, whole)
    damage(folder)
    answer = await complete(http)
    assert answer.status_code == 500, answer.text
    assert told in answer.json()["error"]["message"]
    shutil.rmtree(folder)
    shutil.copytree(whole, folder)
    assert (await complete(http)).status_code == 200


async def test_a_model_that_failed_to_load_is_loaded_anew(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(self: TorchLoader, name: str) -> Backend:
        raise RuntimeError("not enough memory")

    with monkeypatch.context() as patch:
        patch.setattr(TorchLoader, "load", fail)
        answer = await complete(http)
        assert answer.json()["error"]["code"] == "model_load_failed"
        assert "not enough memory" in answer.json()["error"]["message"]
        (model,) = (await http.get("/health")).json()["models"]
        assert model["state"] == "failed"
    assert (await complete(http)).status_code == 200


async def test_weights_that_break_off_midway_are_not_computed_with(
    folder: Path, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (await complete(http)).json()
    other = shutil.copytree(folder, folder.with_name("other"))
    save_file({name: 2 * tensor for name, tensor in weights().items()}, other / SHARD)
    last = "model.norm.weight"
    read = SafetensorsCheckpoint.tensor

    def break_off(self: SafetensorsCheckpoint, name: str) -> torch.Tensor:
        if name == last:
            raise CheckpointError(f"tensor {name} cannot be read")
        return read(self, name)

    with monkeypatch.context() as patch:
        patch.setattr(SafetensorsCheckpoint, "tensor", break_off)
        answer = await http.post("/v1/composer/reload", json={"path": str(other)})
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "backend_failed")
    assert last in answer.json()["error"]["message"]
    after = (await complete(http)).json()
    assert (after["choices"], after["composer"]) == (before["choices"], before["composer"])


async def test_a_path_that_cannot_be_looked_for_is_refused(http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/composer/reload", json={"path": "/" + "a" * 5000})
    assert answer.status_code == 400
    assert "too long" in answer.json()["error"]["message"]


async def test_a_prompt_that_is_too_long_is_told_with_the_numbers(http: httpx.AsyncClient) -> None:
    answer = await complete(http, prompt="a b " * 300)
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert "200" in answer.json()["error"]["message"]
    assert (await complete(http)).status_code == 200


async def test_too_little_memory_is_told_with_the_numbers(
    folder: Path, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMPOSER_DATA_DIR", str(short_dir / "data"))
    monkeypatch.setenv("COMPOSER_RUNTIME_DIR", str(short_dir / "run"))
    options = DecoderOptions(device="cpu", cache_bytes=4096)
    engine = Engine(
        TorchLoader(str(folder), options, threads=1, context_tokens=200), on_drain=lambda: None
    )
    transport = httpx.ASGITransport(create_app(engine, token=None))
    async with httpx.AsyncClient(transport=transport, base_url="http://engine") as client:
        answer = await complete(client)
    assert answer.status_code == 500
    assert "4,096" in answer.json()["error"]["message"]
    assert "--context-tokens" in answer.json()["error"]["message"]
    await engine.close()
