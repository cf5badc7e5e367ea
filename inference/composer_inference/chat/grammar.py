"""GBNF grammars that llama.cpp can read without harm: it parses groups by recursion, on the stack of
the engine's process."""

import re

MAX_CHARS = 100_000
MAX_DEPTH = 100
"""Groups within groups."""

_PASSED_OVER = re.compile(r'"(?:[^"\\\n]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|#[^\n]*')
"""Literals, sets of characters and comments."""


class GrammarError(ValueError):
    """The grammar is larger, or nested more deeply, than can be read."""


def check_grammar(grammar: str) -> str:
    """The grammar itself. Raises: GrammarError."""
    if len(grammar) > MAX_CHARS:
        raise GrammarError(f"has {len(grammar)} characters and may have {MAX_CHARS} at most")
    depth = 0
    for char in _PASSED_OVER.sub("", grammar):
        depth += (char == "(") - (char == ")")
        if depth > MAX_DEPTH:
            raise GrammarError(f"is nested more than {MAX_DEPTH} groups deep")
    return grammar
