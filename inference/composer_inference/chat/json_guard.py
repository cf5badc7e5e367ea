"""Watches that an answer constrained to JSON is JSON: a constraint that was dropped must not pass."""

import json

from composer_inference.backends.base import BackendError, GenerateChunk

_STARTS = frozenset('{["-0123456789tfn')


class JsonGuard:
    def __init__(self) -> None:
        self._text = ""

    def check(self, chunk: GenerateChunk) -> None:
        """Raises: BackendError for text that no JSON begins with, or an end that is none."""
        started = bool(self._text.strip())
        self._text += chunk.text
        begun = self._text.lstrip()
        if not started and begun and begun[0] not in _STARTS:
            raise BackendError(f"the JSON schema was not enforced: the answer begins {begun!r}")
        if chunk.finish_reason == "stop":
            try:
                json.loads(self._text)
            except ValueError as error:
                raise BackendError(f"the JSON schema was not enforced: {error}") from error
