"""Almost-JSON: what is certain is taken, what could lose text is refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from composer_lsp.agent.lenient_json import read_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('{"a": [1, 2,], "b": {},}', {"a": [1, 2], "b": {}}),
        ("{'a': 'say \"hi\"'}", {"a": 'say "hi"'}),
        ('{"a": "one\ntwo\tthree"}', {"a": "one\ntwo\tthree"}),
        ("{'a': 'it\\'s', \"b\": \"it's\"}", {"a": "it's", "b": "it's"}),
        ('{"a": True, "b": False, "c": None, "d": -1.5e3}', {"a": True, "b": False, "c": None, "d": -1500.0}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('```json\n{"a": "```",}\n```\n', {"a": "```"}),
        ("{'a': 'e\\u0301 \\ud83d\\ude00 \\\\n \\n'}", {"a": "e\u0301 \U0001f600 \\n \n"}),
        ('{"a": "\\ud800 \\udcff"}', {"a": "\ufffd \ufffd"}),
        ("{'\ud800': ['\udcff']}", {"\ufffd": ["\ufffd"]}),
    ],
)  # fmt: skip
def test_what_was_meant_is_read(text: str, value: Any) -> None:
    assert read_json(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"path": "a.py", "text": "one\ntwo',
        '{"path": "a.py", "text": "one"',
        '```json\n{"path": "a.py", "text": "one\n```',
        '{"text": "print("hi")"}',
        "{'text': 'it's'}",
        "{'text': 'a' 'b'}",
        "{'text': '''a'''}",
        "{'text': 'x = ', 'text': 'y'}",
        '{"pattern": "\\d+"}',
        "{'text': 'a\\",
        '{"a": 1} and so on',
        '{"a": 1}{"b": 2}',
        "{a: 1}",
        "{'a': 01}",
        "{'a': undefined}",
        "{'a': 1,,}",
        "{,}",
        "[" * 5000,
        "[" * 100_000,
    ],
)
def test_what_is_cut_or_doubtful_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_json(text)


@given(VALUES)
def test_json_is_read_as_it_is(value: Any) -> None:
    text = json.dumps(value)
    assert read_json(text) == json.loads(text)


@given(VALUES.filter(lambda value: isinstance(value, dict | list)))
def test_what_python_prints_is_read_or_refused(value: Any) -> None:
    try:
        assert read_json(repr(value)) == value
    except ValueError:
        assert "\\x" in repr(value) or "\\U" in repr(value)  # escapes that JSON lacks


@given(st.text(), st.data())
def test_a_cut_object_is_never_read(content: str, data: st.DataObject) -> None:
    text = json.dumps({"path": "a.py", "text": content}, ensure_ascii=False)
    cut = data.draw(st.integers(min_value=0, max_value=len(text) - 1))
    with pytest.raises(ValueError, match=r".+"):
        read_json(text[:cut])


@given(st.text())
def test_nothing_else_is_ever_raised(text: str) -> None:
    try:
        read_json(text)
    except ValueError:
        pass
