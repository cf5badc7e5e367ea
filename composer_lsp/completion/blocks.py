"""Where the block that an answer completes or opens comes to its end."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from composer_lsp.completion.brackets import num_unmatched
from composer_lsp.completion.indentation import IndentStyle, opens_block

_CLOSER = re.compile(r"\s*(?:[)\]}]|</|(?:end|fi|done|esac|until)\b)")
_CONTINUATION = re.compile(
    r"\s*(?:else|elif|elsif|elseif|except|catch|finally|rescue|ensure|case|default|when)\b"
)
_LEAVES = re.compile(r"\s*(?:return|raise|throw|break|continue|goto)\b")
_FUNCTION = re.compile(r"\s*(?:async\s+)?def\b|\s*\)\s*(?:->.*)?:\s*$")
"""A function's head, or the last line of one."""
_HEADS = re.compile(
    r"\s*(?:if|for|while|with|try|match|else|elif|except|finally|case)\b|\s*async\s+(?:for|with)\b"
)
"""What may stand above lines that are there already; hardly a definition, which would swallow them."""
_REOPENS = re.compile(r"[:{(\[]\s*$|\b(?:then|do|else)\s*$")


def block_end(
    lines: Sequence[str],
    *,
    num_head_chars: int,
    above: Sequence[str],
    below: str,
    indent: IndentStyle,
) -> int | None:
    """How many of the lines belong to the block, None when all do.

    `lines[0]` is completed with the cursor's line, of which the first `num_head_chars` stood there
    before; `above` are the lines of the document above it that are not blank, and `below` is the next one
    of these. A block ends where its first line's indentation is reached again, at a blank line when nothing was
    opened, and at two blank lines. The line that closes it belongs to it. Where nothing of the enclosing
    block stands below, all its rest is wanted, up to a statement that leaves it, and the rest of each block
    around it of which nothing stands below either, within the function. A head that takes the line below
    as its body belongs to it too.
    """
    first = next((index for index, line in enumerate(lines) if line.strip()), None)
    if first is None:
        return None
    head = lines[0][:num_head_chars]
    if head.strip() and not lines[0][num_head_chars:].strip():
        return _end_below_head(lines, indent)
    base = indent.columns(lines[first])
    if not head.strip() and base > 0 and (not below or indent.columns(below) < base):
        floor = _floor(above, below, base, indent)
        levels = [columns for _, columns in _enclosing(above, base, indent) if columns > floor]
        return _end_of_enclosing(lines, first, indent, floor=floor, lowest=min([*levels, base]))
    end = _end(lines, first, indent, is_statement=bool(head.strip()))
    return end if end is None else _with_head_of_below(lines, end, base, below, indent)


def _floor(above: Sequence[str], below: str, base: int, indent: IndentStyle) -> int:
    """Down to which indentation, that one excluded, the rest of the blocks around is wanted; without a
    function around, only that of the innermost."""
    for line, columns in _enclosing(above, base, indent):
        if _FUNCTION.match(line):
            return max(columns, indent.columns(below) if below else 0)
    return base - 1


def _enclosing(above: Sequence[str], base: int, indent: IndentStyle) -> Iterator[tuple[str, int]]:
    """The lines that open the blocks around, the innermost first, and their indentation."""
    for line in reversed(above):
        if (columns := indent.columns(line)) < base:
            base = columns
            yield line, columns


def _end_of_enclosing(
    lines: Sequence[str], first: int, indent: IndentStyle, *, floor: int, lowest: int
) -> int | None:
    """Where the blocks end that the first line stands in: at `floor`, or behind what leaves the
    outermost of them, whose lines are at `lowest`."""
    base = indent.columns(lines[first])
    num_blank = 0
    for index in range(first, len(lines)):
        line = lines[index]
        if not line.strip():
            num_blank += 1
            if num_blank == 2:
                return index - 1
            continue
        columns = indent.columns(line)
        if columns < base and _CLOSER.match(line):
            return index - num_blank if _REOPENS.search(line) else _after(lines, index)
        if columns <= floor:
            return index - num_blank
        if columns == lowest and _LEAVES.match(line) and not num_unmatched(line, ""):
            return _after(lines, index)
        num_blank = 0
    return None


def _with_head_of_below(
    lines: Sequence[str], num_lines: int, base: int, below: str, indent: IndentStyle
) -> int | None:
    """One more than the block's lines where the next one, less deep than the block's first (at `base`),
    opens a block for the line below."""
    head = next((index for index in range(num_lines, len(lines)) if lines[index].strip()), None)
    if head is None or not (_HEADS.match(lines[head]) and opens_block(lines[head])):
        return num_lines
    is_above = indent.columns(lines[head]) < min(base, indent.columns(below) if below else 0)
    return _after(lines, head) if is_above else num_lines


def lacks_beginning(below: str, above: str, indent: IndentStyle) -> bool:
    """Whether the line below the cursor may belong to something that is missing above it: it is another
    branch, or deeper than the last line above, which opens no block."""
    if _CONTINUATION.match(below):
        return True
    return indent.columns(below) > indent.columns(above) and not opens_block(above)


def may_follow(below: str, line: str, indent: IndentStyle) -> bool:
    """Whether a line is as deep as it may be below another."""
    if opens_block(line):
        return indent.columns(below) == indent.columns(line) + indent.num_spaces
    return indent.columns(below) <= indent.columns(line)


def is_above_body(line: str, below: str, indent: IndentStyle) -> bool:
    """Whether the line opens no block, or the line below is in it."""
    return not opens_block(line) or indent.columns(below) > indent.columns(line)


def end_above_body(lines: Sequence[str], below: str, *, indent: IndentStyle) -> int | None:
    """How many of the lines stand above the body that follows the cursor already: up to the one that
    opens its block. None when they open none that deep.

    `lines[0]` is completed with the cursor's line; `below` is the next line of the document.
    """
    depth = indent.columns(below)
    for index, (line, following) in enumerate(pairwise(lines)):
        columns = indent.columns(line)
        if line.strip() and columns >= depth:
            return None
        if opens_block(line) and following.strip() and indent.columns(following) >= depth:
            return index + 1
    return None


def _end_below_head(lines: Sequence[str], indent: IndentStyle) -> int | None:
    """The cursor's line was complete, and the answer goes on below it."""
    below = next((index for index in range(1, len(lines)) if lines[index].strip()), None)
    if below is None:
        return None
    base, first = indent.columns(lines[0]), indent.columns(lines[below])
    if first < base and not _CLOSER.match(lines[below]):
        return 1
    if first > base or _CLOSER.match(lines[below]):
        return _end(lines, 0, indent, is_statement=True)
    return _end(lines, below, indent, is_statement=False)


def _end(
    lines: Sequence[str], first: int, indent: IndentStyle, *, is_statement: bool
) -> int | None:
    """`is_statement`: the first line is one statement, so that the next one is a new thought."""
    base = indent.columns(lines[first])
    is_open = False
    num_blank = 0
    for index in range(first + 1, len(lines)):
        line = lines[index]
        if not line.strip():
            num_blank += 1
            if num_blank == 2 or not (is_open or is_statement):
                return index - num_blank + 1
            continue
        columns = indent.columns(line)
        if columns > base:
            is_open, num_blank = True, 0
            continue
        if _CLOSER.match(line):
            if not _REOPENS.search(line) or columns < base:
                return _after(lines, index)
        elif _ends_before(line, columns - base, is_open=is_open, is_statement=is_statement):
            return index - num_blank
        num_blank = 0
    return None


def _ends_before(line: str, depth: int, *, is_open: bool, is_statement: bool) -> bool:
    """Whether a line at this depth (0 or less) beside the block's first begins something else."""
    if depth == 0 and is_open and _CONTINUATION.match(line):
        return False
    return depth < 0 or is_open or is_statement


def _after(lines: Sequence[str], index: int) -> int | None:
    return index + 1 if index + 1 < len(lines) else None
