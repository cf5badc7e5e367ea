"""The index as users have it, among the searches that are compared."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from composer_index.evaluate.queries import Place
from composer_index.evaluate.run import Searches
from composer_index.root import RootIndex

_NUM_RESULTS = 10


def index_search(
    tree: Path, cache_dir: Path, prepare: Callable[[RootIndex], None] = lambda index: None
) -> Searches:
    """Indexes a tree from nothing, in a folder of `cache_dir` that stays. `prepare` gets the index
    when it is complete, to have it use other models.

    Raises: StoreError, and what `prepare` raises.
    """
    index = RootIndex(tree, cache_dir=Path(tempfile.mkdtemp(dir=cache_dir)))
    index.open()
    index.refresh()
    prepare(index)

    def search(query: str) -> Sequence[Place]:
        return [
            Place(path=found.path, start_line=found.start_line, end_line=found.end_line)
            for found in index.search(query, _NUM_RESULTS)
        ]

    return {"the index": search}
