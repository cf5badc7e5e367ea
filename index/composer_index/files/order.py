"""Which files are indexed first: those that somebody is likely to ask about."""

from collections.abc import Collection, Iterable
from itertools import islice

from composer_index.ignores import git

_NUM_COMMITS = 200
_NUM_RECENT = 500

_DOCUMENTS = frozenset({"md", "rst", "txt", "adoc", "tex", "org", "html", "htm"})
_DATA = frozenset(
    {"json", "jsonl", "yaml", "yml", "toml", "xml", "csv", "tsv", "svg", "po", "pot", "lock", "sql"}
    | {"ini", "cfg", "conf", "properties", "geojson", "ipynb", "map", "snap", "log"}
)


def in_order(
    paths: Iterable[str], *, open_paths: Collection[str] = (), recent: Iterable[str] = ()
) -> list[str]:
    """Open files; those of recent commits, latest first; what lies in the same folders as either;
    then source, documents and data. By path where nothing else decides."""
    first = {path: place for place, path in enumerate(dict.fromkeys((*open_paths, *recent)))}
    num_first = len(first)
    folders: dict[str, int] = {}
    for path, place in first.items():
        folders.setdefault(_folder(path), place)

    def key(path: str) -> tuple[int, int, str]:
        if (place := first.get(path)) is not None:
            return place, 0, path
        kind = _kind(path)
        if (place := folders.get(_folder(path))) is not None:
            return num_first + kind, place, path
        return num_first + 3 + kind, 0, path

    return sorted(paths, key=key)


def recently_committed(root: str) -> list[str]:
    """Paths relative to the root, latest first; none where git cannot be asked."""
    try:
        paths = git.recent_paths(root, num_commits=_NUM_COMMITS)
        return list(islice(dict.fromkeys(paths), _NUM_RECENT))
    except git.GitError:
        return []


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _kind(path: str) -> int:
    """0 for source, 1 for documents, 2 for data."""
    extension = path.rpartition("/")[2].rpartition(".")[2].lower()
    return 1 if extension in _DOCUMENTS else 2 if extension in _DATA else 0
