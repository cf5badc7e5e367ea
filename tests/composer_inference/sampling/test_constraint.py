"""Texts drawn under a mask are of their schema or grammar, all of them and only they."""

import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from composer_inference.backends.base import RejectedRequestError
from composer_inference.sampling.constraint import (
    ConstraintFactory,
    GrammarConstraint,
)
from composer_inference.sampling.vocabulary import Vocabulary, read_vocabulary
from composer_lsp.engine.healed import beginning_with
from tests.support.models import model_path
from tests.support.vocabularies import byte_level_folder

torch.set_num_threads(1)

EOS = 357
"""`<|im_end|>` of the small vocabulary."""

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["a", "b", "ü"]}, "maxItems": 3},
        "ok": {"type": "boolean"},
    },
    "required": ["name", "age", "ok"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory) -> Vocabulary:
    return read_vocabulary(byte_level_folder(tmp_path_factory.mktemp("v")), num_embeddings=450)


@pytest.fixture(scope="module")
def constraints(vocabulary) -> ConstraintFactory:
    return ConstraintFactory(vocabulary)


def allowed(constraint: GrammarConstraint) -> list[int]:
    return constraint.mask().nonzero().flatten().tolist()


def take(constraint: GrammarConstraint, token_ids: Sequence[int]) -> bool:
    """Whether the tokens are taken, each in its place, up to the first that is not."""
    try:
        for token_id in token_ids:
            constraint.advance(token_id)
    except AssertionError:
        return False
    return True


def accepts(constraint: GrammarConstraint, vocabulary: Vocabulary, text: str) -> bool:
    """Whether the text is whole for the constraint. Its bytes one by one, so that no merge matters."""
    single = {vocabulary.token_bytes(each): each for each in range(vocabulary.size)}
    return take(constraint, [*(single[bytes([byte])] for byte in text.encode()), EOS])


def drawn(constraint: GrammarConstraint, vocabulary: Vocabulary, draw: random.Random) -> str | None:
    """A text by tokens taken at random, None if it does not end in 300. Long tokens are taken often:
    they are what masks go wrong by."""
    text = b""
    for _ in range(300):
        ids = allowed(constraint)
        may_end = vocabulary.eos_ids & set(ids)
        assert not may_end or may_end == vocabulary.eos_ids
        if constraint.is_complete or (may_end and draw.random() < 0.5):
            return text.decode()
        others = [each for each in ids if each not in vocabulary.eos_ids]
        chosen = max(draw.choices(others, k=3), key=lambda each: len(vocabulary.token_bytes(each)))
        constraint.advance(chosen)
        text += vocabulary.token_bytes(chosen)
    return None


def meets(value: Any) -> bool:
    return (
        set(value) - {"tags"} == {"name", "age", "ok"}
        and isinstance(value["name"], str)
        and len(value["name"]) <= 12
        and 0 <= value["age"] <= 150
        and isinstance(value["ok"], bool)
        and set(value.get("tags", [])) <= {"a", "b", "ü"}
        and len(value.get("tags", [])) <= 3
    )


def test_any_text_under_the_mask_is_json_of_the_schema(constraints, vocabulary):
    texts = [
        drawn(constraints.json_schema(SCHEMA), vocabulary, random.Random(seed))
        for seed in range(40)
    ]
    whole = [text for text in texts if text is not None]
    assert len(whole) > 35
    for text in whole:
        assert meets(json.loads(text)), text


@pytest.mark.model
@pytest.mark.parametrize("name", ["smollm2-135m", "qwen2.5-coder-0.5b"])
def test_so_it_is_with_a_real_vocabulary(name):
    vocabulary = read_vocabulary(model_path(name), num_embeddings=151936)
    constraints = ConstraintFactory(vocabulary)
    for seed in range(25):
        text = drawn(constraints.json_schema(SCHEMA), vocabulary, random.Random(seed))
        assert text is not None
        assert meets(json.loads(text)), text


JSON_TEXTS = [
    ('{"name":"x","age":3,"ok":true}', True),
    ('{"name": "x", "age": 3, "tags": ["a", "ü"], "ok": true}', True),
    ('{\n  "name": "x",\n  "age": 3,\n  "ok": true\n}', True),
    ('{"name":"x","age":3}', False),
    ('{"name":"x","age":300,"ok":true}', False),
    ('{"name":"x","age":3,"ok":true}x', False),
    ('{     "name":"x","age":3,"ok":true}', False),
    ("", False),
]


@pytest.mark.parametrize(("text", "is_whole"), JSON_TEXTS)
def test_json_texts(constraints, vocabulary, text, is_whole):
    assert accepts(constraints.json_schema(SCHEMA), vocabulary, text) is is_whole


GRAMMARS: list[tuple[str, list[str], list[str]]] = [
    ('root ::= "yes" | "no"', ["yes", "no"], ["", "ye", "yesno"]),
    ('root ::= word "x"\nword ::= [a-z]+', ["abx", "xx"], ["x", "ab", "abxy"]),
    ('root ::= ("a" | "ab") "bc"', ["abc", "abbc"], ["abb"]),
    ("root ::= [0-9]{2,3}", ["12", "123"], ["1", "1234"]),
    ("root ::= .", ["\n", "é", "/"], ["", "ab"]),
    ('root ::= "\\u00e9b" [\\U000000E9-\\u00eb] "\\U0000000Ab"', ["ébê\nb"], ["éb\nb"]),
    ('root ::= "\\\\u00e9" "/./" [/.]', ["\\u00e9/.//", "\\u00e9/./."], ["é/./."]),
    ('root ::= "(" root ")" | item\nitem ::= [ab]+', ["ab", "((a))"], ["((a)", "()"]),
    ('# a comment\nroot ::= a-b c # another "one"\na-b ::= "1"\nc ::= "2"?', ["1", "12"], ["2"]),
    (beginning_with('x = "\\\n\t'), ['x = "\\\n\t', 'x = "\\\n\ty\nz'], ['x = "\\']),
]


@pytest.mark.parametrize(("grammar", "texts", "others"), GRAMMARS)
def test_grammars(constraints, vocabulary, grammar, texts, others):
    for text in texts:
        assert accepts(constraints.gbnf(grammar), vocabulary, text), text
    for text in others:
        assert not accepts(constraints.gbnf(grammar), vocabulary, text), text


def test_any_text_under_the_mask_is_of_the_grammar(constraints, vocabulary):
    grammar = 'root ::= "(" pair ("," pair)* ")"\npair ::= [a-z]{1,5} "=" ("true" | [0-9]+)'
    pattern = re.compile(r"\((?:[a-z]{1,5}=(?:true|[0-9]+),?)*(?<!,)\)")
    for seed in range(40):
        text = drawn(constraints.gbnf(grammar), vocabulary, random.Random(seed))
        assert text is None or pattern.fullmatch(text), text


def test_a_forced_token_is_the_only_one(constraints, vocabulary):
    constraint = constraints.gbnf('root ::= "aZ"')
    (first,) = (each for each in allowed(constraint) if vocabulary.token_bytes(each) == b"a")
    constraint.advance(first)
    assert [vocabulary.token_bytes(each) for each in allowed(constraint)] == [b"Z"]


def test_a_token_that_is_not_allowed_is_not_taken(constraints, vocabulary):
    constraint = constraints.gbnf('root ::= "yes"')
    (wrong,) = vocabulary.encode("n")
    with pytest.raises(AssertionError, match=f"token {wrong} is not allowed"):
        constraint.advance(wrong)
    with pytest.raises(AssertionError, match="may not end"):
        constraint.advance(EOS)
    assert accepts(constraint, vocabulary, "yes")


def test_nothing_is_taken_behind_the_end(constraints, vocabulary):
    constraint = constraints.gbnf('root ::= "a"*')
    constraint.advance(EOS)
    assert not take(constraint, vocabulary.encode("a"))


def test_no_control_token_and_no_padding_is_ever_allowed(constraints, vocabulary):
    mask = constraints.gbnf("root ::= [^\\x00]*").mask()
    assert mask.shape == (vocabulary.size,)
    for token_id in range(vocabulary.size):
        if not vocabulary.token_bytes(token_id):
            assert bool(mask[token_id]) is (token_id in vocabulary.eos_ids)


def test_a_text_is_complete_when_nothing_may_follow(constraints, vocabulary):
    open_end, fixed = constraints.gbnf('root ::= "a"+'), constraints.gbnf('root ::= "a"')
    (token_id,) = vocabulary.encode("a")
    for constraint in (open_end, fixed):
        assert not constraint.is_complete
        assert not vocabulary.eos_ids & set(allowed(constraint))
        constraint.advance(token_id)
        assert vocabulary.eos_ids <= set(allowed(constraint))
    assert not open_end.is_complete
    assert fixed.is_complete
    assert set(allowed(fixed)) == vocabulary.eos_ids


def test_behind_the_end_comes_nothing_but_the_end(constraints, vocabulary):
    constraint = constraints.gbnf('root ::= "a"+')
    (token_id,), end = vocabulary.encode("a"), EOS + 1
    assert take(constraint, [token_id, end])
    assert constraint.is_complete
    assert set(allowed(constraint)) == vocabulary.eos_ids
    assert take(constraint, [end])


def test_requests_of_one_vocabulary_do_not_meet(constraints, vocabulary):
    first, second = (constraints.gbnf('root ::= "yes"') for _ in range(2))
    assert take(first, vocabulary.encode("y"))
    assert accepts(second, vocabulary, "yes")
    assert accepts(first, vocabulary, "es")


def by_schema(schema: Any) -> Callable[[ConstraintFactory], object]:
    return lambda constraints: constraints.json_schema(schema)


def by_grammar(grammar: str) -> Callable[[ConstraintFactory], object]:
    return lambda constraints: constraints.gbnf(grammar)


REJECTED = [
    (by_schema({"type": "foo"}), "Invalid type: foo"),
    (by_schema({"type": "string", "pattern": "("}), "unclosed group"),
    (by_schema({"not": {}}), "Unimplemented keys"),
    (by_schema({"type": "string", "minLength": 5, "maxLength": 2}), "Unsatisfiable"),
    (by_schema({"$ref": "#/x"}), "does not exist"),
    (by_grammar("root ::= ("), r"cannot be read: Expected '\)' at line 1"),
    (by_grammar('other ::= "a"'), "No 'root' rule"),
    (by_grammar("root ::= other"), "Rule 'other' not found"),
    (by_grammar("root ::= " + "(" * 3000), "nested too deeply"),
    (by_grammar("root ::= [z-a]"), "cannot be constrained"),
]


@pytest.mark.parametrize(("make", "message"), REJECTED, ids=[message for _, message in REJECTED])
def test_what_cannot_be_enforced_is_rejected(constraints, make, message):
    with pytest.raises(RejectedRequestError, match=message):
        make(constraints)


def test_a_grammar_that_becomes_too_complex_is_an_error_and_no_end(constraints, vocabulary):
    constraint = constraints.json_schema({"properties": {f"p{n}": {} for n in range(3000)}})
    with pytest.raises(RejectedRequestError, match="cannot be constrained: .* 2000"):
        take(constraint, vocabulary.encode('{"p', special=False))
    with pytest.raises(RejectedRequestError, match="cannot be constrained"):
        constraint.mask()
    assert not constraint.is_complete


class NoEnds:
    """A vocabulary that never ends a text."""

    size = 1
    eos_ids: frozenset[int] = frozenset()


def test_a_model_without_an_end_has_no_grammar():
    factory: Any = ConstraintFactory
    with pytest.raises(RejectedRequestError, match="no token that ends"):
        factory(NoEnds()).gbnf('root ::= "a"')
