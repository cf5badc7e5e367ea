"""Workspaces to index."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from composer_index.root import RootIndex


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A small repository in which two files are about different things."""
    root = tmp_path / "workspace"
    root.mkdir()
    subprocess.run(["git", "init", "-q", root], check=True)
    (root / "shop.py").write_text(
        '"""A shop."""\n\n\n'
        "class Basket:\n"
        "    def total_price(self, discount):\n"
        '        """Add up what all articles cost."""\n'
        "        return sum(article.price for article in self.articles) * (1 - discount)\n"
    )
    (root / "weather.py").write_text(
        "def fetch_forecast(city):\n"
        '    """Ask the weather service about tomorrow."""\n'
        "    return service.get(f'/forecast/{city}').json()\n"
    )
    return root


@pytest.fixture
def make_index(tmp_path: Path) -> Callable[[Path], RootIndex]:
    """Indices that share one cache."""

    def make(root: Path) -> RootIndex:
        return RootIndex(root, cache_dir=tmp_path / "cache")

    return make
