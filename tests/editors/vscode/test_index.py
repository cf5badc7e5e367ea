"""The index and the window."""

from pathlib import Path

import pytest

from .conftest import StartVSCode

pytestmark = pytest.mark.editor


def test_what_no_event_told_is_found_when_the_window_comes_back(
    start_vscode: StartVSCode, folder: Path, tmp_path: Path
) -> None:
    (folder / "shop.py").write_text("def total_price():\n    pass\n")
    # Written by a name outside of the folder, which nobody watches.
    elsewhere = tmp_path / "elsewhere.py"
    elsewhere.hardlink_to(folder / "shop.py")

    start_vscode([]).run(
        "index_focus",
        folder,
        known="total_price",
        elsewhere=str(elsewhere),
        text="def sell_umbrella():\n    pass\n",
        changed="sell_umbrella",
        later=str(folder / "later.py"),
        laterText="def rent_bicycle():\n    pass\n",
        laterSymbol="rent_bicycle",
    )


def test_indexing_is_seen_paused_gone_on_with_and_begun_anew(
    start_vscode: StartVSCode, folder: Path
) -> None:
    for number in range(4000):
        (folder / f"module_{number}.py").write_text(f"def function_{number}():\n    pass\n")

    start_vscode([]).run("index_commands", folder, symbol="function_3999")
