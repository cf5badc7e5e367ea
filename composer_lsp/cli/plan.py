"""`composer-lsp plan "…"`: plan a change in a terminal, and carry it out if the user agrees."""

import argparse

from composer_lsp.cli import ask


def add_arguments(parser: argparse.ArgumentParser) -> None:
    ask.add_arguments(parser)
    ask.add_carry_out(parser)


def run(args: argparse.Namespace) -> int:
    return ask.run(args)
