"""Arguments that a model wrote as text between marks, one by one."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from composer_lsp.agent.lenient_json import read_json


def arguments_text(pairs: Sequence[tuple[str, str]], schema: Mapping[str, Any]) -> str:
    """JSON of an object. A value is text where the schema says so, and else JSON if it is any."""
    properties = schema.get("properties", {})
    found = {
        name: value if properties.get(name, {}).get("type") == "string" else _value(value)
        for name, value in pairs
    }
    # With a name given twice it is not certain what was meant.
    return json.dumps(found) if len(found) == len(pairs) else json.dumps(pairs)


def inner_text(text: str) -> str:
    """Without the one line end behind the opening mark and the one before the closing mark."""
    return text.removeprefix("\n").removesuffix("\n")


def _value(text: str) -> Any:
    try:
        return read_json(text)
    except ValueError:
        return text
