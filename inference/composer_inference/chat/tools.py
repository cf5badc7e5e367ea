"""Tools that a model may call: the JSON schema of a call, and how a call begins in a text."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

OPENER = "<tool_call>"
CLOSER = "</tool_call>"
"""Hermes' and Qwen's marks, also used for models whose template knows none."""

_DISGUISES = ("```json", "```", "<tools>", "")
"""What else models write before a JSON object that names a tool. Qwen2.5-Coder was told of
`<tool_call>` and answers with a fence."""


@dataclass(frozen=True, slots=True)
class Opening:
    """A call begins."""

    text_before: str
    """Of what was not yet released, the part that belongs to the answer."""
    rest: str
    """The opening, and what came behind it."""


class Tools:
    """The functions that one request offers, as OpenAI's API describes them."""

    def __init__(
        self, definitions: Sequence[Mapping[str, Any]], schemas: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """`definitions` are what the model is shown: `{"type": "function", "function": {…}}`;
        `schemas` what the arguments are held to, by the function's name."""
        self.definitions = tuple(definitions)
        self._schemas = dict(schemas)

    def __bool__(self) -> bool:
        return bool(self._schemas)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._schemas)

    def call_schema(self, only: str | None = None) -> dict[str, Any]:
        """JSON schema of one call, to any tool or to the one named; `name` comes first."""
        shared: dict[str, Any] = {}
        calls = [
            {
                "type": "object",
                "properties": {
                    "name": {"const": name},
                    "arguments": _moved(schema, f"{name}.", shared),
                },
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
            for name, schema in self._schemas.items()
            if only is None or name == only
        ]
        whole: dict[str, Any] = calls[0] if len(calls) == 1 else {"anyOf": calls}
        return {**whole, "$defs": shared} if shared else whole


class OpeningScanner:
    """Reads an answer piece by piece, and holds back what may turn out to begin a call."""

    def __init__(self, tools: Tools) -> None:
        self._names = tools.names
        self._held = ""
        self._at_line_start = True

    def feed(self, text: str) -> str | Opening:
        """The text that is settled by now to be the answer's own, or the opening that was found;
        no feeding after that."""
        self._held += text
        settled = 0
        for at in self._candidates():
            verdict = self._verdict(self._held[at:])
            if verdict == "call":
                return Opening(self._held[:at], self._held[at:])
            if verdict == "open":
                break
            settled = at + 1
        else:
            settled = len(self._held)
        return self._release(settled)

    @property
    def is_holding(self) -> bool:
        return bool(self._held)

    def flush(self) -> str:
        """What is still held back, when nothing follows."""
        return self._release(len(self._held))

    def _candidates(self) -> Iterator[int]:
        for match in re.finditer(r"[<`{]", self._held):
            at = match.start()
            if match[0] != "{" or self._starts_line(at):
                yield at

    def _starts_line(self, at: int) -> bool:
        before = self._held[:at].rstrip(" \t")
        return before.endswith("\n") or (not before and self._at_line_start)

    def _verdict(self, tail: str) -> str:
        if tail.startswith(OPENER):
            return "call"
        is_open = OPENER.startswith(tail)
        for disguise in _DISGUISES:
            if not tail.startswith(disguise):
                is_open = is_open or disguise.startswith(tail)
                continue
            compact = "".join(tail.removeprefix(disguise).split())
            for name in self._names:
                whole = f'{{"name":"{name}"'
                if compact.startswith(whole):
                    return "call"
                is_open = is_open or whole.startswith(compact)
        return "open" if is_open else "text"

    def _release(self, length: int) -> str:
        released, self._held = self._held[:length], self._held[length:]
        if released.strip(" \t"):
            self._at_line_start = released.rstrip(" \t").endswith("\n")
        return released


def _moved(schema: Any, prefix: str, shared: dict[str, Any]) -> Any:
    """The schema with its definitions moved to `shared`, where the references in it, which count
    from the root, still find them."""
    if isinstance(schema, list):
        return [_moved(item, prefix, shared) for item in cast(list[Any], schema)]
    if not isinstance(schema, dict):
        return schema
    moved: dict[str, Any] = {}
    for key, value in cast(dict[str, Any], schema).items():
        if key in ("$defs", "definitions") and isinstance(value, dict):
            for name, definition in cast(dict[str, Any], value).items():
                shared[prefix + name] = _moved(definition, prefix, shared)
        elif key == "$ref" and isinstance(value, str):
            moved[key] = re.sub(r"^#/(\$defs|definitions)/", f"#/$defs/{prefix}", value)
        else:
            moved[key] = _moved(value, prefix, shared)
    return moved
