"""What the last listing of the files came to, kept beside the store: for processes that only read it
and have not listed the files themselves."""

import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

logger = logging.getLogger(__name__)

_FILE = "planned.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many files, by the reason for which they are hidden."""
    num_left: int = 0
    """Files that had to be indexed then; 0 once they are."""
    num_present: int = 0
    """Files that the index knew then."""
    model: str = ""
    """The embedding model whose vectors are to be used; empty: the table's."""
    num_unembedded: int = 0
    """Files that wait for its vectors."""


def write_planned(location: Path, planned: Planned) -> None:
    """Replaces what is kept in a store's folder. A failure is only logged: no file depends on it."""
    partial = location / f"{_FILE}.partial"
    try:
        partial.write_text(json.dumps(asdict(planned)), encoding="utf-8")
        partial.replace(location / _FILE)
    except OSError as error:
        logger.warning("what is to be indexed is not noted: %s", error)


def read_planned(location: Path) -> Planned | None:
    """None where nothing was noted, or what is there cannot be read."""
    with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        kept = json.loads((location / _FILE).read_bytes())
        left_out = {str(reason): int(count) for reason, count in kept["left_out"].items()}
        return Planned(
            left_out=left_out,
            num_left=int(kept["num_left"]),
            num_present=int(kept["num_present"]),
            model=str(kept["model"]),
            num_unembedded=int(kept["num_unembedded"]),
        )
    return None


def forget_planned(location: Path) -> None:
    """Nothing is known any more."""
    with suppress(OSError):
        (location / _FILE).unlink(missing_ok=True)
