"""`python -m composer_index.evaluate TREE`: how well the index's parts find code in a tree."""

import argparse
import json
from pathlib import Path

from composer_index.embedding.static import StaticEmbedder
from composer_index.evaluate.reference import Reference, read_entries
from composer_index.evaluate.run import Searches, evaluate


def reference_searches(tree: Path) -> Searches:
    """Indexes in memory; the last of these is what the index does."""
    reference = Reference(read_entries(tree), StaticEmbedder())
    return {
        "keyword count": reference.by_keywords,
        "BM25": reference.by_words,
        "table": reference.by_meaning,
        "BM25 + table": reference.by_both,
        "BM25 + table + boost": reference.boosted,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="composer_index.evaluate", description=__doc__)
    parser.add_argument("tree", type=Path, nargs="+")
    parser.add_argument("--questions", type=int, default=500, help="of each kind, at most")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    evaluations = [
        evaluate(tree, reference_searches, number=arguments.questions, seed=arguments.seed)
        for tree in arguments.tree
    ]
    if arguments.json:
        print(json.dumps([one.as_json() for one in evaluations], indent=2))
    else:
        print("\n\n".join(one.as_text() for one in evaluations))


if __name__ == "__main__":
    main()
