"""What a store holds, read from the disk beside whoever writes it."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from composer_index.files.listing import list_files
from composer_index.ignores.rules import Rules
from composer_index.store import schema
from composer_index.store.database import Database
from composer_index.store.location import store_location
from tests.support.workers import Worker

Rows = dict[str, list[tuple[Any, ...]]]
"""By path."""
Contents = dict[str, Rows]
"""By table, without what depends on when a row was written."""


def database_of(cache_dir: Path, root: Path) -> Database:
    location = store_location(cache_dir, root)
    current = schema.read_current(location)
    assert current is not None, "there is no store"
    return Database(location / current.database, create=False)


def acknowledged(cache_dir: Path, root: Path) -> dict[str, str]:
    """The content's hash of each file that any search would find now."""
    found = database_of(cache_dir, root).files.search().select(["path", "content_hash"])
    return {row["path"]: row["content_hash"] for row in found.to_list()}


def check_generations(cache_dir: Path, root: Path) -> None:
    """No file has rows of two writes, and no row is without its file."""
    database = database_of(cache_dir, root)
    of_files = _generations(database.files)
    assert all(len(each) == 1 for each in of_files.values()), "a file is there twice"
    for table in database.tables():
        for path, each in _generations(table).items():
            assert each == of_files.get(path), f"{path!a} mixes writes in {table.name}"


def contents(cache_dir: Path, root: Path) -> Contents:
    """Everything, to be compared."""
    database = database_of(cache_dir, root)
    found: Contents = {}
    for table in database.tables():
        columns = [name for name in table.schema.names if name not in ("generation", "mtime_ns")]
        rows: defaultdict[str, list[tuple[Any, ...]]] = defaultdict(list)
        for row in table.search().select(columns).limit(None).to_list():
            rows[row["path"]].append(tuple(map(_plain, row.values())))
        found[table.name] = {path: sorted(each) for path, each in rows.items()}
    return found


def check_exact(
    cache_dir: Path,
    root: Path,
    scratch: Path,
    compare: Callable[[Worker], None] = lambda fresh: None,
) -> Contents:
    """The store holds what one that is made anew from the tree holds. `compare` may ask the new
    one's worker."""
    held = contents(cache_dir, root)
    check_generations(cache_dir, root)
    listed = {file.path for file in list_files(Rules(root))}
    with Worker(scratch) as worker:
        worker.open(root)
        worker.until(lambda: worker.is_idle(root), "a fresh index")
        compare(worker)
        worker.close()
    fresh = contents(scratch, root)
    assert held.keys() == fresh.keys()
    for table, rows in fresh.items():
        assert held[table].keys() == rows.keys(), table
        for path, each in rows.items():
            assert _are_same(held[table][path], each), f"{path!a} in {table}"
    assert len(held["files"]) == len(listed)
    return held


def _generations(table: Any) -> dict[str, set[int]]:
    found: defaultdict[str, set[int]] = defaultdict(set)
    for row in table.search().select(["path", "generation"]).limit(None).to_list():
        found[row["path"]].add(row["generation"])
    return dict(found)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _are_same(some: list[tuple[Any, ...]], others: list[tuple[Any, ...]]) -> bool:
    """Numbers of vectors depend in their last bits on what was embedded beside them."""
    return some == others or (
        [row[:-1] for row in some] == [row[:-1] for row in others]
        and isinstance(some[0][-1], tuple)
        and np.allclose([row[-1] for row in some], [row[-1] for row in others], atol=2**-9)
    )
