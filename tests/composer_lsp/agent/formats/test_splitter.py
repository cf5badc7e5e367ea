"""Calls that models write as text: each format, however the stream is cut."""

import json
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from composer_lsp.agent.formats.cursor import Cursor, WrittenCall
from composer_lsp.agent.formats.splitter import Splitter

OFFERED: dict[str, dict[str, Any]] = {
    "read_file": {"properties": {"path": {"type": "string"}, "start_line": {"type": "integer"}}},
    "write_file": {"properties": {"path": {"type": "string"}, "text": {"type": "string"}}},
    "list_files": {"properties": {}},
    "delete_file": {"properties": {"path": {"type": "string"}}},
}
ONLY_READING = ("read_file", "list_files")
READ = {"path": "a.py", "start_line": 3}
READ_JSON = json.dumps({"name": "read_file", "arguments": READ})
DELETE = {"path": "a.py"}
DELETE_JSON = json.dumps({"name": "delete_file", "arguments": DELETE})
DELETE_FENCE = f"```json\n{DELETE_JSON}\n```"
TEXT = 'if a < b:\n    print("</parameter>", "</tool_call>", "}", "```")\n'
WRITE = {"path": "b.py", "text": TEXT}

Calls = list[tuple[str, Any]]

ONE_DELETE: Calls = [("delete_file", DELETE)]
ONE_READ: Calls = [("read_file", READ)]
TWO: Calls = [("read_file", READ), ("write_file", WRITE)]

CALLS: dict[str, tuple[str, Calls]] = {
    "hermes": (f"<tool_call>\n{READ_JSON}\n</tool_call>", ONE_READ),
    "hermes two": (
        f"<tool_call>\n{READ_JSON}\n</tool_call>\n<tool_call>"
        f"{json.dumps({'arguments': WRITE, 'name': 'write_file'})}</tool_call>",
        TWO,
    ),
    "hermes without its end": (f"<tool_call>{READ_JSON}", ONE_READ),
    "hermes in quotes of Python": (
        "<tool_call>{'name': 'read_file', 'arguments': {'path': \"it's\"}}</tool_call>",
        [("read_file", {"path": "it's"})],
    ),
    "hermes as a list": (f"<tool_call>[{READ_JSON}]</tool_call>", ONE_READ),
    "function_call": (f"<function_call>{READ_JSON}</function_call>", ONE_READ),
    "tools": (f"<tools>\n{READ_JSON}\n</tools>", ONE_READ),
    "qwen3-coder": (
        "<tool_call>\n<function=read_file>\n<parameter=path>\na.py\n</parameter>\n"
        "<parameter=start_line>\n3\n</parameter>\n</function>\n</tool_call>",
        ONE_READ,
    ),
    "qwen3-coder, bare, two": (
        "<function=read_file><parameter=path>a.py</parameter><parameter=start_line>3</parameter>"
        "</function>\n<function=write_file>\n<parameter=path>\nb.py\n</parameter>\n"
        f"<parameter=text>\n{TEXT}\n</parameter>\n</function>",
        TWO,
    ),
    "no arguments": ("<function=list_files>\n</function>", [("list_files", {})]),
    "llama": (f"<function=read_file>{json.dumps(READ)}</function>", ONE_READ),
    "llama's tag": (
        f'<|python_tag|>{{"name": "read_file", "parameters": {json.dumps(READ)}}}',
        ONE_READ,
    ),
    "function with a name": (
        '<function name="read_file"><parameter name="path">a.py</parameter>'
        '<parameter name="start_line">3</parameter></function>',
        ONE_READ,
    ),
    "invoke": (
        '<invoke name="read_file">\n<parameter name="path">a.py</parameter>\n'
        '<parameter name="start_line">3</parameter>\n</invoke>',
        ONE_READ,
    ),
    "glm": (
        "<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>a.py</arg_value>\n"
        "<arg_key>start_line</arg_key>\n<arg_value>3</arg_value>\n</tool_call>\n"
        "<tool_call>write_file\n<arg_key>path</arg_key>\n<arg_value>b.py</arg_value>\n"
        f"<arg_key>text</arg_key>\n<arg_value>\n{TEXT}\n</arg_value>\n</tool_call>",
        TWO,
    ),
    "glm without arguments": ("<tool_call>list_files\n</tool_call>", [("list_files", {})]),
    "harmony": (
        "<|channel|>commentary to=functions.read_file <|constrain|>json<|message|>"
        f"{json.dumps(READ)}<|call|>",
        ONE_READ,
    ),
    "harmony, other order, end not sent": (
        "<|start|>assistant to=functions.read_file<|channel|>commentary json<|message|>"
        f"{json.dumps(READ)}",
        ONE_READ,
    ),
    "mistral": (f"[TOOL_CALLS] [{READ_JSON}]", ONE_READ),
    "mistral, later": (
        f"[TOOL_CALLS]read_file[ARGS]{json.dumps(READ)}"
        f"[TOOL_CALLS]write_file[CALL_ID]x1[ARGS]{json.dumps(WRITE)}",
        TWO,
    ),
    "fence": (f"```json\n{READ_JSON}\n```", ONE_READ),
    "fence of two": (
        f"```\n{READ_JSON}\n{json.dumps({'name': 'write_file', 'arguments': WRITE})}\n```\n",
        TWO,
    ),
    "fence whose end is not sent": (f"```json\n{READ_JSON}", ONE_READ),
    "bare line": (READ_JSON, ONE_READ),
    "raw line ends in a string": (
        '<tool_call>{"name": "write_file", "arguments": {"path": "b.py", "text": "one\ntwo\n"}}'
        "</tool_call>",
        [("write_file", {"path": "b.py", "text": "one\ntwo\n"})],
    ),
}

TEXTS = {
    "plain": "Look at a.py:3.\n\n- one\n- two: `x < y`, {a} [b]\n",
    "markup in a fence": f"So:\n```xml\n<tool_call>{READ_JSON}</tool_call>\n```\nThat is it.",
    "calls in Python": f"```python\n{READ_JSON}\n<function=list_files></function>\n```\n",
    "tildes": f"~~~\n<tool_call>{READ_JSON}</tool_call>\n```\n{READ_JSON}\n~~~\n",
    "a longer fence": f"````\n```\n{READ_JSON}\n```\n````\n",
    "between backticks": f"Qwen writes `<tool_call>{READ_JSON}</tool_call>` then.",
    "between two backticks": f"``a ` <tool_call>{READ_JSON}</tool_call>``",
    "a tool that is not offered": '<tool_call>{"name": "rm", "arguments": {}}</tool_call>',
    "JSON of something else": 'The file:\n```json\n{"name": "read_file", "version": 1}\n```\n',
    "a package": '{"name": "read_file", "arguments": {}, "more": 1} is the entry',
    "in a sentence": f"It sends {READ_JSON} to the server.",
    "a word in tags": "The <tool_call> tag, <function=x>, <read_file> and [TOOL_CALLS] mean it.",
    "generics": "Vec<function> <invoke> < <tool_call",
    "names alone": "Use <tool_call>read_file</b> or <function=read_file> for it",
    "not at its line's start": f"x = {READ_JSON}",
}


def split(*chunks: str) -> tuple[str, list[WrittenCall]]:
    splitter = Splitter(OFFERED, ONLY_READING)
    pieces = [piece for chunk in chunks for piece in splitter.feed(chunk)]
    pieces += splitter.flush()
    text = "".join(piece for piece in pieces if isinstance(piece, str))
    return text, [piece for piece in pieces if isinstance(piece, WrittenCall)]


def read(calls: list[WrittenCall]) -> Calls:
    return [(call.name, json.loads(call.arguments)) for call in calls]


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


@pytest.mark.parametrize(("text", "calls"), CALLS.values(), ids=CALLS)
def test_a_call_is_found_and_not_shown(text: str, calls: Calls) -> None:
    for before in ("", "I look:\n\n"):
        shown, found = split(before + text)
        assert read(found) == calls
        assert shown == before


@pytest.mark.parametrize(("text", "calls"), CALLS.values(), ids=CALLS)
def test_nothing_of_a_call_is_shown_while_it_streams(text: str, calls: Calls) -> None:
    splitter = Splitter(OFFERED, ONLY_READING)
    shown = [piece for sign in "Hm:\n" + text for piece in splitter.feed(sign)]
    assert "".join(piece for piece in shown if isinstance(piece, str)) == "Hm:\n"


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_is_no_call_stays_text(text: str) -> None:
    assert split(text) == (text, [])
    assert split(*text) == (text, [])


@pytest.mark.parametrize(("text", "calls"), CALLS.values(), ids=CALLS)
def test_every_cut_end_is_text_or_a_call_that_is_refused(text: str, calls: Calls) -> None:
    """What was cut never becomes a call with less in it than was meant."""
    for end in range(len(text)):
        shown, found = split(text[:end])
        for (name, arguments), call in zip(calls, found, strict=False):
            assert call.name == name
            try:
                given: Any = json.loads(call.arguments)
            except ValueError:
                continue
            if isinstance(given, dict):
                assert given == arguments
        assert found or shown == text[:end]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_is_no_call_does_not_keep_the_next_from_being_one(text: str) -> None:
    shown, found = split(f"{text}\n\n<tool_call>{READ_JSON}</tool_call>")
    assert read(found) == ONE_READ
    assert shown == f"{text}\n\n"


MARKED = (
    f"<tool_call>{DELETE_JSON}</tool_call>",
    "<function=delete_file><parameter=path>a.py</parameter></function>",
    '<invoke name="delete_file"><parameter name="path">a.py</parameter></invoke>',
    "<tool_call>delete_file<arg_key>path</arg_key><arg_value>a.py</arg_value></tool_call>",
    f"<|channel|>commentary to=functions.delete_file<|message|>{json.dumps(DELETE)}",
    f"[TOOL_CALLS][{DELETE_JSON}]",
    f"[TOOL_CALLS]delete_file[ARGS]{json.dumps(DELETE)}",
    f"<|python_tag|>{DELETE_JSON}",
)


@pytest.mark.parametrize("call", MARKED)
@pytest.mark.parametrize(
    "around",
    [
        "> {}",
        "It writes:\n\n> Then\n> {}\n\nto do it.",
        "> Then it goes on so:\n{}",
        "  >{}",
        'It says "{}" then.',
        "It says '{}' then.",
        "It says “so: {}” then.",
        "It writes\n\n    {}\n\nto do it.",
        "It writes\n\n\t{}",
        "<pre>{}</pre>",
        "It is <code>{}</code>.",
        "<blockquote>\nThen\n{}\n</blockquote>",
        "`{}`",
        "```\n{}\n```",
    ],
)
def test_a_call_with_its_marks_is_none_where_it_is_quoted(around: str, call: str) -> None:
    text = around.replace("{}", call)
    assert split(text) == (text, [])
    assert split(*text) == (text, [])


@pytest.mark.parametrize("call", MARKED)
@pytest.mark.parametrize(
    "before",
    [
        'It isn\'t "so" but “so”. ',
        "I'll do it: ",
        "> It is quoted.\n\nI do it now.\n",
        "<pre>x</pre>\n",
        "Put it into <code> tags.\n\n",
        'It is 5" wide.\n',
        "- One\n  - ",
    ],
)
def test_a_call_with_its_marks_is_one_behind_a_quotation(before: str, call: str) -> None:
    shown, found = split(before + call)
    assert (shown, read(found)) == (before, ONE_DELETE)


@pytest.mark.parametrize(
    "call", [DELETE_FENCE, DELETE_JSON, f"```\n{DELETE_JSON}\n{READ_JSON}\n```"]
)
@pytest.mark.parametrize(
    "around",
    [
        "Config:\n{}\nis an example.",
        "Config:\n{} is an example.",
        "{}\n\nThat is how it is called.",
        "Here it is.\n\n{}",
        "It is easy.\nThe call:\n{}",
        "An example:\n{}",
        "Do not write this:\n{}",
        "A call looks like this:\n{}",
        "It would be:\n{}",
        "> I will do it:\n\n{}",
        "# Calls\n{}",
        f"{'So ' * 80}it is done:\n{{}}",
        f"{'x' * 199}:{'x' * 9}\n{{}}",
        "First:\nThen:\n{}",
        f"I do it:\n{{}}\n```json\n{READ_JSON}\n```\nor that.",
        f"I do it:\n{{}}\n<tool_call>{READ_JSON}</tool_call> or that.",
        "I do it:\n{}\n{}\nor not.",
        "I do it:\n{}\n```sh\nls\n```\n",
        "1. I do it:\n\n    {}",
    ],
)
def test_a_call_without_marks_that_does_more_than_read_is_text_among_text(
    around: str, call: str
) -> None:
    text = around.replace("{}", call)
    shown, found = split(text)
    assert [name for name, _ in read(found) if name == "delete_file"] == []
    assert call in shown
    assert split(*text) == (shown, found)


@pytest.mark.parametrize("call", [DELETE_FENCE, DELETE_JSON, f"```json\n{DELETE_JSON}"])
@pytest.mark.parametrize(
    "before",
    [
        "",
        "\n\n",
        "I will delete the file:\n",
        "**Deleting it:**\n\n",
        "我来删除文件：\n",
        "<think>It would be an example.\n\nNot so.</think>\n",
        f"{READ_JSON}\n",
        f"<tool_call>{READ_JSON}</tool_call>\n",
    ],
)
def test_a_call_without_marks_that_does_more_than_read_may_be_introduced(
    before: str, call: str
) -> None:
    for text in (before + call, f"{before}{call}\n\n"):
        assert read(split(text)[1])[-1:] == ONE_DELETE
        assert split(*text) == split(text)


def test_calls_without_marks_are_all_taken_or_none() -> None:
    text = f"I do both:\n{DELETE_FENCE}\n\n```json\n{READ_JSON}\n```\n{DELETE_JSON}\n"
    assert read(split(text)[1]) == [*ONE_DELETE, *ONE_READ, *ONE_DELETE]


def test_a_call_without_marks_that_reads_may_stand_among_text() -> None:
    shown, found = split(f"Let us see.\nThe file first.\n```json\n{READ_JSON}\n```\nIt shows it.")
    assert (shown, read(found)) == ("Let us see.\nThe file first.\n", ONE_READ)


def test_tools_are_named_whose_calls_stayed_text_among_text() -> None:
    splitter = Splitter(OFFERED, ONLY_READING)
    splitter.feed(f"Config:\n{DELETE_FENCE}\nis an example. > {DELETE_JSON}")
    splitter.flush()
    assert splitter.doubtful == ["delete_file"]


@pytest.mark.parametrize("text", [text for text, _ in CALLS.values()] + list(TEXTS.values()))
@given(cuts=st.lists(st.integers(min_value=0, max_value=2000), max_size=12))
@settings(max_examples=25)
def test_any_cut_of_the_stream_gives_the_same(text: str, cuts: list[int]) -> None:
    whole = f"Before. {text}\n{text} Behind."
    assert split(*pieces_of(whole, cuts)) == split(whole)


WORDS = [
    *re.findall(r"[<|\]\[}{`\"':,=]+|[\w.]+|\s+", " ".join(text for text, _ in CALLS.values())),
    *("<think>", "</think>", "<|channel|>analysis<|message|>", "<|end|>", "~~~", "to=functions."),
    *("> ", "\n\n", "    ", "<pre>", "</pre>", "Do:\n", DELETE_FENCE, DELETE_JSON),
    *("<tool_call>", "</tool_call>", "<function=read_file>", "<parameter=path>", "</parameter>"),
    *("</function>", '{"name": "read_file", "arguments": {', "```json\n", "[TOOL_CALLS]"),
]


@given(
    st.lists(st.sampled_from(sorted(set(WORDS))) | st.text(max_size=3), max_size=60),
    st.lists(st.integers(min_value=0, max_value=2000), max_size=12),
)
@settings(max_examples=400)
def test_hostile_text_never_raises_and_is_cut_anywhere(words: list[str], cuts: list[int]) -> None:
    whole = "".join(words)
    text, calls = split(whole)
    assert split(*pieces_of(whole, cuts)) == (text, calls)
    assert all(call.name in OFFERED for call in calls)


def test_text_behind_a_call_is_left_out_and_ends_the_reading() -> None:
    splitter = Splitter(OFFERED, ONLY_READING)
    first = splitter.feed(f"<tool_call>{READ_JSON}</tool_call>\n<tool_response>\nmade up")
    assert [piece for piece in first if isinstance(piece, str)] == []
    assert splitter.is_over
    assert splitter.feed(f"<tool_call>{READ_JSON}</tool_call>") == splitter.flush() == []


@pytest.mark.parametrize(
    "text",
    [
        "<think>I call <tool_call>" + READ_JSON + "</tool_call></think>\n\nDone.",
        "<|channel|>analysis<|message|>I call.<|end|><|start|>assistant<|channel|>final<|message|>"
        "Done.<|return|>",
    ],
)
def test_thoughts_are_hidden(text: str) -> None:
    assert split(text) == ("Done.", [])
    assert split(*text) == ("Done.", [])


def test_a_cut_file_is_never_written_shorter() -> None:
    for text, _ in CALLS.values():
        if "write_file" not in text:
            continue
        start = text.index("write_file")
        for end in range(start, len(text)):
            for call in split(text[:end])[1][1:] or split(text[:end])[1][-1:]:
                if call.name != "write_file":
                    continue
                try:
                    given: Any = json.loads(call.arguments)
                except ValueError:
                    continue
                if isinstance(given, dict):
                    assert given in (WRITE, {"path": "b.py", "text": "one\ntwo\n"})


def test_an_endless_call_costs_no_more_than_its_length() -> None:
    """250,000 pieces of an argument that does not end: seconds if each were read from the start."""
    splitter = Splitter(OFFERED, ONLY_READING)
    splitter.feed('<tool_call>{"name": "write_file", "arguments": {"text": "')
    assert not any(splitter.feed("abcd") for _ in range(250_000))
    (call,) = splitter.flush()
    assert isinstance(call, WrittenCall)
    assert len(call.arguments) > 1_000_000


@pytest.mark.parametrize("text", ["<tool_call>" * 5000, "<tool_call>\n" + "{" * 5000])
def test_marks_that_begin_nothing_are_one_piece_of_text(text: str) -> None:
    """Each piece is shown, and added to what was said before."""
    splitter = Splitter(OFFERED, ONLY_READING)
    pieces = splitter.feed(text) + splitter.flush()
    assert "".join(map(str, pieces)) == text
    assert len(pieces) <= 2


@pytest.mark.parametrize(
    "mark",
    ["<tool_call>{", "[TOOL_CALLS]{", '<tool_call>{"name": "rm", "arguments": {', "<tools>[{"],
)
@pytest.mark.parametrize("end", ["", "}", "</tool_call>"])
def test_calls_that_do_not_end_are_not_looked_at_without_end(
    monkeypatch: pytest.MonkeyPatch, mark: str, end: str
) -> None:
    num_searched = 0
    json_at = Cursor.json

    def counted(cursor: Cursor) -> str:
        nonlocal num_searched
        num_searched += len(cursor.text) - cursor.at
        assert num_searched < 10_000_000, "too much work"
        return json_at(cursor)

    monkeypatch.setattr(Cursor, "json", counted)
    text = mark * 10_000 + end * 10_000
    assert split(text) == (text, [])


def test_tools_that_are_not_offered_are_named() -> None:
    splitter = Splitter(OFFERED, ONLY_READING)
    splitter.feed('<tool_call>{"name": "rm", "arguments": {}}</tool_call>')
    assert splitter.unknown == ["rm"]
