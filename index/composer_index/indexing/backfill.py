"""Fills in a model's vectors of one root, a few texts at a time, for when nothing else is to be done.

The table's vectors answer until every file has the model's; then those take over. A file that
changes afterwards waits here again, and is found by words and by the table meanwhile. What was
embedded lies in `SharedVectors` at once, so a process that ends loses no more than one request, and
another branch, worktree or window asks the server for nothing.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from composer_index.embedding.embedder import Vectors
from composer_index.embedding.served import ServedEmbedder, text_of
from composer_index.files.order import in_order, recently_committed
from composer_index.indexing.visits import Visits
from composer_index.store.location import shared_vectors_location
from composer_index.store.records import StoredChunk
from composer_index.store.shared_vectors import SharedVectors

if TYPE_CHECKING:
    from composer_index.store.store import Store

REQUEST_S = 0.2
"""What a request should take: whoever types or searches may have to wait for one of them."""
MAX_TEXTS = 64
"""In a request, however quick the server is."""
GROUP_FILES = 16
"""Stored by one commit, so that commits cost little."""


@dataclass(kw_only=True, slots=True)
class Group:
    """Some files under way."""

    chunks: Sequence[StoredChunk]
    vectors: dict[str, Vectors]
    """By content hash."""
    missing: list[StoredChunk] = field(default_factory=list[StoredChunk])
    """One for each content hash that has no vector yet."""


class Backfill:
    """Its methods are called one at a time, from any thread; `store_group` and `finish`, which write
    to the store, from the store's writer. `add`, `is_waiting` and the counts may be asked meanwhile.

    They raise ModelServerError, and what `Store` and `SharedVectors` raise. Call `plan` after that:
    what was under way is not queued any more.
    """

    def __init__(
        self,
        store: "Store",
        embedder: ServedEmbedder,
        cache_dir: Path,
        visits: Visits,
        root: str,
    ) -> None:
        """`cache_dir` holds the vectors that roots share."""
        self.embedder = embedder
        self._store = store
        self._cache_dir = cache_dir
        self._shared: SharedVectors | None = None
        self._shared_name = ""
        self._visits = visits
        self._root = root
        self._queue: OrderedDict[str, None] = OrderedDict()
        self._in_hand: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self._num_texts = 2
        self.is_planned = False
        """Whether the queue holds every file that lacks vectors."""

    @property
    def num_left(self) -> int:
        """Files without the model's vectors, as far as is known."""
        return len(self._queue) + len(self._in_hand)

    def is_waiting(self, path: str) -> bool:
        """Whether a file has no vectors by the model, or old ones."""
        return path in self._queue or path in self._in_hand

    def add(self, paths: Iterable[str]) -> None:
        """Files were stored anew, and so without the model's vectors."""
        if self.is_planned:
            with self._lock:
                self._queue.update(dict.fromkeys(paths))

    def plan(self) -> None:
        """Find out which files lack vectors. The first request of all tells the model's name."""
        self.embedder.connect()
        with self._lock:
            self._in_hand = frozenset()
            self._queue.clear()
        # From here on what is stored meanwhile is added, so that none is missed.
        self.is_planned = True
        paths = self._store.unembedded(self.embedder.name)
        recent = recently_committed(self._root) if paths else []
        with self._lock:
            self._queue.update(dict.fromkeys(in_order(paths, recent=recent)))

    def next_group(self) -> Group | None:
        """The next files, the most visited first, with what others embedded already. None if there
        is none."""
        if not self.is_planned:
            self.plan()
        paths = self._next_paths()
        if not paths:
            return None
        place = {path: number for number, path in enumerate(paths)}
        chunks = sorted(self._store.chunks_of(paths), key=lambda chunk: place[chunk.path])
        shared = self._opened_shared()
        vectors = dict(shared.get(list({chunk.content_hash for chunk in chunks})))
        missing = {chunk.content_hash: chunk for chunk in chunks}
        return Group(
            chunks=chunks,
            vectors=vectors,
            missing=[chunk for key, chunk in missing.items() if key not in vectors],
        )

    def embed_some(self, group: Group) -> bool:
        """Have the server embed some of what is missing; whether more is. One request, unless it
        refuses some of the texts."""
        if not group.missing:
            return False
        some = group.missing[: self._num_texts]
        started = time.monotonic()
        vectors = self.embedder.embed([text_of(chunk) for chunk in some])
        elapsed_s = time.monotonic() - started
        made = {chunk.content_hash: row for chunk, row in zip(some, vectors, strict=True)}
        # A row of zeros is the server's refusal, which another version of it may take back.
        self._opened_shared().put({key: row for key, row in made.items() if row.any()})
        group.vectors |= made
        del group.missing[: len(some)]
        if elapsed_s > REQUEST_S:
            self._num_texts = max(1, self._num_texts // 2)
        elif elapsed_s < REQUEST_S / 2 and len(some) == self._num_texts:
            self._num_texts = min(MAX_TEXTS, self._num_texts * 2)
        return bool(group.missing)

    def store_group(self, group: Group) -> None:
        """Stores the vectors of the group's files that are as they were."""
        paths = sorted(self._in_hand)
        now = {chunk.path: chunk.generation for chunk in self._store.chunks_of(paths)}
        chunks = [chunk for chunk in group.chunks if now.get(chunk.path) == chunk.generation]
        if chunks:
            vectors = np.stack([group.vectors[chunk.content_hash] for chunk in chunks])
            self._store.put_vectors(self.embedder.name, chunks, vectors)
        self._in_hand = frozenset()

    def put_back(self, group: Group) -> None:
        """The group is not gone on with now. What was embedded of it is shared already."""
        with self._lock:
            paths = dict.fromkeys(chunk.path for chunk in group.chunks)
            self._queue.update(paths)
            self._in_hand -= paths.keys()

    def finish(self, keep: str) -> bool:
        """When nothing is queued: lets the model's vectors answer, and drops all others but those
        of the embedder named `keep`. False if files turned up that lack vectors."""
        name = self.embedder.name
        if self._store.embedder != name:
            self.plan()
            if self._queue:
                return False
            self._store.refresh_indices()
        self._store.switch_embedder(name, keep=(keep,))
        return True

    def prune(self) -> None:
        """Removes from the shared vectors what nobody has asked for in a long while."""
        if self._shared is not None:
            self._shared.prune()

    def _next_paths(self) -> list[str]:
        """Takes some files out of the queue."""
        visited = self._visits.most()
        with self._lock:
            first = [path for path in visited if path in self._queue][:GROUP_FILES]
            rest = (path for path in self._queue if path not in first)
            paths = [*first, *islice(rest, GROUP_FILES - len(first))]
            self._in_hand = frozenset(paths)
            for path in paths:
                del self._queue[path]
        return paths

    def _opened_shared(self) -> SharedVectors:
        name = self.embedder.name
        if self._shared is None or self._shared_name != name:
            if self._shared is not None:
                self._shared.close()
            self._shared = SharedVectors(shared_vectors_location(self._cache_dir, name))
            self._shared_name = name
        return self._shared


def fill(backfill: Backfill, keep: str, on_progress: Callable[[int], None]) -> None:
    """All of it in one go, by the store's writer, for whoever has nothing else to do; `on_progress`
    is told the files left. Raises what `Backfill` raises."""
    while True:
        on_progress(backfill.num_left)
        if (group := backfill.next_group()) is not None:
            while backfill.embed_some(group):
                pass
            backfill.store_group(group)
        elif backfill.finish(keep):
            on_progress(0)
            return
