"""Brings one root's store up to date with its files, a batch at a time.

Events are hints, and `plan` is the truth: it compares the listing with what the store knows. Between
two batches the caller may pause, stop, or put files first.
"""

import hashlib
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

from composer_index.chunk import ParsedFile, SkippedFile
from composer_index.embedding.static import StaticEmbedder
from composer_index.files.listing import File, Listing, file_at, list_files
from composer_index.files.order import in_order, recently_committed
from composer_index.files.read import ReadError, TooLargeError, read_file
from composer_index.files.reconcile import reconcile, settled
from composer_index.ignores.rules import Rules
from composer_index.indexing.journal import ParsingJournal
from composer_index.parsing import parse_file
from composer_index.parsing.skip import MAX_BYTES
from composer_index.store.naming import chunk_words, naming
from composer_index.store.records import FileStat, IndexedFile
from composer_index.store.store import Store

BATCH_BYTES = 1_000_000
"""Of source a batch: a second of work on a slow core."""
BATCH_FILES = 250
_LISTED_AT_ONCE = 250
_MAX_NUM_REMEMBERED = 1000
"""Changed files whose contents are known without asking the store."""

_Read = tuple[ParsedFile | SkippedFile, FileStat]


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    num_done: int
    """Files since the last time that none was left."""
    num_left: int
    """Files that are known to have changed and are not stored yet."""


class Indexer:
    """For one thread, the store's writer. Its methods raise what `Store`'s changes raise; then what
    was under way is not queued any more, and a `plan` finds it again."""

    def __init__(
        self,
        rules: Rules,
        store: Store,
        embedder: StaticEmbedder,
        journal: ParsingJournal,
        give_way: Callable[[], None] = lambda: None,
    ) -> None:
        """`give_way` is called often, and returns when the indexing is to go on."""
        self._give_way = give_way
        self._journal = journal
        self._rules = rules
        self._store = store
        self._embedder = embedder
        self._urgent: dict[str, None] = {}
        self._queue: deque[str] = deque()
        self._num_done = 0
        self._in_hand: list[str] = []
        self._has_planned = False
        self._touched: dict[str, str] = {}
        """The content's hash, as stored, of files that changed of late."""
        self.listing = Listing()
        """What the last `plan` skipped, and what it wants the user told."""
        self.stored: tuple[str, ...] = ()
        """The files that the last `step` stored, which have the table's vectors and no others."""
        self.must_purge = False
        """Files that are there became hidden: their text has to leave the disk too."""

    @property
    def progress(self) -> Progress:
        num_left = len(self._urgent) + len(self._queue) + len(self._in_hand)
        return Progress(num_done=self._num_done, num_left=num_left)

    @property
    def waiting(self) -> list[str]:
        """The files that are left, in their order. From any thread."""
        return [*self._in_hand, *self._urgent.copy(), *self._queue.copy()]

    def close(self) -> None:
        self._journal.close()

    def plan(self, open_paths: Collection[str] = ()) -> None:
        """Finds out what has changed, forgets what is gone, and queues the rest: what somebody is
        likely to ask about first."""
        self.listing = Listing()
        self._in_hand = []
        self._touched.clear()
        known = (
            (file.path, file.stat.size, file.stat.mtime_ns) for file in self._store.known_files()
        )
        difference = reconcile(known, self._listed())
        changed = [file.path for file in difference.changed]
        recent = recently_committed(self._rules.root) if changed else []
        wanted = set(changed)
        self._queue = deque(
            in_order(
                changed,
                open_paths=[path for path in open_paths if path in wanted],
                recent=[path for path in recent if path in wanted],
            )
        )
        self._forget(difference.gone)

    def touch(self, paths: Iterable[str]) -> None:
        """Queues files that may have changed, appeared or gone, before all others."""
        self._urgent.update(dict.fromkeys(paths))

    def forget_folders(self, folders: Collection[str]) -> None:
        """Forgets all files below folders that are gone."""
        if folders:
            prefixes = tuple(f"{folder}/" for folder in folders)
            self._touched.clear()
            known = (file.path for file in self._store.known_files())
            self._store.delete_files([path for path in known if path.startswith(prefixes)])

    def step(self) -> bool:
        """Stores one batch. Returns whether more is left; where none is, all is in the indices."""
        if self._urgent:
            self._in_hand = paths = list(self._urgent)[:BATCH_FILES]
            for path in paths:
                del self._urgent[path]
            # Planned files need no second look: a changed ignore file brings a new plan.
            hidden = self._rules.hidden_many(paths)
            shown = [path for path in paths if path not in hidden]
            self._store_files(shown, gone=list(hidden), is_urgent=True)
        else:
            paths = self._planned()
            self._store_files(paths, gone=[], is_urgent=False)
        self._in_hand = []
        self._num_done += len(paths)
        if self._urgent or self._queue:
            return True
        if self._num_done > BATCH_FILES:
            self._store.refresh_indices()
        self._num_done = 0
        return False

    def _listed(self) -> Iterator[File]:
        """Gives way the first time only: later on something may have become hidden, and a question
        ought not to find it."""
        has_planned, self._has_planned = self._has_planned, True
        for number, file in enumerate(list_files(self._rules, self.listing)):
            if number % _LISTED_AT_ONCE == 0 and not has_planned:
                self._give_way()
            yield file

    def _planned(self) -> list[str]:
        """The next files of the queue."""
        self._in_hand = paths = list[str]()
        num_bytes = 0
        while self._queue and num_bytes < BATCH_BYTES and len(paths) < BATCH_FILES:
            paths.append(self._queue.popleft())
            file = file_at(self._rules, paths[-1])
            num_bytes += file.size if file else 0
        return paths

    def _store_files(self, paths: Sequence[str], gone: list[str], *, is_urgent: bool) -> None:
        read: list[_Read] = []
        for path in paths:
            if not is_urgent:
                self._give_way()
            found = self._read(path)
            if found == "gone":
                gone.append(path)
            elif found != "same":
                read.append(found)
        self._journal.end()
        parsed = [(each, stat) for each, stat in read if isinstance(each, ParsedFile)]
        self._store.upsert_files(self._embedded(parsed))
        self.stored = tuple(each.path for each, _ in parsed)
        self._store.mark_skipped(
            (each, stat) for each, stat in read if isinstance(each, SkippedFile)
        )
        self._forget(gone)
        self._remember(read if is_urgent else [])

    def _remember(self, read: Sequence[_Read]) -> None:
        """An editor and the system both tell of a saved file: the second time it is the same."""
        if len(self._touched) > _MAX_NUM_REMEMBERED:
            self._touched.clear()
        self._touched.update((each.path, stat.content_hash) for each, stat in read)

    def _forget(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._touched.pop(path, None)
        # A root that is gone, unmounted for instance, tells nothing of its files.
        if paths and Path(self._rules.root).is_dir():
            self.must_purge |= any(file_at(self._rules, path) for path in paths)
            self._store.delete_files(paths)

    def _embedded(self, files: Sequence[tuple[ParsedFile, FileStat]]) -> list[IndexedFile]:
        # All chunks of the batch at once, which is several times quicker than file by file.
        words = [
            [chunk_words(*each) for each in zip(parsed.chunks, naming(parsed), strict=True)]
            for parsed, _ in files
        ]
        vectors = self._embedder.embed_words(list(chain.from_iterable(words)))
        indexed: list[IndexedFile] = []
        start = 0
        for (parsed, stat), each in zip(files, words, strict=True):
            end = start + len(each)
            indexed.append(
                IndexedFile(
                    parsed=parsed,
                    stat=stat,
                    words=tuple(map(" ".join, each)),
                    vectors={self._embedder.name: vectors[start:end]},
                )
            )
            start = end
        return indexed

    def _read(self, path: str) -> _Read | Literal["gone", "same"]:
        """ "gone" if it is not to be had any more, "same" if it is what the store has."""
        known = self._touched.pop(path, None)
        read_at_ns = time.time_ns()
        file = file_at(self._rules, path)
        if file is None:
            return "gone"
        digest = ""
        try:
            data = read_file(self._rules.root, path, max_bytes=MAX_BYTES)
        except TooLargeError:
            parsed = SkippedFile(path=path, reason="huge")
        except ReadError:
            return "gone"
        else:
            digest = hashlib.blake2b(data, digest_size=16).hexdigest()
            if digest == known:
                self._touched[path] = digest
                return "same"
            parsed = self._parsed(path, data)
        changed_ns = settled(file.changed_ns, read_at_ns)
        return parsed, FileStat(size=file.size, mtime_ns=changed_ns, content_hash=digest)

    def _parsed(self, path: str, data: bytes) -> ParsedFile | SkippedFile:
        if self._journal.is_deadly(path):
            return SkippedFile(path=path, reason="deadly")
        self._journal.begin(path)
        return parse_file(path, data)
