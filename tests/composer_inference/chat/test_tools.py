"""The schema of a call, reading calls out of JSON and out of free text."""

import json
from collections.abc import AsyncGenerator

import pytest

from composer_inference.backends.base import GenerateChunk, Timings
from composer_inference.chat.calls import CallReader
from composer_inference.chat.tools import Tools
from composer_inference.chat.unconstrained import read_calls


def tool(name: str) -> dict[str, object]:
    return {"type": "function", "function": {"name": name}}


TOOLS = Tools(
    [tool("grep"), tool("ls")],
    {"grep": {"type": "object"}, "ls": {"type": "object", "properties": {}}},
)


def test_the_name_comes_first_and_the_arguments_are_the_tools_own():
    schema = TOOLS.call_schema("grep")
    assert list(schema["properties"]) == ["name", "arguments"]
    assert schema["properties"] == {"name": {"const": "grep"}, "arguments": {"type": "object"}}
    assert schema["required"] == ["name", "arguments"]
    assert TOOLS.call_schema()["anyOf"][0] == schema


def test_definitions_are_found_from_the_root():
    parameters = {
        "type": "object",
        "properties": {"at": {"$ref": "#/$defs/Place"}, "tree": {"$ref": "#/definitions/Tree"}},
        "required": ["at", "tree"],
        "$defs": {"Place": {"type": "object", "properties": {"line": {"type": "integer"}}}},
        "definitions": {
            "Tree": {"type": "array", "items": {"$ref": "#/definitions/Tree"}},
        },
    }
    schema = Tools([tool("a"), tool("b")], {"a": parameters, "b": parameters}).call_schema()
    assert set(schema["$defs"]) == {"a.Place", "a.Tree", "b.Place", "b.Tree"}
    assert schema["$defs"]["b.Tree"]["items"] == {"$ref": "#/$defs/b.Tree"}
    first = schema["anyOf"][0]["properties"]["arguments"]
    assert first["properties"]["at"] == {"$ref": "#/$defs/a.Place"}
    assert "$defs" not in first


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize(
    ("text", "name", "arguments"),
    [
        ('{"name": "f", "arguments": {}}', "f", "{}"),
        ('{"name":"f","arguments":{"a":[1,{"b":"}"}]}}', "f", '{"a":[1,{"b":"}"}]}'),
        ('{"name": "f", "arguments": {"s": "\\\\\\"}"}  }', "f", '{"s": "\\\\\\"}"}'),
        (' {\n "name" : "g\\u0068" ,\n "arguments" : { "x" : 1 } } tail {', "gh", '{ "x" : 1 }'),
    ],
)
def test_a_call_arrives_in_pieces(text, name, arguments, size):
    reader = CallReader(3)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    deltas = [delta for piece in pieces for delta in reader.feed(piece)]
    assert reader.complete
    assert {delta.index for delta in deltas} == {3}
    assert [delta.name for delta in deltas if delta.name] == [name]
    assert "".join(delta.arguments for delta in deltas) == arguments
    json.loads(arguments)


@pytest.mark.parametrize("text", ["", '{"name": "f"', '{"name": "f", "arguments": {"a": "}'])
def test_an_incomplete_call(text):
    reader = CallReader(0)
    reader.feed(text)
    assert not reader.complete


async def chunks(text: str) -> AsyncGenerator[GenerateChunk, None]:
    for character in text:
        yield GenerateChunk(text=character)
    yield GenerateChunk(finish_reason="stop", timings=Timings(num_decoded_tokens=len(text)))


GREP = '{"name": "grep", "arguments": {"pattern": "x"}}'


@pytest.mark.parametrize(
    ("text", "said", "calls", "reason"),
    [
        ("Hello.", "Hello.", [], "stop"),
        (f"Hm.\n<tool_call>\n{GREP}\n</tool_call>", "Hm.\n", ["grep"], "tool_calls"),
        (f"```json\n{GREP}\n```\nIt found:", "", ["grep"], "tool_calls"),
        (f'<tool_call>{GREP}</tool_call>\n<tool_call>{{"name": "ls"}}', "", ["grep", "ls"],
         "tool_calls"),
        ('<tool_call>{"name": "rm"}</tool_call>', '<tool_call>{"name": "rm"}</tool_call>', [],
         "stop"),
        ("a <tool_call>{", "a <tool_call>{", [], "stop"),
        ("a <tool", "a <tool", [], "stop"),
        ('{"name": "grep", "arguments": 3}', '{"name": "grep", "arguments": 3}', [], "stop"),
    ],
)  # fmt: skip
async def test_without_a_grammar_the_text_itself_is_read(text, said, calls, reason):
    parts = [part async for part in read_calls(chunks(text), TOOLS)]
    assert "".join(part.text for part in parts) == said
    assert [part.call.name for part in parts if part.call] == calls
    assert parts[-1].finish_reason == reason
    assert parts[-1].timings == Timings(num_decoded_tokens=len(text))
