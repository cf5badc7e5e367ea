"""Lines as editors count them: they end at \\n, \\r\\n and \\r, and nowhere else."""

import io
import re
from collections import Counter
from collections.abc import Sequence

_ENDS = ("\r\n", "\n", "\r")
_LINE_END = re.compile(r"\r\n|\r")


def split_lines(text: str) -> list[str]:
    """The lines with their ends; the last one may have none. `"".join` gives the text back."""
    return list(io.StringIO(text, newline=""))


def line_end(line: str) -> str:
    """The end of a line, empty if it has none."""
    return next((end for end in _ENDS if line.endswith(end)), "")


def with_line_feeds(text: str) -> str:
    """The text with every line ended by \\n."""
    return _LINE_END.sub("\n", text)


def usual_end(lines: Sequence[str]) -> str:
    """How most of the lines end; \\n if none does."""
    counted = Counter(end for line in lines if (end := line_end(line)))
    return counted.most_common(1)[0][0] if counted else "\n"
