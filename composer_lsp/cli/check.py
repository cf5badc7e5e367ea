"""What `composer-lsp doctor` reports."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    name: str
    ok: bool
    detail: str
    mend: str = ""
    """The command that mends it; empty when nothing is wrong."""


def can_be_written(folder: Path) -> bool:
    """Whether files can be made in the folder, or the folder where it is missing."""
    nearest = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    return nearest.is_dir() and os.access(nearest, os.R_OK | os.W_OK | os.X_OK)
