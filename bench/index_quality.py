"""How well the index finds code, beside its peers: `python -m bench.index_quality TREE...`.

The same questions over the same stripped copy of each tree, in the same run
(`composer_index.evaluate`). Peers: LanceDB's own full-text search with its default tokenizer over
the very same chunks, and semble with its own chunks and ranking, if it is installed
(`pip install semble==0.7.0`). semble fetches its model from a hub, unless `--semble-model` names a
folder with one of model2vec.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from composer_index.embedding.static import StaticEmbedder
from composer_index.evaluate.queries import Place
from composer_index.evaluate.reference import Entry, Reference, Search, read_entries
from composer_index.evaluate.run import Searches, evaluate


def searches_with_peers(semble_model: str | None, scratch: Path) -> Callable[[Path], Searches]:
    """Returns what indexes a tree for every method."""

    def build(tree: Path) -> Searches:
        entries = read_entries(tree)
        reference = Reference(entries, StaticEmbedder())
        searches: dict[str, Search] = {
            "keyword count": reference.by_keywords,
            "BM25": reference.by_words,
            "table": reference.by_meaning,
            "BM25 + table": reference.by_both,
            "BM25 + table + boost": reference.boosted,
            f"LanceDB {version('lancedb')} FTS": lance_search(entries, scratch),
        }
        try:
            searches[f"semble {version('semble')}"] = semble_search(tree, semble_model)
        except PackageNotFoundError:
            print("semble is not installed: left out", file=sys.stderr)
        return searches

    return build


def lance_search(entries: Sequence[Entry], folder: Path) -> Search:
    """LanceDB's full-text index over path and text, as it comes."""
    import lancedb
    from lancedb.index import FTS

    database = lancedb.connect(tempfile.mkdtemp(dir=folder))
    rows = [
        {"number": number, "text": f"{entry.place.path}\n{entry.text}"}
        for number, entry in enumerate(entries)
    ]
    table = database.create_table("chunks", rows)
    table.create_index("text", config=FTS())

    def search(query: str) -> list[Place]:
        found = table.search(query, query_type="fts").limit(10).to_list()
        return [entries[row["number"]].place for row in found]

    return search


def semble_search(tree: Path, model: str | None) -> Search:
    from semble import SembleIndex

    index = SembleIndex.from_path(tree, model_path=model)

    def search(query: str) -> list[Place]:
        return [
            Place(
                path=found.chunk.file_path,
                start_line=found.chunk.start_line,
                end_line=found.chunk.end_line,
            )
            for found in index.search(query, top_k=10)
        ]

    return search


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.index_quality", description=__doc__)
    parser.add_argument("tree", type=Path, nargs="+")
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--semble-model", help="folder of a model2vec model")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="composer-index-quality-") as scratch:
        build = searches_with_peers(arguments.semble_model, Path(scratch))
        for tree in arguments.tree:
            number, seed = arguments.questions, arguments.seed
            print(evaluate(tree, build, number=number, seed=seed).as_text(), flush=True)


if __name__ == "__main__":
    main()
