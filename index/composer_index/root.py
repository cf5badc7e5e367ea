"""One workspace root's index: what a Python program asks, and what the worker keeps current.

index = RootIndex(Path("project"), cache_dir=Path.home() / ".cache" / "composer")
index.open()
index.refresh()
for result in index.search("where are redirects followed"):
    print(result.path, result.start_line, result.symbol)
"""

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from composer_index.chunk import ParsedFile
from composer_index.embedding.static import StaticEmbedder
from composer_index.files.changes import Batch
from composer_index.files.listing import list_files
from composer_index.files.order import in_order
from composer_index.files.read import ReadError, read_file
from composer_index.ignores import ComposerIgnore
from composer_index.ignores.rules import Rules
from composer_index.indexing.planned import (
    Planned,
    forget_planned,
    read_planned,
    write_planned,
)
from composer_index.indexing.visits import CHANGED, FOUND, OPENED, Visits
from composer_index.parsing import parse_file
from composer_index.parsing.skip import MAX_BYTES
from composer_index.parsing.text import to_utf8
from composer_index.roots import search_roots
from composer_index.search.cold import search_text
from composer_index.search.history import History
from composer_index.search.result import Result
from composer_index.search.shadow import Shadow
from composer_index.store.errors import NotWriterError
from composer_index.store.location import store_location
from composer_index.store.naming import chunk_words, naming
from composer_index.store.records import FoundDefinition, StoreEvent

if TYPE_CHECKING:
    from composer_index.embedding.served import ServedEmbedder
    from composer_index.indexing.backfill import Backfill
    from composer_index.indexing.indexer import Indexer, Progress
    from composer_index.search.query import Reference, Searcher
    from composer_index.search.rerank import Reranker
    from composer_index.store.store import Store

GRACE_S = 60.0
LISTING_S = 1.0
"""How long a search lists files, before they are known: what is found by then has to do."""
_SLOW_IMPORTS = ("pyarrow.dataset", "pydantic", "lance_namespace")
"""What lancedb imports, in pieces of a third of a second or less."""
FEW_CHANGED = 4
"""So many files that changed one by one are stored before a search by text pays."""
MANY_WAITING = 200
"""With so many files waiting for another process, which knows which, all text is searched."""

State = Literal["cold", "building", "ready"]


class _InFile(Protocol):
    @property
    def path(self) -> str: ...


_Found = TypeVar("_Found", bound=_InFile)


@dataclass(frozen=True, kw_only=True, slots=True)
class Status:
    root: str
    state: State
    is_writer: bool
    num_files: int
    num_chunks: int
    num_waiting: int
    skipped: Mapping[str, int] = field(default_factory=dict[str, int])
    """Files that are not indexed, by reason; folders that are hidden as a whole count once. Those
    that are hidden, by their names or by `.composerignore`, are counted by `plan`."""
    disk_bytes: int = 0
    location: str = ""
    embedder: str = ""
    """The name of the one whose vectors answer; empty before the first vectors."""
    model: str = ""
    """The embedding model that a server runs, if one is to be used; empty: none."""
    num_unembedded: int = 0
    """Files that wait for its vectors, as far as is known."""
    model_problem: str = ""
    """Why it does not answer; empty if it did when it was last asked."""


class RootIndex:
    """Searches may come from any thread, at any time; changes belong to one thread.

    `on_event` is told what the user should know, in any thread.
    """

    def __init__(
        self,
        root: Path,
        *,
        cache_dir: Path,
        include_secret: tuple[str, ...] = (),
        on_event: Callable[[StoreEvent], None] = lambda event: None,
        give_way: Callable[[], None] = lambda: None,
    ) -> None:
        """`give_way` is called often by what takes long, `load`, `plan` and `step`, and returns when
        it is to go on.

        Raises: PatternError for a pattern of `include_secret` that is none.
        """
        self._give_way = give_way
        self._rules = Rules(root, include_secret=include_secret)
        self._include_secret = include_secret
        self._on_event = on_event
        self._cache_dir = cache_dir
        self.location = store_location(cache_dir, root)
        self._store: Store | None = None
        self._searcher: Searcher | None = None
        self._indexer: Indexer | None = None
        self._embedder: StaticEmbedder | None = None
        self._unsaved: dict[str, str] = {}
        """What editors show, of hidden files too: they may be shown again."""
        self._buffers: dict[str, ParsedFile] = {}
        """Those of `_unsaved` that are searched."""
        self._buffers_lock = threading.Lock()
        self._planned: Planned | None = None
        """None before `plan`, and when the store was emptied since."""
        self.on_emptied: Callable[[], None] = lambda: None
        """Called, in any thread, when a damaged store was replaced by an empty one: `plan` anew."""
        self._history = History(self.root)
        self._visits = Visits()
        self._models: tuple[ServedEmbedder | None, Reranker | None] = (None, None)
        self.backfill: Backfill | None = None
        """Fills in the vectors of `use_models`' embedder; None without one, and before `open`."""
        self._asked_at = float("-inf")

    @property
    def root(self) -> str:
        """Without symbolic links."""
        return self._rules.root

    @property
    def is_root_there(self) -> bool:
        """False where it was deleted, moved away or unmounted; then the index stays as it is."""
        return Path(self.root).is_dir()

    def load(self) -> None:
        """Import what the store needs: a second of CPU time, so not before it is needed, and in
        pieces."""
        for name in _SLOW_IMPORTS:
            self._give_way()
            with suppress(ImportError):  # Another version may do without.
                import_module(name)
        self._give_way()
        import_module("composer_index.store.store")

    def open(self) -> None:
        """Open the store. Slow (see `load`), so searches before it answer from text.

        Raises: StoreError.
        """
        self.load()
        from composer_index.indexing.indexer import Indexer
        from composer_index.indexing.journal import ParsingJournal
        from composer_index.search.query import Searcher
        from composer_index.store.store import Store

        self._embedder = StaticEmbedder()
        self._store = Store.open(self.location, self._take_event)
        self._indexer = Indexer(
            self._rules,
            self._store,
            self._embedder,
            ParsingJournal(self.location),
            self._give_way,
        )
        searcher = Searcher(self._store, self._embedder)
        searcher.shadow = self._shadow()
        self._searcher = searcher
        self.use_models(*self._models)

    def close(self) -> None:
        """Let another process write."""
        if self._store is not None and self._indexer is not None:
            self._indexer.close()
            self._store.close()
        self._store = self._searcher = self._indexer = self.backfill = None

    # Keeping current: one thread. -----------------------------------------------------------------

    def become_writer(self) -> bool:
        """Whether this process writes; takes over if nobody does. Raises: StoreFullError."""
        return self._opened().try_become_writer()

    def plan(self) -> None:
        """Compare the files with the store. Raises what `Store`'s changes raise."""
        self._indexing().plan(open_paths=tuple(self._buffers))
        left_out = {reason: n for reason, n in self._indexing().listing.skipped.items() if n}
        planned = Planned(
            left_out=left_out,
            num_left=self.progress.num_left,
            num_present=self._opened().num_present,
        )
        self._note(self._with_filling(planned))

    def note(self, batch: Batch) -> None:
        """Take hints of what changed. Raises what `Store`'s changes raise."""
        self._indexing().forget_folders(batch.folders)
        self._indexing().touch(batch.paths)
        self._visits.add(batch.paths, CHANGED)

    def step(self) -> bool:
        """Index one batch; whether more is left. Raises what `Store`'s changes raise."""
        is_more = self._indexing().step()
        if not is_more:
            self._note_finished()
        if self.backfill is not None:
            self.backfill.add(self._indexing().stored)
        return is_more

    def compact(self, *, grace_s: float = GRACE_S) -> bool:
        """One step of upkeep for idle times; whether to call again, `grace_s` seconds from now. What
        became hidden has left the disk when it returns False. What a reader may still be reading
        stays for `grace_s`. Raises what `Store`'s changes raise."""
        indexer = self._indexing()
        is_more = self._opened().compact(purge=indexer.must_purge, grace_s=grace_s)
        indexer.must_purge &= is_more
        return is_more

    def refresh(self, on_progress: "Callable[[Progress], None]" = lambda progress: None) -> None:
        """Bring the store up to date, to the end.

        Raises: NotWriterError if another process does it; StoreFullError; StoreBrokenError.
        """
        if not self.become_writer():
            raise NotWriterError("another process keeps this workspace's index current")
        self.plan()
        on_progress(self.progress)
        while self.step():
            on_progress(self.progress)

    def clear(self) -> None:
        """Forget everything. Raises: NotWriterError, StoreFullError."""
        self._opened().clear()
        self._forget_planned()

    def _take_event(self, event: StoreEvent) -> None:
        if event.kind == "rebuilt":
            self._forget_planned()
            self.on_emptied()
        self._on_event(event)

    def _forget_planned(self) -> None:
        self._planned = None
        forget_planned(self.location)

    @property
    def progress(self) -> "Progress":
        return self._indexing().progress

    @property
    def waiting(self) -> list[str]:
        """The files that are known to have changed and are not stored yet. From any thread."""
        return self._indexer.waiting if self._indexer else []

    @property
    def notices(self) -> Sequence[str]:
        """What the last `plan` wants the user told."""
        return self._indexing().listing.notices

    # A server's models ----------------------------------------------------------------------------

    def use_models(self, embedder: "ServedEmbedder | None", reranker: "Reranker | None") -> None:
        """Have models that a server runs take part in searches from now on; any thread.

        The embedder's vectors have to be filled in first: by `fill`, or step by step by `backfill`.
        Until then, and for files that changed since, the table answers.
        """
        self._models = embedder, reranker
        if self._searcher is None or self._store is None:
            return
        from composer_index.indexing.backfill import Backfill

        self.backfill = embedder and Backfill(
            self._store, embedder, self._cache_dir, self._visits, self.root
        )
        self._searcher.meaning.use(embedder, self.backfill and self.backfill.is_waiting)
        self._searcher.reranker = reranker

    def use_table(self) -> None:
        """Drop the vectors of all models: the table answers. Raises what `Store`'s changes raise."""
        if self._opened().embedder:
            self._opened().switch_embedder(self.table_name)

    def fill(self, on_progress: Callable[[int], None] = lambda num_left: None) -> None:
        """Have the embedder of `use_models` embed everything, to the end; `on_progress` is told the
        files left.

        Raises: ModelServerError, and what `Store`'s changes raise.
        """
        from composer_index.indexing.backfill import fill

        assert self.backfill is not None, "use_models comes first"

        def show(num_left: int) -> None:
            self.note_filling()
            on_progress(num_left)

        fill(self.backfill, self.table_name, show)

    def note_filling(self) -> None:
        """Keep how far the model's vectors are, for those who do not fill them in."""
        if self._planned is not None:
            self._note(self._with_filling(self._planned))

    def _with_filling(self, planned: Planned) -> Planned:
        embedder, backfill = self._models[0], self.backfill
        return replace(
            planned,
            model=embedder.server.served.model if embedder else "",
            num_unembedded=backfill.num_left if backfill else 0,
        )

    @property
    def table_name(self) -> str:
        """The name of the embedder whose vectors are always there."""
        assert self._embedder is not None, "open comes first"
        return self._embedder.name

    @property
    def quiet_s(self) -> float:
        """Seconds since the last search."""
        return time.monotonic() - self._asked_at

    # Unsaved buffers ------------------------------------------------------------------------------

    def set_buffer(self, path: str, text: str | None) -> None:
        """What an editor shows of a file, which hides the disk's; None: the disk's is the truth
        again, and so it is when both are the same.

        `path` is relative to the root. Hidden files stay hidden.
        """
        with self._buffers_lock:
            self._buffers.pop(path, None)
            if text is None:
                self._unsaved.pop(path, None)
            else:
                self._unsaved[path] = text
                if not self._hidden([path]) and self._show_buffer(path):
                    self._visits.add([path], OPENED)
            self._cast_shadow()

    def review_buffers(self) -> None:
        """What is hidden may be other than it was."""
        with self._buffers_lock:
            hidden = self._hidden(self._unsaved)
            gone = [path for path in hidden if self._buffers.pop(path, None) is not None]
            new = [
                path
                for path in self._unsaved.keys() - hidden - self._buffers.keys()
                if self._show_buffer(path)
            ]
            if gone or new:
                self._cast_shadow()

    def _hidden(self, paths: Iterable[str]) -> set[str]:
        rules = Rules(self.root, include_secret=self._include_secret)
        return set(rules.hidden_many(paths))

    def _show_buffer(self, path: str) -> bool:
        """Whether there is anything to show."""
        parsed = self._parsed_buffer(path, self._unsaved[path].encode("utf-8", "replace"))
        if parsed is not None:
            self._buffers[path] = parsed
        return parsed is not None

    def _cast_shadow(self) -> None:
        if self._searcher is not None:
            self._searcher.shadow = self._shadow()

    def _parsed_buffer(self, path: str, data: bytes) -> ParsedFile | None:
        try:
            if to_utf8(read_file(self.root, path, max_bytes=MAX_BYTES)) == data:
                return None
        except ReadError:
            pass  # a new file
        parsed = parse_file(path, data)
        return parsed if isinstance(parsed, ParsedFile) else None

    def _shadow(self) -> Shadow:
        assert self._embedder is not None
        vectors = {
            path: self._embedder.embed_words(
                [
                    chunk_words(chunk, named)
                    for chunk, named in zip(parsed.chunks, naming(parsed), strict=True)
                ]
            )
            for path, parsed in self._buffers.items()
        }
        return Shadow(files=dict(self._buffers), vectors=vectors)

    # Questions: any thread. -----------------------------------------------------------------------

    @property
    def state(self) -> State:
        # Another thread may close it meanwhile.
        store, indexer = self._store, self._indexer
        if store is None or indexer is None:
            return "cold"
        planned = self._planned
        if store.is_writer and planned is not None:
            is_ready = not planned.num_left and indexer.progress.num_left <= FEW_CHANGED
        else:
            planned = read_planned(self.location)
            is_ready = planned is not None and planned.num_left <= min(
                MANY_WAITING, planned.num_present
            )
        return "ready" if is_ready else "building"

    def search(
        self, query: str, k: int = 10, path_glob: str | None = None, language: str | None = None
    ) -> list[Result]:
        """The `k` best places for a question or some words, best first. While the index is not
        complete, the text of what is not indexed yet is searched as well.

        Raises: GlobError, LanguageError."""
        return search_roots([self], query, k, path_glob, language)

    @property
    def searcher(self) -> "Searcher | None":
        """What searches the store; None until that is open."""
        return self._searcher

    def was_asked(self, found: Sequence[str]) -> None:
        """Note that somebody asked just now, and the paths that the answer led to."""
        self._asked_at = time.monotonic()
        self._visits.add(dict.fromkeys(found), FOUND)

    def search_unindexed(
        self, query: str, k: int, path_glob: str | None, language: str | None
    ) -> list[Result]:
        """The best places in what is not indexed yet, by its text, best first: their share of `k`."""
        if self.state == "ready":
            return []
        rules = Rules(self.root, include_secret=self._include_secret)
        paths, share = self._unindexed(rules)
        cold = search_text(Path(self.root), paths, query, k, path_glob, language)
        hidden = rules.hidden_many(result.path for result in cold)
        shown = [replace(each, root=self.root) for each in cold if each.path not in hidden]
        return shown[: math.ceil(k * share)]

    def _unindexed(self, rules: Rules) -> tuple[list[str], float]:
        """The files that the store does not have yet, likely ones first, and their share of all."""
        store, indexer = self._store, self._indexer
        if store is not None and indexer is not None and self._planned is not None:
            paths = indexer.waiting
            return paths, len(paths) / max(1, len(paths) + store.num_present)
        until = time.monotonic() + LISTING_S
        files = takewhile(lambda _: time.monotonic() < until, list_files(rules))
        return in_order((file.path for file in files), open_paths=tuple(self._buffers)), 1.0

    def _shown(self, found: Iterable[_Found]) -> list[_Found]:
        """Without what a `.composerignore` file hides by now, which the index may not have forgotten
        yet."""
        ignore = ComposerIgnore()
        return [each for each in found if ignore.hidden_by(self._rules.absolute(each.path)) is None]

    def definitions(self, name: str) -> list[FoundDefinition]:
        return self._shown(self._searcher.definitions(name)) if self._searcher else []

    def references(self, name: str, limit: int = 200) -> "list[Reference]":
        return self._shown(self._searcher.references(name, limit)) if self._searcher else []

    def symbols(self, query: str, limit: int = 100) -> list[FoundDefinition]:
        return self._shown(self._searcher.symbols(query, limit)) if self._searcher else []

    def related(self, path: str, line: int, limit: int = 12) -> list[Result]:
        """What belongs to a line (1-based) of a file: what it imports, its siblings, its test, and
        what was edited together with it, with the tie in `why`. Some 75 ms."""
        if self._searcher is None:
            return []
        return self._shown(self._searcher.related(path, line, history=self._history, limit=limit))

    def status(self) -> Status:
        store, indexer = self._store, self._indexer
        if store is None or indexer is None:
            return Status(
                root=self.root,
                state="cold",
                is_writer=False,
                num_files=0,
                num_chunks=0,
                num_waiting=0,
                location=str(self.location),
            )
        counts = store.counts()
        skipped = Counter(counts.num_skipped)
        if (planned := read_planned(self.location)) is not None:
            skipped.update(planned.left_out)
        embedder, backfill = self._models[0], self.backfill
        model = embedder.server.served.model if embedder else ""
        return Status(
            root=self.root,
            state=self.state,
            is_writer=store.is_writer,
            num_files=counts.num_files,
            num_chunks=counts.num_chunks,
            num_waiting=indexer.progress.num_left,
            skipped=dict(skipped),
            disk_bytes=counts.disk_bytes,
            location=str(self.location),
            embedder=store.embedder,
            model=model,
            num_unembedded=backfill.num_left if backfill else 0,
            model_problem=embedder.server.problem if embedder else "",
        )

    def _note(self, planned: Planned) -> None:
        self._planned = planned
        if planned != read_planned(self.location):
            write_planned(self.location, planned)

    def _note_finished(self) -> None:
        if self._planned is not None:
            self._note(replace(self._planned, num_left=0))

    def _opened(self) -> "Store":
        assert self._store is not None, "open comes first"
        return self._store

    def _indexing(self) -> "Indexer":
        assert self._indexer is not None, "open comes first"
        return self._indexer
