"""What `composer-lsp engine` says of options that do not go together."""

import argparse

import pytest

from composer_lsp.cli import engine
from composer_lsp.cli.main import main


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--device", "cpu"], "--device"),
        (["--model", "x", "--cache-mb", "5"], "--model, --cache-mb"),
        (["--backend", "scripted", "--script", "x", "--step-tokens", "4"], "--step-tokens"),
        (["--backend", "torch", "--model", "/nonesuch/model"], "there is no /nonesuch/model"),
        (["--backend", "torch", "--model", "~nobody-of-this-name/x"], "~nobody-of-this-name/x"),
        (["--backend", "torch", "--model", "/" + "a" * 5000], "too long"),
    ],
)
def test_what_cannot_be_started_is_told(
    options: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["engine", *options]) in (1, 2)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert told in lines[0]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--cache-mb", "-1"),
        ("--step-tokens", "-4"),
        ("--max-sequences", "-1"),
        ("--threads", "-2"),
        ("--threads", "two"),
        ("--context-tokens", "0"),
    ],
)
def test_a_number_out_of_range_is_named(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    engine.add_arguments(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--backend", "torch", option, value])
    assert option in capsys.readouterr().err
