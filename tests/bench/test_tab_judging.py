"""What `bench.tab judge` says of a judge, on made-up suggestions."""

from pathlib import Path

import pytest

from bench.tab import judging
from bench.tab.judging import Answer, Suggested
from bench.tab.records import Records


def suggested(logprob: float, *, has_passed: bool) -> Suggested:
    return Suggested(
        model="m",
        kind="single-line",
        task_id="a",
        text="x = 1",
        tokens=[("x = 1", logprob)],
        is_cut=False,
        after="",
        has_passed=has_passed,
    )


def test_the_table_of_a_judge(capsys: pytest.CaptureFixture[str]) -> None:
    logprobs = {True: (-0.01, -0.02, -2.0), False: (-0.03, -3.0)}
    judging.measure(
        [
            suggested(logprob, has_passed=passed)
            for passed, of in logprobs.items()
            for logprob in of
        ],
        0.5,
    )
    _, pooled, alone = (line.split() for line in capsys.readouterr().out.splitlines())
    # Of the six pairs one that passes is behind one that does not; two of three are shown beside one.
    assert pooled[1:] == ["5", "0.600", "0.833", "0.667", "0.667"]
    assert alone[2:] == pooled[1:]


def test_a_kind_that_always_passes_has_no_such_figures(
    capsys: pytest.CaptureFixture[str],
) -> None:
    judging.measure([suggested(-1, has_passed=True)], 0.5)
    assert capsys.readouterr().out.splitlines()[1].split()[1:] == ["1", "1.000", "-", "-", "-"]


def test_fitting_prefers_what_passes(capsys: pytest.CaptureFixture[str]) -> None:
    judging.fit([suggested(-0.1, has_passed=True), suggested(-3, has_passed=False)] * 5)
    found = dict(line.split() for line in capsys.readouterr().out.splitlines())
    assert float(found["mean_logprob"]) > 0
    assert float(found["says_below"]) == 0


def test_answers_are_found_again_those_too_that_had_nothing(tmp_path: Path) -> None:
    records = Records(Answer, tmp_path / "some.jsonl")
    records.add("a", Answer(suggested=suggested(-1, has_passed=True)))
    records.add("b", Answer(suggested=None))
    again = Records(Answer, tmp_path / "some.jsonl")
    assert again["b"] == Answer(suggested=None)
    found = again["a"].suggested
    assert found is not None
    assert found.features == suggested(-1, has_passed=True).features
