"""Tool calls out of a model's text, with and without a grammar."""

import json
from collections.abc import AsyncGenerator

import pytest

from composer_inference.backends.base import (
    BackendError,
    GenerateChunk,
    GenerateRequest,
    SamplingParams,
)
from composer_inference.chat.decode import Part, ToolCallDecoder
from composer_inference.chat.tools import Tools

TOOLS = Tools(
    [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
        for name in ("grep", "read_file")
    ]
)
CALL = '{"name": "grep", "arguments": {"pattern": "x"}}'


class Model:
    """Says the next of its texts at each call, character by character."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)
        self.requests: list[GenerateRequest] = []

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[GenerateChunk, None]:
        self.requests.append(request)
        for character in self.texts.pop(0):
            yield GenerateChunk(text=character, token_ids=(1,))
        yield GenerateChunk(finish_reason="stop")


async def decode(model: Model, *, has_grammar: bool, choice="auto", only=None) -> list[Part]:
    request = GenerateRequest(prompt=("P",), sampling=SamplingParams(max_tokens=500))
    decoder = ToolCallDecoder(
        model.generate, request, TOOLS, choice=choice, only=only, has_grammar=has_grammar
    )
    return [part async for part in decoder.parts()]


def said(parts: list[Part]) -> str:
    return "".join(part.text for part in parts)


def called(parts: list[Part]) -> list[tuple[str, object]]:
    return [(part.call.name, json.loads(part.call.arguments)) for part in parts if part.call]


@pytest.mark.parametrize(
    "opening",
    ["<tool_call>\n", "```json\n", "```\n", ""],
    ids=["hermes", "json-fence", "fence", "bare"],
)
async def test_a_call_is_decoded_anew_under_its_schema(opening: str):
    model = Model(f"Let me look.\n{opening}{CALL}", CALL, "")
    parts = await decode(model, has_grammar=True)
    assert said(parts) == "Let me look.\n"
    assert called(parts) == [("grep", {"pattern": "x"})]
    assert parts[-1].finish_reason == "tool_calls"
    constrained = model.requests[1]
    assert constrained.prompt == ("P", "Let me look.\n<tool_call>\n")
    assert constrained.json_schema is not None
    assert len(constrained.json_schema["anyOf"]) == 2


async def test_several_calls():
    model = Model("<tool_call>", CALL, "\n<tool_call>", CALL.replace("grep", "read_file"), "\n")
    parts = await decode(model, has_grammar=True)
    assert [name for name, _ in called(parts)] == ["grep", "read_file"]
    assert said(parts).strip() == ""
    assert parts[-1].finish_reason == "tool_calls"


@pytest.mark.parametrize(
    "text",
    [
        "No call here.",
        '```json\n{"colour": "red"}\n```',
        "a < b and {x} and ``` and <tool",
        'print({"name": "other"})',
    ],
)
async def test_text_that_only_looks_like_a_call_is_text(text: str):
    parts = await decode(Model(text), has_grammar=True)
    assert said(parts) == text
    assert called(parts) == []
    assert parts[-1].finish_reason == "stop"


async def test_without_a_grammar_the_text_itself_is_read():
    parts = await decode(Model(f"Hm.\n<tool_call>\n{CALL}\n</tool_call>"), has_grammar=False)
    assert said(parts) == "Hm.\n"
    assert called(parts) == [("grep", {"pattern": "x"})]
    assert parts[-1].finish_reason == "tool_calls"


async def test_without_a_grammar_a_broken_call_is_an_error():
    with pytest.raises(BackendError, match="no JSON of a known tool"):
        await decode(Model('<tool_call>{"name": "rm"}</tool_call>'), has_grammar=False)


async def test_a_required_call_begins_at_once():
    model = Model(CALL, "")
    parts = await decode(model, has_grammar=True, choice="required", only="grep")
    assert called(parts) == [("grep", {"pattern": "x"})]
    assert model.requests[0].json_schema["properties"]["name"] == {"const": "grep"}
