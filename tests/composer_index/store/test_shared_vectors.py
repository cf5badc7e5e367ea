"""One file of vectors for all roots."""

import os
from pathlib import Path

import numpy as np

from composer_index.store.location import shared_vectors_location, slug, store_location
from composer_index.store.shared_vectors import SharedVectors
from tests.composer_index.store.building import one_hot


def test_what_one_window_embeds_the_other_has(tmp_path: Path):
    location = shared_vectors_location(tmp_path, "bge-small 1.5")
    first, second = SharedVectors(location), SharedVectors(location)
    first.put({f"{n:032x}": one_hot(n % 8)[0] for n in range(1200)})
    found = second.get([f"{n:032x}" for n in range(1300)])
    assert len(found) == 1200
    np.testing.assert_array_equal(found[f"{1199:032x}"], one_hot(7)[0])
    second.put({f"{0:032x}": one_hot(5)[0]})
    np.testing.assert_array_equal(first.get([f"{0:032x}"])[f"{0:032x}"], one_hot(0)[0])


def test_a_broken_file_is_replaced(tmp_path: Path):
    location = tmp_path / "shared.sqlite3"
    location.write_bytes(b"no database" * 1000)
    vectors = SharedVectors(location)
    vectors.put({"a": one_hot(1)[0]})
    assert list(vectors.get(["a", "b"])) == ["a"]


def test_the_unused_leave(tmp_path: Path):
    vectors = SharedVectors(tmp_path / "shared.sqlite3")
    vectors.put({"a": one_hot(1)[0]})
    vectors.prune(unused_days=1)
    assert list(vectors.get(["a"])) == ["a"]
    vectors.prune(unused_days=-1)
    assert list(vectors.get(["a"])) == []


def test_the_files_of_embedders_that_nobody_uses_any_more_leave(tmp_path: Path):
    paths = [shared_vectors_location(tmp_path, name) for name in ("mine", "abandoned", "used")]
    for path in paths:
        vectors = SharedVectors(path)
        vectors.put({"a": one_hot(1)[0]})
        vectors.close()
    os.utime(paths[1], (0, 0))
    mine = SharedVectors(paths[0])
    mine.prune()
    assert [path.exists() for path in paths] == [True, False, True]
    assert list(mine.get(["a"])) == ["a"]


def test_locations(tmp_path: Path):
    root = tmp_path / "my project"
    root.mkdir()
    (tmp_path / "link").symlink_to(root)
    cache = tmp_path / "cache"
    at = store_location(cache, root)
    assert at.parent == cache / "index"
    assert at.name.startswith("my_project-")
    assert store_location(cache, tmp_path / "link") == at
    assert store_location(cache, tmp_path) != at
    assert not cache.exists()
    assert slug("A b") != slug("a-b")
