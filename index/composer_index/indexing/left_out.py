"""How many files the last listing left out, by reason, kept beside the store: whoever asks for a
status has not listed the files itself."""

import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from composer_index.ignores.rules import Reason

logger = logging.getLogger(__name__)

_FILE = "left-out.json"


def write_left_out(location: Path, counts: Mapping[Reason, int]) -> None:
    """Replaces what is kept in a store's folder. A failure is only logged: nothing depends on it."""
    positive = {reason: count for reason, count in counts.items() if count}
    partial = location / f"{_FILE}.partial"
    try:
        partial.write_text(json.dumps(positive), encoding="utf-8")
        partial.replace(location / _FILE)
    except OSError as error:
        logger.warning("what was left out is not noted: %s", error)


def read_left_out(location: Path) -> dict[str, int]:
    """Empty where nothing was noted, or what is there cannot be read."""
    with suppress(OSError, ValueError, TypeError, AttributeError):
        kept = json.loads((location / _FILE).read_bytes())
        return {str(reason): int(count) for reason, count in kept.items()}
    return {}


def forget_left_out(location: Path) -> None:
    """Nothing is known any more."""
    with suppress(OSError):
        (location / _FILE).unlink(missing_ok=True)
