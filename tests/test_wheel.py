"""What an installation puts into site-packages."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The files in a wheel built from the tree."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder]
    subprocess.run([*command, ROOT], check=True, capture_output=True, timeout=120)
    (wheel,) = folder.glob("*.whl")
    return zipfile.ZipFile(wheel).namelist()


def test_every_top_level_name_is_ours(names: list[str]):
    packages = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert packages == {
        "composer_lsp",
        "composer_inference",
        "composer_index",
        "composer_kernels",
    }


@pytest.mark.parametrize(
    "name",
    [
        "composer_lsp/cli/sample/inventory.py",
        "composer_inference/py.typed",
        "composer_index/py.typed",
        "composer_kernels/py.typed",
    ],
)
def test_data_files_are_shipped(names: list[str], name: str):
    assert name in names
