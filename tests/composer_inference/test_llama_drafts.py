"""Drafts of llama.cpp's own: the same tokens as without, ids and text complete, for whom they are."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from composer_inference.backends.base import (
    Capability,
    GenerateChunk,
    GenerateRequest,
    MissingCapabilityError,
    SamplingParams,
)
from composer_inference.backends.llama_cpp import LlamaCppBackend
from composer_inference.backends.llama_server import LlamaCppConfig
from tests.support.gguf_models import write_gguf

SIZES: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
OLD = "abbabaaabbbabbabababbbaaabab" * 2
REQUEST = GenerateRequest(
    prompt=(f"b{OLD}a", 7, 9),
    sampling=SamplingParams(max_tokens=150, ignore_eos=True),
    draft_text=OLD,
)


@pytest.fixture(scope="module")
def gguf_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    config = transformers.Qwen2Config(**SIZES)
    model = transformers.Qwen2ForCausalLM(config)
    path = tmp_path_factory.mktemp("drafts") / "tiny.gguf"
    write_gguf(path, config.to_dict(), model.state_dict(), tokens=96, control=False)
    return path


@pytest.fixture
async def backend(
    gguf_path: Path, short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[LlamaCppBackend]:
    monkeypatch.setenv("COMPOSER_RUNTIME_DIR", str(short_dir / "run"))
    backend = await LlamaCppBackend.load(config(gguf_path))
    yield backend
    await backend.close()


def config(path: Path) -> LlamaCppConfig:
    return LlamaCppConfig(path=path, threads=1, context_tokens=512, prefill_slice_tokens=16)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    token_ids: tuple[int, ...]
    text: str
    chunks: list[GenerateChunk]

    @property
    def num_drafted(self) -> int:
        return self.chunks[-1].timings.num_drafted


async def answer(backend: LlamaCppBackend, request: GenerateRequest) -> Answer:
    chunks = [chunk async for chunk in backend.generate(request)]
    ids = tuple(token_id for chunk in chunks for token_id in chunk.token_ids)
    return Answer(token_ids=ids, text="".join(chunk.text for chunk in chunks), chunks=chunks)


def undrafted(request: GenerateRequest) -> GenerateRequest:
    return replace(request, draft_text=None)


def with_sampling(**values: Any) -> GenerateRequest:
    return replace(REQUEST, sampling=replace(REQUEST.sampling, **values))


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(REQUEST, id="greedy"),
        pytest.param(with_sampling(temperature=0.7, seed=5), id="sampled with a seed"),
        pytest.param(with_sampling(repeat_penalty=1.01), id="penalised"),
        pytest.param(with_sampling(max_tokens=1), id="one token"),
        pytest.param(with_sampling(stop=("<16><16><16>",)), id="a stop string over tokens"),
        pytest.param(with_sampling(max_tokens=1000), id="up to the context's end"),
    ],
)
async def test_drafts_change_nothing(backend: LlamaCppBackend, request_: GenerateRequest):
    plain = await answer(backend, undrafted(request_))
    drafted = await answer(backend, request_)
    assert drafted.token_ids == plain.token_ids
    assert drafted.text == plain.text
    assert drafted.chunks[-1].finish_reason == plain.chunks[-1].finish_reason
    assert plain.num_drafted == 0


async def test_drafts_are_made_and_counted(backend: LlamaCppBackend):
    drafted = await answer(backend, REQUEST)
    timings = drafted.chunks[-1].timings
    assert timings.num_drafted > timings.num_draft_accepted > 0
    assert timings.num_decoded_tokens == len(drafted.token_ids) == 150


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(undrafted(REQUEST), id="no draft text"),
        pytest.param(replace(REQUEST, draft_text="abab" * 9), id="text that the prompt lacks"),
        pytest.param(replace(REQUEST, draft_text=" \n"), id="blank text"),
        pytest.param(with_sampling(num_logprobs=2), id="log-probabilities"),
        pytest.param(with_sampling(max_tokens=0), id="only a prefill"),
        pytest.param(replace(REQUEST, grammar='root ::= "a"+'), id="a grammar"),
    ],
)
async def test_what_is_never_drafted_for(backend: LlamaCppBackend, request_: GenerateRequest):
    plain = await answer(backend, request_)
    assert plain.num_drafted == 0
    assert all(len(chunk.logprobs) == len(chunk.token_ids) for chunk in plain.chunks)


async def test_it_resumes_after_any_chunk_that_says_so(backend: LlamaCppBackend):
    request = with_sampling(stop=("<16><16><17>",))
    whole = await answer(backend, request)
    places = [
        place
        for place, chunk in enumerate(whole.chunks)
        if chunk.resumable and chunk.token_ids and chunk.finish_reason is None
    ]
    assert len(places) > 20
    assert len(places) < sum(bool(chunk.token_ids) for chunk in whole.chunks), "some hold text back"
    for place in places[::9]:
        before = whole.chunks[: place + 1]
        ids = tuple(token_id for chunk in before for token_id in chunk.token_ids)
        sampling = replace(request.sampling, max_tokens=150 - len(ids))
        rest = await answer(
            backend, replace(request, prompt=(*request.prompt, *ids), sampling=sampling)
        )
        assert ids + rest.token_ids == whole.token_ids
        assert "".join(chunk.text for chunk in before) + rest.text == whole.text


async def test_a_request_given_up_frees_the_slot(backend: LlamaCppBackend):
    whole = await answer(backend, REQUEST)
    for _ in range(5):
        stream = backend.generate(REQUEST)
        while not (await anext(stream)).token_ids:
            pass
        await stream.aclose()
    assert (await answer(backend, REQUEST)).token_ids == whole.token_ids


async def test_several_at_once(backend: LlamaCppBackend):
    alone = await answer(backend, REQUEST)
    together = await asyncio.gather(
        *(answer(backend, each) for each in (REQUEST, undrafted(REQUEST), REQUEST))
    )
    assert [each.token_ids for each in together] == [alone.token_ids] * 3


async def test_drafts_turned_off(gguf_path: Path, short_dir: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COMPOSER_RUNTIME_DIR", str(short_dir / "run"))
    backend = await LlamaCppBackend.load(replace(config(gguf_path), can_draft=False))
    assert Capability.DRAFT_TEXT not in backend.capabilities
    with pytest.raises(MissingCapabilityError, match="draft text"):
        await answer(backend, REQUEST)
    await backend.close()


@pytest.mark.parametrize(("slice_tokens", "num_drafted"), [(16, 15), (32, 31), (512, 31)])
def test_a_draft_and_the_token_before_it_fit_a_slice(slice_tokens: int, num_drafted: int):
    sliced = replace(config(Path("m.gguf")), prefill_slice_tokens=slice_tokens)
    assert sliced.num_draft_tokens == num_drafted
