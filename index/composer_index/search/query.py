"""Search: BM25 over words, vectors, and what names the code, as one ranking."""

import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from composer_index.embedding.embedder import Embedder
from composer_index.search.history import History
from composer_index.search.meaning import NUM_CANDIDATES, Meaning
from composer_index.search.ranking import Candidates, search_all
from composer_index.search.related import find_related
from composer_index.search.rerank import Reranker
from composer_index.search.result import Result
from composer_index.search.shadow import SHADOW, Shadow
from composer_index.search.symbols import find_symbols
from composer_index.store.records import Filter, FoundDefinition, Hit, StoredChunk

if TYPE_CHECKING:
    from composer_index.store.store import Store

_Key = tuple[str, int]
_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """A line that has a name in it."""

    path: str
    line: int
    """1-based."""
    text: str


class Searcher:
    """Answers from the store and from unsaved buffers. Safe to use from several threads."""

    def __init__(
        self, store: "Store", table: Embedder | None = None, reranker: Reranker | None = None
    ) -> None:
        """`table` embedded the store's files and the shadow."""
        self._store = store
        self.meaning = Meaning(store, table)
        self.reranker = reranker
        """None: results stay as they are ranked."""
        self.weights = _StoreWeights(store)
        self._threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="search")
        self.shadow = Shadow()
        """The unsaved buffers; replace it as a whole."""

    def search(
        self, query: str, k: int = 10, path_glob: str | None = None, language: str | None = None
    ) -> list[Result]:
        """Returns the `k` best chunks, best first. The filters choose what takes part, before
        anything is ranked."""
        return search_all({"": self}, query, k, path_glob, language)

    def candidates(
        self, query: str, words: Sequence[str], chosen: Filter, *, table_only: bool = False
    ) -> Candidates:
        """Returns what answers best by `words`, the `query_words` of `query`, and by meaning;
        `table_only`: by that of the table, whatever models there are."""
        shadow = self.shadow
        meaning = self._threads.submit(
            self.meaning.nearest, query, chosen, shadow, table_only=table_only
        )
        by_words = self._by_words(words, chosen, shadow)
        return Candidates(by_words=by_words, nearest=meaning.result(), shadow=shadow)

    def chunks(self, hits: Sequence[Hit], shadow: Shadow) -> dict[_Key, StoredChunk]:
        """Returns the chunks of candidates by path and ordinal, without those that were replaced
        since."""
        stored, unsaved = _apart(hits)
        chunks = dict(self._store.chunks_at(stored))
        return chunks | {_key(hit): shadow.chunk(hit.path, hit.ordinal) for hit in unsaved}

    def words_of(self, hits: Sequence[Hit], shadow: Shadow) -> dict[_Key, list[str]]:
        """Returns the words of candidates, as `chunks` returns their chunks."""
        stored, unsaved = _apart(hits)
        words = dict(self._store.words_at(stored))
        return words | {_key(hit): shadow.words(hit.path, hit.ordinal) for hit in unsaved}

    def definitions(self, name: str) -> list[FoundDefinition]:
        """Returns where exactly this name is defined; "Class.method" narrows it down."""
        last = re.split(r"[.:#]+", name)[-1]
        shadow = self.shadow
        found = [
            each for each in self._store.definitions_named(last) if each.path not in shadow.files
        ]
        found += [each for each in shadow.found_definitions() if each.name == last]
        exact = [each for each in found if each.symbol.endswith(name)] if last != name else found
        return exact or found

    def references(self, name: str, limit: int = 200) -> list[Reference]:
        """Returns the lines in which the identifier `name` occurs, file by file."""
        shadow = self.shadow
        stored = self._store.mentions(name, limit)
        chunks = [each for each in stored if each.path not in shadow.files] + shadow.mentions(name)
        whole = re.compile(rf"(?<![\w$]){re.escape(name)}(?![\w$])")
        found = [
            Reference(path=chunk.path, line=chunk.start_line + offset, text=line)
            for chunk in sorted(chunks, key=lambda chunk: (chunk.path, chunk.start_line))
            for offset, line in enumerate(_LINE_END.split(chunk.text))
            if whole.search(line)
        ]
        return found[:limit]

    def symbols(self, query: str, limit: int = 100) -> list[FoundDefinition]:
        """Returns definitions by a part of their name; see `find_symbols`."""
        return find_symbols(self._store, self.shadow, query, limit)

    def related(
        self, path: str, line: int, *, history: History | None = None, limit: int = 12
    ) -> list[Result]:
        """Returns what belongs to a line (1-based); see `find_related`."""
        shadow = self.shadow
        return find_related(self._store, shadow, path, line, history=history, limit=limit)

    def _by_words(self, words: Sequence[str], chosen: Filter, shadow: Shadow) -> list[Hit]:
        stored = replace(chosen, without=shadow.paths)
        hits = self._store.match_words(words, NUM_CANDIDATES, stored)
        return _best(hits + shadow.match_words(words, chosen, self.weights))


def _best(hits: Sequence[Hit]) -> list[Hit]:
    return sorted(hits, key=lambda hit: -hit.score)[:NUM_CANDIDATES]


def _apart(hits: Sequence[Hit]) -> tuple[list[Hit], list[Hit]]:
    """The store's, and the shadow's."""
    stored = [hit for hit in hits if hit.generation != SHADOW]
    return stored, [hit for hit in hits if hit.generation == SHADOW]


def _key(hit: Hit) -> _Key:
    return hit.path, hit.ordinal


class _StoreWeights:
    """BM25's weights of the store, remembered for a while."""

    _LIFETIME_S = 30.0
    _MAX_WORDS = 10_000

    def __init__(self, store: "Store") -> None:
        self._store = store
        self._until = 0.0
        self._length = 1.0
        self._number = 0
        self._found: dict[str, float] = {}

    def weight(self, word: str) -> float:
        length = self.average_length()
        if word not in self._found:
            self._found[word] = self._store.word_weight(word, length)
        return self._found[word]

    def average_length(self) -> float:
        self._refresh()
        return self._length

    def num_chunks(self) -> int:
        self._refresh()
        return self._number

    def _refresh(self) -> None:
        # An empty store's say nothing of what is about to be stored.
        is_old = time.monotonic() > self._until or self._number == 0
        if is_old or len(self._found) > self._MAX_WORDS:
            self._until = time.monotonic() + self._LIFETIME_S
            self._length, self._found = self._store.average_length(), {}
            self._number = self._store.num_chunks()
