"""llama.cpp's grammar notation (GBNF) as llguidance takes it (Lark).

Source: llama.cpp, grammars/README.md; llguidance, docs/syntax.md.
"""

import re

from llguidance.gbnf_to_lark import gbnf_to_lark

_CODE_POINT = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|.)", re.DOTALL)
_ASCII_END = 0x80
_LITERAL = r'"(?:[^"\\\n]|\\.)*"|/(?:[^/\\\n]|\\.)+/'
_PART = re.compile(rf"//[^\n]*|(?P<any>/\./)|{_LITERAL}|(?P<rule>[a-z_][a-z0-9_]*)")
_WHOLE = "WHOLE_TEXT__"


def lark_of(gbnf: str) -> str:
    """The grammar in Lark. One without recursion is a single terminal, a regular expression in
    effect: that is exact, and quick where a long text follows. In a grammar with recursion each rule
    without is a terminal, and terminals are taken as long as they get: `word "x"` with
    `word ::= [a-z]+` matches nothing there, because the word takes the x.

    Raises: ValueError for what is no GBNF.
    """
    try:
        lark = gbnf_to_lark(_CODE_POINT.sub(_as_character, gbnf))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except Exception as error:  # The library raises bare exceptions.
        raise ValueError(str(error)) from error
    head, start, rules = lark.partition("start:")
    # The library's dot leaves out the line feed; GBNF's does not.
    rules = _PART.sub(lambda part: r"/(?s:.)/" if part["any"] else part[0], rules)
    if start and not any(part["rule"] for part in _PART.finditer(rules)):
        return f"{head}start: {_WHOLE}\n{_WHOLE}:{rules}"
    return head + start + rules


def _as_character(escape: re.Match[str]) -> str:
    """The library drops the leading zeros of these escapes, and then takes what follows for digits."""
    digits = escape[1] or escape[2]
    if digits is None:
        return escape[0]
    code = int(digits, 16)
    return f"\\x{code:02x}" if code < _ASCII_END else chr(min(code, 0x10FFFF))
