"""What the twins are measured against computes the same."""

import pytest

from benchmarks.operands import Draw, in_format
from benchmarks.shapes import TINY
from benchmarks.twins import compare, naive_layer, naive_quantize
from composer_kernels import ExpertWeights, ScaleRule, expert_layer, reference

from .inputs import assert_same_codes


@pytest.mark.parametrize("fmt", ["bf16", "mxfp8", "mxfp4"])
def test_the_naive_layer(fmt: str):
    draw = Draw(0, "cpu")
    gate_up, down = in_format(draw.bf16(8, 80, 64), fmt), in_format(draw.bf16(8, 64, 40), fmt)
    x, (ids, scores) = draw.normal(9, 64).bfloat16(), draw.choices(9, 8, 2)
    ours = expert_layer(x, ids, scores, ExpertWeights(gate_up=gate_up, down=down)).float()
    naive = naive_layer(x, ids, scores, gate_up, down).float()
    # Ours rounds to bf16 three times, the naive layer once: 2^-9 each.
    assert float((naive - ours).square().sum().sqrt()) < 2.0**-7 * float(ours.square().sum().sqrt())


def test_the_naive_quantiser():
    x = Draw(0, "cpu").normal(64, 96)
    assert_same_codes(naive_quantize(x), reference.mxfp8_quantize(x, rule=ScaleRule.FLOOR))


def test_the_table(capsys: pytest.CaptureFixture[str]):
    compare(TINY, (1,), num_rounds=1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + 3 + 1
    assert all(float(line.split()[-1]) > 0 for line in lines[2:])
