"""Watches that an answer constrained to JSON is JSON: a constraint that was dropped must not pass."""

import json

from composer_inference.backends.base import GenerateChunk, RejectedRequestError

_STARTS = frozenset('{["-0123456789tfn')


class JsonGuard:
    def __init__(self) -> None:
        self._text = ""

    def check(self, chunk: GenerateChunk) -> None:
        """Raises: RejectedRequestError for text that no JSON begins with, or an end that is none."""
        started = bool(self._text.strip())
        self._text += chunk.text
        begun = self._text.lstrip()
        if not started and begun and begun[0] not in _STARTS:
            raise _dropped(f"the answer begins {begun[:80]!r}")
        if chunk.finish_reason == "stop":
            try:
                json.loads(self._text)
            except (ValueError, RecursionError) as error:
                raise _dropped(str(error)) from error


def _dropped(sign: str) -> RejectedRequestError:
    return RejectedRequestError(
        f"the JSON schema was not enforced, because no value meets it or it is too complex: {sign}"
    )
