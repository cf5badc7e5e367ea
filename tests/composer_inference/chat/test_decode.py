"""Tool calls out of a model's text, decoded anew under a grammar."""

import json
from collections.abc import AsyncGenerator

import pytest

from composer_inference.backends.base import (
    BackendError,
    GenerateChunk,
    GenerateRequest,
    SamplingParams,
    Timings,
    TokenLogprob,
)
from composer_inference.chat.decode import MAX_CALLS, CallRules, Part, ToolCallDecoder
from composer_inference.chat.tools import Tools

TOOLS = Tools(
    [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
        for name in ("grep", "read_file")
    ],
    {"grep": {"type": "object"}, "read_file": {"type": "object"}},
)
CALL = '{"name": "grep", "arguments": {"pattern": "}x{\\""}}'
OTHER = '{"name": "read_file", "arguments": {}}'


class Model:
    """Says the next of its texts at each call, character by character, one token each."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)
        self.requests: list[GenerateRequest] = []
        self.num_open = 0

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[GenerateChunk, None]:
        self.requests.append(request)
        self.num_open += 1
        prompt = sum(len(piece) for piece in request.prompt if isinstance(piece, str))
        num_decoded = 0
        try:
            text = self.texts.pop(0)
            for character in text[: request.sampling.max_tokens]:
                num_decoded += 1
                yield GenerateChunk(
                    text=character,
                    token_ids=(1,),
                    logprobs=(TokenLogprob(token=character, token_id=1, logprob=-1.0),),
                    timings=_timings(prompt, num_decoded),
                )
            cut = len(text) > request.sampling.max_tokens
            yield GenerateChunk(
                finish_reason="length" if cut else "stop", timings=_timings(prompt, num_decoded)
            )
        finally:
            self.num_open -= 1


def _timings(num_prompt: int, num_decoded: int) -> Timings:
    return Timings(
        num_cached_tokens=1, num_prefill_tokens=num_prompt - 1, num_decoded_tokens=num_decoded
    )


async def decode(model: Model, *, max_tokens: int = 500, **rules: object) -> list[Part]:
    sampling = SamplingParams(max_tokens=max_tokens, stop=("\n\n",))
    request = GenerateRequest(prompt=(7, "Prompt"), sampling=sampling, draft_text="draft")
    decoder = ToolCallDecoder(model.generate, request, TOOLS, CallRules(**rules))  # type: ignore[arg-type]
    parts = [part async for part in decoder.parts()]
    assert model.num_open == 0
    assert [part.finish_reason for part in parts[:-1]] == [None] * (len(parts) - 1)
    return parts


def said(parts: list[Part]) -> str:
    return "".join(part.text for part in parts)


def called(parts: list[Part]) -> list[tuple[str, object]]:
    names: list[str] = []
    arguments: list[str] = []
    for call in (part.call for part in parts if part.call):
        if call.name is not None:
            assert call.index == len(names)
            names.append(call.name)
            arguments.append("")
        arguments[call.index] += call.arguments
    return [(name, json.loads(text)) for name, text in zip(names, arguments, strict=True)]


@pytest.mark.parametrize(
    "opening",
    ["<tool_call>\n", "```json\n", "```\n", "```json\n\n  ", "<tools>\n", ""],
    ids=["hermes", "json-fence", "fence", "spaced-fence", "tools", "bare"],
)
async def test_a_call_is_decoded_anew_under_its_schema(opening: str):
    model = Model(f"Let me look.\n{opening}{CALL}", CALL, "")
    parts = await decode(model)
    assert said(parts) == "Let me look.\n"
    assert called(parts) == [("grep", {"pattern": '}x{"'})]
    assert parts[-1].finish_reason == "tool_calls"
    free, constrained, after = model.requests
    assert free.json_schema is None
    assert constrained.prompt == (7, "PromptLet me look.\n<tool_call>\n")
    assert constrained.json_schema is not None
    assert len(constrained.json_schema["anyOf"]) == 2
    assert constrained.sampling.stop == ()
    assert constrained.draft_text is None
    assert after.prompt == (7, f"{constrained.prompt[1]}{CALL}\n</tool_call>")
    assert after.sampling.stop == ("\n\n",)


async def test_the_arguments_come_piece_by_piece():
    parts = await decode(Model("<tool_call>", CALL, ""))
    calls = [part.call for part in parts if part.call]
    assert calls[0].name == "grep"
    assert [call.name for call in calls[1:]] == [None] * (len(calls) - 1)
    assert len(calls) > 10
    assert "".join(call.arguments for call in calls) == '{"pattern": "}x{\\""}'


async def test_several_calls():
    model = Model("<tool_call>", CALL, "\n<tool_call>", OTHER, "\n")
    parts = await decode(model)
    assert [name for name, _ in called(parts)] == ["grep", "read_file"]
    assert said(parts) == ""
    assert parts[-1].finish_reason == "tool_calls"


async def test_text_behind_a_call_is_dropped_and_ends_the_answer():
    model = Model("<tool_call>", CALL, "\nThe tool said: <tool_call>")
    parts = await decode(model)
    assert said(parts) == ""
    assert len(called(parts)) == 1
    assert parts[-1].finish_reason == "tool_calls"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No call here.",
        '```json\n{"colour": "red"}\n```',
        '```json\n{"name": "unknown", "arguments": {}}\n```',
        '```python\nprint({"name": "grep"})\n```',
        "a < b and {x} and ``` and <tool",
        "<tool_calls> <<tool_cal>",
        'say {"name": "grep"} in a line',
        '{"name": "gre',
        "```",
        "`\n`` ```js",
        "if (a<b) { return `x`; }\n{\n",
    ],
)
async def test_text_that_only_looks_like_a_call_is_text(text: str):
    parts = await decode(Model(text))
    assert said(parts) == text
    assert called(parts) == []
    assert parts[-1].finish_reason == "stop"


async def test_text_is_not_held_back_for_long():
    parts = await decode(Model("a < b; c {d}"))
    assert [part.text for part in parts if part.text][:4] == ["a", " ", "< ", "b"]


async def test_logprobs_of_the_text_come_with_it():
    parts = await decode(Model("a <b"))
    entries = [entry.token for part in parts for entry in part.logprobs]
    assert entries == list("a <b")


async def test_logprobs_of_calls_are_apart_from_those_of_the_text():
    parts = await decode(Model("Hm.\n<tool_call>", CALL, ""))
    assert "".join(entry.token for part in parts for entry in part.logprobs) == "Hm.\n"
    assert "".join(entry.token for part in parts for entry in part.call_logprobs) == CALL


@pytest.mark.parametrize("only", [None, "grep"])
async def test_a_required_call_begins_at_once(only):
    model = Model(CALL, "")
    parts = await decode(model, required=True, only=only)
    assert called(parts) == [("grep", {"pattern": '}x{"'})]
    assert parts[-1].finish_reason == "tool_calls"
    first = model.requests[0]
    assert first.prompt == (7, "Prompt<tool_call>\n")
    assert first.json_schema is not None
    if only:
        assert first.json_schema["properties"]["name"] == {"const": "grep"}
        assert len(model.requests) == 1


async def test_one_call_where_parallel_ones_are_not_wanted():
    model = Model("<tool_call>", CALL, "<tool_call>", OTHER)
    parts = await decode(model, parallel=False)
    assert len(called(parts)) == 1
    assert len(model.requests) == 2


async def test_a_model_that_calls_without_end_is_stopped():
    parts = await decode(Model(*["<tool_call>", CALL] * 50), max_tokens=10_000)
    assert len(called(parts)) == MAX_CALLS
    assert parts[-1].finish_reason == "tool_calls"


@pytest.mark.parametrize("max_tokens", [11, 12, 30])
async def test_a_call_cut_by_max_tokens(max_tokens):
    parts = await decode(Model("<tool_call>", CALL), max_tokens=max_tokens)
    assert parts[-1].finish_reason == "length"
    assert parts[-1].timings is not None
    assert parts[-1].timings.num_decoded_tokens == max_tokens


async def test_text_cut_by_max_tokens():
    parts = await decode(Model("abcdef"), max_tokens=3)
    assert said(parts) == "abc"
    assert parts[-1].finish_reason == "length"


@pytest.mark.parametrize("text", ['{"name": "grep', "Sure, I call", '{"tool": "grep"}'])
async def test_a_call_that_is_none_is_an_error(text):
    with pytest.raises(BackendError, match="schema was not enforced"):
        await decode(Model("<tool_call>", text))


async def test_timings_are_summed_and_the_prompts_kept_apart():
    parts = await decode(Model("Hm <tool_call>", CALL, ""))
    timings, prompt = parts[-1].timings, parts[-1].prompt_timings
    assert timings is not None
    assert prompt is not None
    assert timings.num_decoded_tokens == len("Hm <tool_call>") + len(CALL)
    assert prompt.num_cached_tokens + prompt.num_prefill_tokens == len("Prompt")


async def test_closing_the_parts_closes_the_model():
    model = Model("words without end")
    request = GenerateRequest(prompt=("P",), sampling=SamplingParams(max_tokens=100))
    parts = ToolCallDecoder(model.generate, request, TOOLS, CallRules()).parts()
    await anext(parts)
    assert model.num_open == 1
    await parts.aclose()
    assert model.num_open == 0
