"""The upper folder of an overlay before it is mounted."""

import sys
from pathlib import Path

import pytest

from composer_lsp.agent.commands import staging
from composer_lsp.agent.commands.staging import Staging

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="overlays are for Linux")


def written_time_s(staged: Staging, upper: Path, path: Path, data: bytes) -> float:
    upper.mkdir(exist_ok=True)
    staged.write({path.parent: upper}, {path: data})
    return (upper / path.name).stat().st_mtime


def test_another_text_in_the_same_second_has_another_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python takes compiled code for current by the second and the size of its source."""
    monkeypatch.setattr(staging.time, "time", lambda: 1_000_000.5)
    staged, path = Staging(), tmp_path / "root" / "a.py"
    times_s = [
        written_time_s(staged, tmp_path / "upper", path, data) for data in (b"1", b"1", b"2", b"1")
    ]

    assert times_s == [1_000_000, 1_000_000, 1_000_001, 1_000_002]


def test_what_is_staged_over_a_file_is_newer_than_it(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.py").write_bytes(b"1")
    on_disk_s = int((root / "a.py").stat().st_mtime)

    assert written_time_s(Staging(), tmp_path / "upper", root / "a.py", b"2") > on_disk_s


def test_what_lies_in_no_root_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(PermissionError, match="outside of the workspace"):
        Staging().write({tmp_path / "root": tmp_path / "upper"}, {tmp_path / "a.py": b"1"})
