"""The decoder's script for a GPU, dry: that it runs, that its checks can fail, what it writes."""

import csv
import inspect
import runpy
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from composer_inference.decoder import graphs
from composer_inference.decoder.attention.block_table import TableAttention, used_blocks
from composer_inference.decoder.attention.rule import AttentionRule
from composer_inference.decoder.attention.span import SpanAttention
from composer_inference.decoder.batch import Span
from composer_inference.kv.pool import KVPool
from composer_inference.weights import random_weights
from composer_kernels import mxfp8_dequantize, mxfp8_quantize

SCRIPT = Path(__file__).parents[3] / "inference/benchmarks/gpu_check.py"


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def script() -> Iterator[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(SCRIPT.parent)  # As Python does for a script.
        yield runpy.run_path(str(SCRIPT))


def test_dry_run(
    script: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script["main"](["--device", "cpu", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out.endswith("all passed\n")
    with (tmp_path / "measurements.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["what"], row["batch"]) for row in rows] == [
        ("mxfp8, eager", "1"),
        ("mxfp8, graphs", "1"),
        ("mxfp8, eager", "2"),
        ("mxfp8, graphs", "2"),
        ("bf16, eager", "1"),
        ("bf16, graphs", "1"),
        ("bf16, eager", "2"),
        ("bf16, graphs", "2"),
    ]
    assert all(float(row["decode_tokens_per_s"]) > 0 for row in rows)
    assert float(rows[0]["step_gb"]) < float(rows[4]["step_gb"])


SLOTS_FROM = SpanAttention._slots_from  # pyright: ignore[reportPrivateUsage]


def _one_too_far(self: SpanAttention, rule: AttentionRule) -> slice | Tensor:
    right = SLOTS_FROM(self, rule)
    return slice(right.start + 1, right.stop + 1) if isinstance(right, slice) else right


TABLE_OF = TableAttention.of


def _one_block_off(spans: Sequence[Span], pool: KVPool, device: torch.device) -> TableAttention:
    table = TABLE_OF(spans, pool, device)
    if not any(frame.function == "twin" for frame in inspect.stack()):
        table.table.blocks_X[0] += 1
    return table


def _the_first_again(span: Span, block_size: int) -> list[int]:
    return [span.blocks[0] for _ in used_blocks(span, block_size)]


@pytest.mark.parametrize(
    ("target", "name", "broken", "check"),
    [
        (
            random_weights,
            "mxfp8_dequantize",
            lambda q, dtype: 2 * mxfp8_dequantize(q, dtype=dtype),
            "MXFP8 and bf16 with the same values",
        ),
        (
            SpanAttention,
            "_slots_from",
            _one_too_far,
            "decode after a chunked prefill, and prefill",
        ),
        (TableAttention, "of", _one_block_off, "attention of Qwen3-Coder, decodes"),
        (graphs, "used_blocks", _the_first_again, "decode as a graph, and prefill"),
    ],
)
def test_a_fault_is_told(
    script: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    target: object,
    name: str,
    broken: Callable[..., Any],
    check: str,
) -> None:
    monkeypatch.setattr(target, name, broken)
    assert script["main"](["--device", "cpu", "--out", str(tmp_path)]) == 1
    failed = capsys.readouterr().out.split("FAILED:\n")[1]
    assert failed.startswith(check)


def test_the_same_seed_gives_the_same_weights_in_each_format(script: dict[str, Any]) -> None:
    cpu = torch.device("cpu")
    bf16, mxfp8 = (
        random_weights.random_decoder(script["SMALL"], stored, seed=3, device=cpu)
        for stored in ("bf16", "mxfp8")
    )
    assert torch.equal(bf16.embedding, mxfp8.embedding)
    weight = bf16.get_parameter("blocks.1.feed_forward.experts.down")
    codes = mxfp8.get_parameter("blocks.1.feed_forward.experts.down_codes")
    assert torch.equal(mxfp8_quantize(weight).codes.float(), codes.float())
    stored = sum(parameter.nbytes for parameter in mxfp8.parameters())
    assert random_weights.num_bytes(script["SMALL"], "mxfp8") == stored


def test_without_a_gpu_it_says_so(
    script: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert script["main"](["--out", str(tmp_path / "none")]) == 1
    assert "--device cpu" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
