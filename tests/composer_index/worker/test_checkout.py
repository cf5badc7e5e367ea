"""A checkout that changes many files, seen by the worker's own watching alone."""

from pathlib import Path

import pytest

from tests.composer_index.files.trees import run_git
from tests.composer_index.worker.contents import check_exact
from tests.composer_index.worker.grown import branch_off, grow
from tests.support.workers import Worker


@pytest.mark.parametrize("num_changed", [300, pytest.param(10_000, marks=pytest.mark.soak)])
def test_exact_after_a_checkout(tmp_path: Path, num_changed: int):
    root = tmp_path / "workspace"
    paths = grow(root, num_changed)
    branch_off(root, paths, num_changed)
    with Worker(tmp_path / "cache") as worker:
        worker.open(root)
        worker.until_current(root, limit_s=600)
        run_git(root, "checkout", "-q", "other")
        worker.until_current(root, limit_s=600)
        assert worker.status(root)["num_files"] == num_changed
        best = worker.search("deleted nowhere marker_1_v1", root, limit=1)
        assert best[0]["path"] != "package_1/module_1.py"
        worker.close()
    held = check_exact(tmp_path / "cache", root, tmp_path / "scratch")
    paths_held = set(held["files"])
    quarter = num_changed // 4
    assert "package_0/module_0.py" not in paths_held
    assert f"new/module_{num_changed}.py" in paths_held
    assert sum(path.startswith("renamed/") for path in paths_held) == quarter
