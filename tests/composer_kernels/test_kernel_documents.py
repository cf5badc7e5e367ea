"""Writing the page's tables, with a page and rows of the test's own; and the page's examples."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import documents
from benchmarks.ahead_of_time import Compiled

ROW = Compiled(
    target="sm_90a",
    launch="down",
    kernel="grouped_gemm_kernel",
    kind="bf16_bf16",
    regime="decode",
    tiles="16 x 64 x 128, 4 warps, 4 stages",
    registers=100,
    shared_bytes=2048,
    stack_bytes=0,
    instructions=("wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16",),
)


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    names = [*documents.RECKONED, documents.COMPILED]
    blocks = [f"<!-- {name}:begin -->\n<!-- {name}:end -->\n" for name in names]
    path = tmp_path / "kernels.md"
    path.write_text("Before.\n" + "\n".join(blocks) + "After.\n")
    monkeypatch.setattr(documents, "digest", lambda: "abc")
    return path


def test_what_is_stale_is_named_and_then_written(page: Path):
    assert documents.stale(page) == [*documents.RECKONED, documents.COMPILED]
    documents.write(page, lambda: [ROW])
    assert documents.stale(page) == []
    text = page.read_text()
    assert text.startswith("Before.\n")
    assert text.endswith("After.\n")
    assert "`wgmma.mma_async.m64n16k16.f32.bf16.bf16`" in text


def test_nothing_is_compiled_under_the_same_digest(page: Path, monkeypatch: pytest.MonkeyPatch):
    documents.write(page, lambda: [ROW])
    before = page.read_text()
    documents.write(page, lambda: [replace(ROW, registers=1)])
    assert page.read_text() == before
    monkeypatch.setattr(documents, "digest", lambda: "def")
    assert documents.stale(page) == [documents.COMPILED]
    documents.write(page, lambda: [replace(ROW, registers=1)])
    assert page.read_text() != before


def test_a_reckoned_table_that_was_edited_is_stale(page: Path):
    documents.write(page, lambda: [ROW])
    page.write_text(page.read_text().replace("| A100 80GB SXM | sm_80 |", "| A100 | sm_80 |"))
    assert documents.stale(page) == ["peaks"]


def test_a_line_has_the_worst_of_its_launches():
    rows = [ROW, replace(ROW, registers=200), replace(ROW, stack_bytes=8, shared_bytes=4096)]
    table = documents.compiled_tables(rows, "abc")
    assert "| 16 x 64 x 128, 4 warps, 4 stages | 200 | 4 | 8 |" in table


def test_missing_markers_are_named(page: Path):
    page.write_text("nothing")
    with pytest.raises(ValueError, match="peaks:begin"):
        documents.stale(page)


SNIPPETS = re.findall(r"```python\n(.*?)```", documents.PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_an_example_runs_by_itself(number: int):
    exec(SNIPPETS[number], {})


def test_the_page_has_examples_of_inference_and_training():
    assert ["_with_grad" in snippet for snippet in SNIPPETS] == [False, True]
