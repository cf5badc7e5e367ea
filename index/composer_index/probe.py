"""`python -m composer_index.probe ROOT CACHE_DIR`: whether the index can work here, as one JSON object.

In a process of its own, because it loads what is native code: where that does not suit the machine,
it may end the process.
"""

import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from composer_index.glance import glance
from composer_index.ignores.rules import Rules
from composer_index.languages import LANGUAGES
from composer_index.parsing import grammar
from composer_index.search.ripgrep import find_ripgrep


def num_grammars() -> int:
    """Loads all of them. Raises: ImportError, and whatever a grammar of another version raises."""
    loaded = {language.grammar for language in LANGUAGES.values() if grammar.load(language)}
    return len(loaded)


def watching_trouble() -> str:
    """Why the system would not tell of changes, "" if it would."""
    if sys.platform != "linux":
        return ""
    from composer_index.files.inotify import InotifyTree

    with tempfile.TemporaryDirectory() as folder:
        try:
            tree = InotifyTree(Rules(folder), lambda: None, max_num_watches=10)
        except OSError:
            return "the system's limit fs.inotify.max_user_instances is reached"
        try:
            tree.watch_all()
            return tree.trouble
        finally:
            tree.close()


def main() -> None:
    root, cache_dir = map(Path, sys.argv[1:])
    found = {
        "index": asdict(glance(root, cache_dir)),
        "num_grammars": num_grammars(),
        "ripgrep": find_ripgrep(),
        "watching_trouble": watching_trouble(),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
