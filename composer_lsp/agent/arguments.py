"""A call's arguments: from what the model wrote, and to what the next request shows it of them."""

import json
from typing import Any

from composer_lsp.agent.lenient_json import read_json

MAX_CHARS = 400_000
"""Of one call's arguments."""
_MAX_SHOWN_CHARS = 2000


def as_object_text(written: str) -> str:
    """JSON of an object, whatever the model wrote: servers refuse a conversation whose past calls
    hold anything else. What cannot be read is shown as the text of `malformed`."""
    try:
        value = read_arguments(written)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        shown = written[:_MAX_SHOWN_CHARS]
        return json.dumps({"malformed": shown}, ensure_ascii=False)
    return written if _is_strict(written) else json.dumps(value, ensure_ascii=False)


def read_arguments(written: str) -> Any:
    """Raises: ValueError."""
    if len(written) > MAX_CHARS:
        raise ValueError(
            f"the arguments have {len(written):,} characters, more than {MAX_CHARS:,}; do it in "
            "smaller steps"
        )
    try:
        return read_json(written or "{}")
    except ValueError as error:
        raise ValueError(f"the arguments are no JSON: {error}") from error


def canonical(written: str) -> str:
    """The same for arguments that say the same: spaces and the order of names do not matter."""
    try:
        return json.dumps(read_arguments(written), sort_keys=True)
    except ValueError:
        return written


def _is_strict(written: str) -> bool:
    try:
        return isinstance(json.loads(written), dict)
    except (ValueError, RecursionError):
        return False
