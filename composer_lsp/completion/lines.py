"""A text's lines as an editor counts them: they end at \\n, \\r\\n and \\r, and nowhere else."""

import io


def split_lines(text: str) -> list[str]:
    """Lines with their terminators, and what follows the last terminator, if only ""."""
    lines = list(io.StringIO(text, newline=""))
    if not lines or lines[-1].endswith(("\n", "\r")):
        lines.append("")
    return lines
