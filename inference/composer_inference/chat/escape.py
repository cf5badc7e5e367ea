"""Keeps control tokens that are written in a conversation from being taken for control tokens.

A file that the model is shown may hold `<|im_end|>`; in the prompt's text that would end the user's
turn. Such words are cut out before the template is rendered, and go into the prompt as the token ids
of their letters.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from composer_inference.backends.base import Backend, Capability, Prompt

_CANDIDATE = re.compile(r"<[|｜/]?[\w▁| /.:-]{1,48}[|｜]?>|\[/?[A-Z_]{1,32}\]")
"""What control tokens look like. Which of them are ones, the model's tokenizer says."""

_MARK = "\ue000{}\ue001"
_MARKED = re.compile("\ue000([0-9]+)\ue001")
"""Private-use characters, which stand in the place of a word while the template is rendered."""


class Escaper:
    """The words of one conversation that are not what they look like."""

    def __init__(self, ids: Mapping[str, list[int]]) -> None:
        """`ids`: each word, and the token ids of its letters."""
        self._words = list(ids)
        self._ids = list(ids.values())
        words = sorted(ids, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, words)) or r"(?!)")

    def escape(self, value: Any) -> Any:
        """The value with all texts in it escaped."""
        return _map_texts(value, self._escape_text) if self._words else value

    def pieces(self, rendered: str) -> Prompt:
        """The rendered text with the words' token ids in their places."""
        pieces: list[str | int] = []
        for at, part in enumerate(_MARKED.split(rendered)):
            if at % 2 == 0:
                pieces += [part] if part else []
            elif int(part) < len(self._ids):
                pieces += self._ids[int(part)]
        return tuple(pieces)

    def _escape_text(self, text: str) -> str:
        return self._pattern.sub(lambda match: _MARK.format(self._words.index(match[0])), text)


async def find_control_words(backend: Backend, *values: Any) -> Escaper:
    """An escaper for the texts in `values`; without a tokenizer nothing can be escaped."""
    if Capability.TOKENIZE not in backend.capabilities:
        return Escaper({})
    candidates: set[str] = set()
    for value in values:
        _map_texts(value, lambda text: (candidates.update(_CANDIDATE.findall(text)), text)[1])
    ids: dict[str, list[int]] = {}
    for word in sorted(candidates):
        as_letters = await backend.tokenize(word, special=False)
        if as_letters != await backend.tokenize(word):
            ids[word] = as_letters
    return Escaper(ids)


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        fields = cast(dict[str, Any], value)
        # Kept its own type: the arguments of past calls are more than a dictionary.
        return type(fields)({key: _map_texts(item, change) for key, item in fields.items()})
    if isinstance(value, list | tuple):
        return [_map_texts(item, change) for item in cast(list[Any], value)]
    return value
