"""Indices and compaction: what keeps a database quick to search and small on the disk."""

from datetime import UTC, datetime, timedelta
from typing import Any

from composer_index.store.database import Database, translated
from composer_index.store.lance import Table, lance_index

_ROWS_A_PARTITION = 16_384
"""Of the vector index. A query takes about 3 ms for 27,000 quantised vectors read from end to end,
so partitions only pay for themselves in large workspaces; their training costs by the number."""

_MANY_PIECES = 20
_MANY_UNINDEXED = 2000
"""Rows: to scan so many adds about 15 ms to a query; merging costs a second for 50,000 chunks."""
_VECTOR_INDEX = "vector_"
_TEXT_COLUMNS = ("words", "identifiers")


def _text_index() -> Any:
    # The words come split and stemmed from `words.py`: Lance is to split at spaces and no more.
    return lance_index.FTS(
        base_tokenizer="whitespace",
        stem=False,
        remove_stop_words=False,
        lower_case=False,
        ascii_folding=False,
        with_position=False,
        max_token_length=200,
        memory_limit=256,
        num_workers=1,
    )


def make_indices(database: Database) -> None:
    """Makes the indices that are missing. Rows that come later are found all the same, by a scan,
    until the next `optimize`.

    Raises: StoreError.
    """
    with translated("indexing"):
        for column in _TEXT_COLUMNS:
            _make(database.chunks, column, _text_index())
        _make(database.definitions, "name", lance_index.BTree())
        for table in (database.chunks, database.definitions, database.files):
            _make(table, "path", lance_index.BTree())
        for table in database.vector_tables():
            _make(table, "path", lance_index.BTree())
            _make_vector_index(table)


def _make(table: Table, column: str, config: Any, *, replace: bool = False) -> None:
    name = f"{column}_idx"
    if replace or name not in _index_names(table):
        table.create_index(column, config=config, name=name, replace=replace)


def _drop(table: Table, column: str) -> None:
    if (name := f"{column}_idx") in _index_names(table):
        table.drop_index(name)


def _make_vector_index(table: Table) -> None:
    """The index's name says how many partitions it has: a table that outgrew them gets a new one."""
    rows = table.count_rows()
    wanted = max(1, rows // _ROWS_A_PARTITION)
    had = [name for name in _index_names(table) if name.startswith(_VECTOR_INDEX)]
    if not rows or any(int(name.removeprefix(_VECTOR_INDEX)) * 2 > wanted for name in had):
        return
    for name in had:
        table.drop_index(name)
    config = lance_index.IvfSq(distance_type="l2", num_partitions=wanted)
    table.create_index("vector", config=config, name=f"{_VECTOR_INDEX}{wanted}")


def _index_names(table: Table) -> list[str]:
    return [index.name for index in table.list_indices()]


def index_all(database: Database) -> None:
    """Takes all rows into the indices, and merges small pieces, which are slow to search. Where most
    rows are new, as after a first build, text indices are made anew: that is twice as quick as
    merging, and spares merging the pieces their share in the old ones. Meanwhile words are searched
    row by row, as new rows always are.

    Raises: StoreError.
    """
    with translated("indexing"):
        if num_unindexed_rows(database) * 2 > database.chunks.count_rows():
            for column in _TEXT_COLUMNS:
                _drop(database.chunks, column)
        for table in database.tables():
            if _num_unindexed(table) or _num_small_pieces(table) >= _MANY_PIECES:
                table.optimize()
        make_indices(database)


def num_unindexed_rows(database: Database) -> int:
    """Returns how many chunks a search by words still has to scan."""
    with translated("reading the index's figures"):
        figures = database.chunks.index_stats("words_idx")
        return database.chunks.count_rows() if figures is None else figures.num_unindexed_rows


def compact(database: Database, grace_s: float, *, purge: bool) -> bool:
    """Does one step: merges small pieces and takes new rows into the indices, once there are enough
    of either, or with `purge` anything at all, deleted rows above all; or, where that is done,
    removes from the disk the versions that no search can still be reading.

    Readers go to the newest version with each question, so what was replaced more than `grace_s`
    seconds ago is safe to remove.

    Returns whether another step, `grace_s` seconds from now, would find something to do.
    Raises: StoreError.
    """
    waiting = False
    with translated("compacting"):
        make_indices(database)
        for table in database.tables():
            waiting |= _compact(table, grace_s, purge=purge)
    return waiting


def _compact(table: Table, grace_s: float, *, purge: bool) -> bool:
    if _has_work(table, purge=purge):
        _merge(table, purge=purge)
        return True
    versions: list[dict[str, Any]] = table.list_versions()
    if len(versions) == 1:
        return False
    latest = max(version["timestamp"] for version in versions)
    now = datetime.now(UTC) if latest.tzinfo else datetime.now()
    if now - latest < timedelta(seconds=grace_s):
        return True
    # The one writer is this process, so nothing unfinished is anyone else's.
    table.optimize(cleanup_older_than=timedelta(milliseconds=1), delete_unverified=True)
    return False


def _has_work(table: Table, *, purge: bool) -> bool:
    small = _num_small_pieces(table)
    unindexed = _num_unindexed(table)
    if purge:
        return small > 1 or unindexed > 0 or _has_deleted(table)
    return small >= _MANY_PIECES or unindexed >= _MANY_UNINDEXED


def _num_small_pieces(table: Table) -> int:
    return table.stats()["fragment_stats"]["num_small_fragments"]


def _has_deleted(table: Table) -> bool:
    """Whether rows that were deleted are still in the data."""
    pieces = table.stats()["fragment_stats"]
    num, lengths = pieces["num_fragments"], pieces["lengths"]
    # Lance rounds the mean down. More than two pieces that do not merge are millions of rows.
    num_held = lengths["min"] + lengths["max"] if num == 2 else num * lengths["mean"]
    return num_held > table.count_rows()


def _num_unindexed(table: Table) -> int:
    figures = (table.index_stats(index.name) for index in table.list_indices())
    return max((each.num_unindexed_rows for each in figures if each), default=0)


def _merge(table: Table, *, purge: bool) -> None:
    had_deleted = purge and (_num_small_pieces(table) > 1 or _has_deleted(table))
    table.optimize()
    if not had_deleted:
        return
    if _num_small_pieces(table) > 1 or _has_deleted(table):
        # Lance rewrites a large piece only when a tenth of it is gone, and merges none that lie in
        # different parts of an index: an update of all rows does both.
        table.update(where="true", values_sql={"generation": "generation"})
        table.optimize()
    # Its text indices keep the words of deleted rows: begin them anew.
    for column in _TEXT_COLUMNS:
        if column in table.schema.names:
            _make(table, column, _text_index(), replace=True)
