"""Several folders of one window, asked as one."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from composer_index.root import RootIndex
from composer_index.roots import search_roots

REDIRECTS = '''def follow_redirects(response):
    """Fetch the place that a response redirects to."""
    return fetch(response.location)
'''
MENU = '''def list_menu(kitchen):
    """Return the dishes of a kitchen in response to a guest."""
    return kitchen.dishes
'''


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[Path], RootIndex]]:
    indexes: list[RootIndex] = []

    def make(root: Path) -> RootIndex:
        index = RootIndex(root, cache_dir=tmp_path / "cache")
        indexes.append(index)
        index.open()
        index.refresh()
        return index

    yield make
    for index in indexes:
        index.close()


def tree(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.py").write_text(text)
    return folder


def test_the_root_that_knows_comes_first(tmp_path: Path, opened: Callable[[Path], RootIndex]):
    kitchen = opened(tree(tmp_path / "kitchen", menu=MENU, other="x = 1\n"))
    web = opened(tree(tmp_path / "web", redirects=REDIRECTS))
    found = search_roots([kitchen, web], "where are redirects of a response followed")
    assert [(each.root, each.path) for each in found[:2]] == [
        (web.root, "redirects.py"),
        (kitchen.root, "menu.py"),
    ]
    assert found[0].score > 2 * found[1].score


def test_nested_roots_show_each_place_once(tmp_path: Path, opened: Callable[[Path], RootIndex]):
    outer, inner = tree(tmp_path / "all", menu=MENU), tree(tmp_path / "all" / "web", web=REDIRECTS)
    found = search_roots([opened(outer), opened(inner)], "redirects of a response", k=2)
    assert sorted(f"{each.root}/{each.path}" for each in found) == [
        f"{outer.resolve()}/menu.py",
        f"{outer.resolve()}/web/web.py",
    ]


def test_a_root_that_is_not_open_yet_answers_from_text(
    tmp_path: Path, opened: Callable[[Path], RootIndex]
):
    kitchen = opened(tree(tmp_path / "kitchen", menu=MENU))
    cold = RootIndex(tree(tmp_path / "web", redirects=REDIRECTS), cache_dir=tmp_path / "cache")
    found = search_roots([kitchen, cold], "redirects of a response")
    assert {(each.root, each.path) for each in found} == {
        (kitchen.root, "menu.py"),
        (cold.root, "redirects.py"),
    }
