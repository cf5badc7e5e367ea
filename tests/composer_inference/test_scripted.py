"""The scripted backend: the same protocol as a model, and the same answer every time."""

import asyncio
import json
from contextlib import aclosing
from pathlib import Path

import pytest

from composer_inference.backends.base import (
    BackendError,
    GenerateChunk,
    GenerateRequest,
    MissingCapabilityError,
    SamplingParams,
)
from composer_inference.backends.scripted import ScriptedBackend, ScriptError

RULES = [
    {"match": "^slow", "text": "one two three", "token_delay_ms": 60_000},
    {"match": "broken", "text": "so far", "error": "the weights are sulking"},
    {"match": r"def \w+\($", "text": "a, b):\n    return a + b\n"},
    {"match": "12", "text": "second"},
]


@pytest.fixture
def script(tmp_path: Path):
    def write(content: object) -> Path:
        path = tmp_path / "script.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


@pytest.fixture
def backend(script) -> ScriptedBackend:
    return ScriptedBackend.from_file(script({"rules": RULES, "default": {"text": "default"}}))


async def chunks_of(
    backend: ScriptedBackend, *prompt: str | int, **sampling
) -> list[GenerateChunk]:
    request = GenerateRequest(prompt=prompt, sampling=SamplingParams(**sampling))
    return [chunk async for chunk in backend.generate(request)]


async def text_of(backend: ScriptedBackend, *prompt: str | int, **sampling) -> str:
    return "".join(chunk.text for chunk in await chunks_of(backend, *prompt, **sampling))


async def test_the_first_rule_that_fits_answers_word_by_word(backend):
    chunks = await chunks_of(backend, "def add(")
    texts = [chunk.text for chunk in chunks if chunk.text]
    assert texts == ["a,", " b):", "\n    return", " a", " +", " b", "\n"]
    assert [chunk.finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert chunks[-1].timings.num_decoded_tokens == 7
    assert chunks[-1].timings.num_prefill_tokens == 2


@pytest.mark.parametrize(
    ("prompt", "text"), [(("x", "y"), "default"), ((1, 2), "second"), (("x", 12), "second")]
)
async def test_pieces_and_token_ids_are_one_prompt(backend, prompt, text):
    assert await text_of(backend, *prompt) == text


@pytest.mark.parametrize(
    ("sampling", "text", "reason"),
    [
        ({"max_tokens": 2}, "a, b):", "length"),
        ({"max_tokens": 0}, "", "length"),
        ({"max_tokens": 7}, "a, b):\n    return a + b\n", "stop"),
        ({"stop": ("\n",)}, "a, b):", "stop"),
        ({"stop": ("+", "return")}, "a, b):\n    ", "stop"),
        ({"stop": ("absent",)}, "a, b):\n    return a + b\n", "stop"),
    ],
)
async def test_limits(backend, sampling, text, reason):
    chunks = await chunks_of(backend, "def add(", **sampling)
    assert "".join(chunk.text for chunk in chunks) == text
    assert chunks[-1].finish_reason == reason


@pytest.mark.parametrize(
    ("sampling", "texts"),
    [
        ({}, {"likeliest"}),
        ({"seed": 1}, {"likeliest"}),
        ({"temperature": 0.8, "seed": 0}, {"first"}),
        ({"temperature": 0.8, "seed": 1}, {"second"}),
        ({"temperature": 0.8, "seed": 2}, {"first"}),
        ({"temperature": 0.8}, {"first", "second"}),
    ],
)
async def test_a_seed_chooses_among_sampled_texts(script, sampling, texts):
    rule = {"match": "", "text": "likeliest", "sampled": ["first", "second"]}
    backend = ScriptedBackend.from_file(script({"rules": [rule]}))
    assert await text_of(backend, "x", **sampling) in texts


async def test_without_sampled_texts_every_answer_is_the_same(backend):
    assert await text_of(backend, "x", temperature=0.8, seed=3) == "default"


async def test_an_error_follows_the_text(backend):
    texts: list[str] = []
    request = GenerateRequest(prompt=("broken",), sampling=SamplingParams())
    with pytest.raises(BackendError, match="sulking"):
        async for chunk in backend.generate(request):
            texts += [chunk.text]
    assert "".join(texts) == "so far"


async def test_a_delay_can_be_cancelled(backend):
    request = GenerateRequest(prompt=("slow",), sampling=SamplingParams())
    async with aclosing(backend.generate(request)) as chunks:
        assert (await anext(chunks)).text == ""
        waiting = asyncio.ensure_future(anext(chunks))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_without_a_default_the_answer_is_empty(script):
    backend = ScriptedBackend.from_file(script({"rules": RULES}))
    assert await text_of(backend, "x") == ""


async def test_what_it_cannot_do_is_refused(backend):
    assert backend.capabilities == frozenset()
    for wanted in ({"json_schema": {}}, {"grammar": "root ::= x"}, {"draft_text": "x"}):
        request = GenerateRequest(prompt=("x",), sampling=SamplingParams(), **wanted)
        with pytest.raises(MissingCapabilityError):
            await anext(backend.generate(request))
    with pytest.raises(MissingCapabilityError, match="log-probabilities"):
        await text_of(backend, "x", num_logprobs=1)
    for call in (backend.embed(["x"]), backend.rerank("x", ["y"]), backend.tokenize("x")):
        with pytest.raises(MissingCapabilityError):
            await call


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "no script: "),
        ("[]", "no JSON object"),
        ({"rulez": []}, "it has rulez"),
        ({"rules": [1]}, "1 is no object"),
        ({"rules": [{"text": "x"}]}, "has no match"),
        ({"rules": [{"match": "("}]}, "no regular expression"),
        ({"rules": [{"match": "", "txt": "x"}]}, "txt is none of"),
        ({"rules": [{"match": "", "token_delay_ms": "1"}]}, "token_delay_ms is '1'"),
        ({"default": {"text": None}}, "text is None"),
        ({"default": {"sampled": ["x", 1]}}, "sampled is .'x', 1."),
        ({"default": {"sampled": "x"}}, "sampled is 'x'"),
    ],
)
def test_a_wrong_script_is_told(script, content, says):
    with pytest.raises(ScriptError, match=f"script.json .*{says}"):
        ScriptedBackend.from_file(script(content))


def test_a_missing_script_is_told(tmp_path):
    with pytest.raises(ScriptError, match=r"missing\.json"):
        ScriptedBackend.from_file(tmp_path / "missing.json")
