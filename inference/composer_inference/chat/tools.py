"""Tools that a model may call: their JSON schema, and how a call begins in its text."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

OPENER = "<tool_call>"
CLOSER = "</tool_call>"
"""Hermes' and Qwen's markers."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    name: str
    arguments: str
    """A JSON object, as text."""


class Tools:
    """The functions that one request offers, as OpenAI's API describes them."""

    def __init__(self, definitions: Sequence[Mapping[str, Any]]) -> None:
        self.definitions = tuple(definitions)
        self._schemas = {
            str(definition["function"]["name"]): definition["function"].get("parameters")
            or {"type": "object"}
            for definition in definitions
        }
        names = "|".join(re.escape(name) for name in self._schemas)
        # Some models answer with a fenced or a bare JSON object that names the tool.
        self._disguised = re.compile(rf'(?:```(?:json)?\s*)?\{{\s*"name"\s*:\s*"(?:{names})"')

    def __bool__(self) -> bool:
        return bool(self._schemas)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._schemas)

    def call_schema(self, only: str | None = None) -> dict[str, Any]:
        """JSON schema of one call, to any tool or to the one named."""
        calls = [
            {
                "type": "object",
                "properties": {"name": {"const": name}, "arguments": schema},
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
            for name, schema in self._schemas.items()
            if only is None or name == only
        ]
        return calls[0] if len(calls) == 1 else {"anyOf": calls}

    def find_opening(self, text: str) -> tuple[int, int] | None:
        """Where a call begins: the end of the text before it, and the start of its JSON object."""
        found = [(at, at + len(OPENER)) for at in [text.find(OPENER)] if at >= 0]
        if (disguised := self._disguised.search(text)) is not None:
            found.append((disguised.start(), text.index("{", disguised.start())))
        return min(found, default=None)

    def num_settled(self, text: str) -> int:
        """How many characters of `text` can belong to no call, whatever follows."""
        candidates = [at for opener in (OPENER, "```") if (at := _suspect(text, opener)) >= 0]
        if (brace := re.search(r"\{[^{}]*$", text)) and len(text) - brace.start() < 80:
            candidates.append(brace.start())
        if (fence := text.rfind("```")) >= 0 and len(text) - fence < 80:
            candidates.append(fence)
        return min(candidates, default=len(text))


def parse_call(text: str, known: Sequence[str]) -> ToolCall | None:
    """The call in a JSON object; None if it is no call to a known tool."""
    try:
        value: object = json.loads(text)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    fields = cast(dict[str, Any], value)
    name, arguments = fields.get("name"), fields.get("arguments", {})
    if name not in known or not isinstance(arguments, dict):
        return None
    return ToolCall(str(name), json.dumps(arguments, ensure_ascii=False))


def _suspect(text: str, opener: str) -> int:
    """Where the end of the text may have begun the opener, -1 if nowhere."""
    for length in range(min(len(opener) - 1, len(text)), 0, -1):
        if text.endswith(opener[:length]):
            return len(text) - length
    return -1
