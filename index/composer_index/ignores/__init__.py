"""Which files never reach the index, a prompt or a tool's result: secrets by their names, and what
the user hides by `.composerignore`."""

from composer_index.ignores.composerignore import FILE_NAME, ComposerIgnore
from composer_index.ignores.hidden import HiddenFiles
from composer_index.ignores.patterns import Pattern, PatternError, decision, hides, parse_pattern
from composer_index.ignores.secrets import is_sample_path, is_secret_path

__all__ = [
    "FILE_NAME",
    "ComposerIgnore",
    "HiddenFiles",
    "Pattern",
    "PatternError",
    "decision",
    "hides",
    "is_sample_path",
    "is_secret_path",
    "parse_pattern",
]
