"""Whether a model says the same again and again, as small ones do until their answer is cut off."""

_NUM_CHARS = 2000
"""Of a text's end that are nothing but one piece, repeated."""
_MAX_PIECE_CHARS = 400


def is_endless(text: str) -> bool:
    end = text[-_NUM_CHARS:]
    if len(end) < _NUM_CHARS:
        return False
    # A text that repeats every n characters is itself, moved by n.
    period = end.find(end[: _NUM_CHARS - _MAX_PIECE_CHARS], 1)
    return 0 < period <= _MAX_PIECE_CHARS and end.startswith(end[period:])
