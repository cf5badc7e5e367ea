"""The shipped table, and a small one whose sums are known."""

from pathlib import Path

import numpy as np
import pytest

from composer_index.embedding.embedder import Embedder
from composer_index.embedding.static import StaticEmbedder
from composer_index.words import split_words


@pytest.fixture(scope="module")
def shipped() -> StaticEmbedder:
    return StaticEmbedder()


@pytest.fixture
def small(tmp_path: Path) -> StaticEmbedder:
    np.save(tmp_path / "table.npy", np.array([[100, 0], [0, 50], [-100, 0]], np.int8))
    np.save(tmp_path / "scales.npy", np.array([0.01, 0.02, 0.01], np.float32))
    (tmp_path / "words.txt").write_text("on\nin\noff\n")
    return StaticEmbedder(tmp_path)


def test_a_vector_is_the_sum_of_rows_by_the_root_of_their_counts(small: StaticEmbedder) -> None:
    vectors = small.embed_words([["on", "in"], ["on", "in", "in", "in", "in"], ["unknown"], []])
    expected = [[0.5**0.5, 0.5**0.5], [0.2**0.5, 0.8**0.5], [0, 0], [0, 0]]
    np.testing.assert_allclose(vectors, np.array(expected), atol=1e-6)


def test_words_that_cancel_give_no_nan(small: StaticEmbedder) -> None:
    assert np.isfinite(small.embed_words([["on", "off"], ["off", "off", "on", "on"]])).all()


def test_blocks_do_not_change_what_a_text_gives(shipped: StaticEmbedder) -> None:
    texts = [f"parse the url number {number} of a request" for number in range(150)]
    together = shipped.embed(texts)
    np.testing.assert_allclose(together[149:], shipped.embed(texts[149:]), atol=1e-6)
    assert shipped.embed([]).shape == (0, shipped.dim)


def test_is_an_embedder_of_unit_vectors(shipped: StaticEmbedder) -> None:
    embedder: Embedder = shipped
    vectors = embedder.embed(["def open_file(path): return path.open()", "delete a key"])
    assert vectors.dtype == np.float32
    assert vectors.shape == (2, embedder.dim)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_takes_words_as_they_were_split_for_bm25(shipped: StaticEmbedder) -> None:
    text = "class HTTPServer: timeout_s = 30"
    np.testing.assert_array_equal(shipped.embed([text]), shipped.embed_words([split_words(text)]))


@pytest.mark.parametrize(
    ("prose", "code", "other"),
    [
        ("remove a key", "void dictUnlink(dict *d, void *k)", "int openSocket(char *host)"),
        ("read a file's content", "with open(path) as f: return f.read()", "x = sorted(numbers)"),
        ("send an email", "smtp.sendmail(sender, recipients, message)", "os.listdir(folder)"),
        ("wait until the lock is free", "mutex.acquire(timeout=5)", "json.dumps(payload)"),
    ],
)
def test_prose_is_nearer_to_its_code(
    shipped: StaticEmbedder, prose: str, code: str, other: str
) -> None:
    query, right, wrong = shipped.embed([prose, code, other])
    assert query @ right > query @ wrong + 0.1


def test_the_shipped_table_fits_its_budget() -> None:
    data = Path(__file__).parents[3] / "index/composer_index/embedding/data"
    assert sum(file.stat().st_size for file in data.iterdir()) <= 16 * 2**20


def test_another_table_has_another_name(shipped: StaticEmbedder, small: StaticEmbedder) -> None:
    assert shipped.name != small.name
    assert shipped.name == StaticEmbedder().name


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"table\.npy"):
        StaticEmbedder(tmp_path)
