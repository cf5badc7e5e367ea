"""Token healing: where a prompt may end without splitting a token.

A prompt that ends with the text before the cursor ends inside a token more often than not: the
blank of `x = ` belongs to the next word, `retu` is the beginning of one. A model has hardly seen
such ends in training (seen: pass@1 .17 behind an indentation, .72 healed, on the same problems).
So the end is held back, and the answer has to begin with it.
"""

import re

_LAST_TOKEN = re.compile(
    r"""(?x)
    (?:
        (?:[^\r\n\w]|_)? [^\W\d_]+   # letters, with the one blank or mark that they may carry
      | [ ]? [^\s\w]{1,16}           # marks, which the next letters or marks may join
      | [ \t]                        # the blank that the next word begins with
    )\Z
    """
)
"""The last piece of the pre-tokeniser that GPT-4, Qwen2.5, Llama 3 and StarCoder2 share in essence.
Digits are tokens of their own there, and a line end is never joined with what follows."""

_MAX_HELD_CHARS = 24
"""Each held token is decoded again, one at a time; a longer word is split for that, at the last
place where a capital or a mark begins a new part."""
_LAST_PART = re.compile(r"(?:[A-Z]|[^\w]|_)[^\W_A-Z]*\Z")


def split_last_token(prefix: str) -> tuple[str, str]:
    """The text up to the beginning of its last token, and that token's text."""
    match = _LAST_TOKEN.search(prefix[-256:])
    held = match.group() if match else ""
    if len(held) > _MAX_HELD_CHARS:
        part = _LAST_PART.search(held)
        held = part.group() if part and len(part.group()) <= _MAX_HELD_CHARS else ""
    return prefix[: len(prefix) - len(held)], held


def without_start(answer: str, starts_with: str) -> str | None:
    """The answer behind the held text; None when it does not begin with it. A blank is as good
    as none, because the words that follow carry the meaning."""
    if answer.startswith(starts_with):
        return answer[len(starts_with) :]
    held = starts_with.lstrip(" \t")
    said = answer.lstrip(" \t")
    return said[len(held) :] if said.startswith(held) else None
