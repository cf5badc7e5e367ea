"""Where a root's store lies: in the user's cache folder, never in the workspace."""

import os
import re
from hashlib import blake2b
from pathlib import Path


def store_location(cache_dir: Path, root: Path) -> Path:
    """Returns the folder of `root`'s store under `cache_dir`; makes nothing.

    Two names of one folder (a symbolic link) share a store. The readable part of the name is for
    people; the hash tells roots apart.
    """
    real = os.path.realpath(root)
    digest = blake2b(os.fsencode(real), digest_size=8).hexdigest()
    name = re.sub(r"[^\w.-]+", "_", Path(real).name, flags=re.ASCII)[:40]
    return cache_dir / "index" / f"{name or 'root'}-{digest}"


def shared_vectors_location(cache_dir: Path, embedder: str) -> Path:
    """Returns the file that all roots' vectors by `embedder` share; makes nothing."""
    return cache_dir / "index" / "vectors" / f"{slug(embedder)}.sqlite3"


def slug(name: str) -> str:
    """Returns a name for a file or a table: readable, and different for different `name`s."""
    digest = blake2b(name.encode(), digest_size=4).hexdigest()
    return f"{re.sub(r'[^a-z0-9]+', '_', name.lower())[:40]}_{digest}"
