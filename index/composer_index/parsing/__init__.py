"""From a file's bytes to chunks, definitions and imports."""

from composer_index.parsing.parse import parse_file

__all__ = ["parse_file"]
