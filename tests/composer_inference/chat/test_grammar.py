"""Grammars that would exhaust the stack of the engine's process."""

import pytest

from composer_inference.chat.grammar import MAX_CHARS, MAX_DEPTH, GrammarError, check_grammar


@pytest.mark.parametrize(
    "grammar",
    [
        'root ::= "' + "(" * 1000 + '"',
        'root ::= "\\"' + "(" * 1000 + '"',
        "root ::= [" + "(" * 1000 + "\\]" + "(" * 1000 + "]",
        'root ::= "a" # ' + "(" * 1000 + "\n",
        "root ::= " + "(" * MAX_DEPTH + '"a"' + ")" * MAX_DEPTH,
        "root ::= " + '("a") ' * 1000,
    ],
    ids=["literal", "escape", "set", "comment", "deep", "many"],
)
def test_what_is_no_deep_nesting_passes(grammar):
    assert check_grammar(grammar) == grammar


@pytest.mark.parametrize(
    ("grammar", "says"),
    [
        ("root ::= " + "(" * 90_000, "nested more than"),
        ('root ::= "" ' + "(" * 1000 + '"a"' + ")" * 1000, "nested more than"),
        ("#" * (MAX_CHARS + 1), "100001 characters"),
    ],
    ids=["open", "closed", "long"],
)
def test_what_could_harm_is_refused(grammar, says):
    with pytest.raises(GrammarError, match=says):
        check_grammar(grammar)
