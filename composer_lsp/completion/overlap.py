"""Where an answer begins to repeat: the text after the cursor, the text before it, or itself."""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from composer_lsp.completion.brackets import is_balanced, num_unmatched
from composer_lsp.completion.literals import QUOTES, is_comment
from composer_lsp.completion.surroundings import Surroundings

_SIGNIFICANT_CHARS = 6
"""Letters and digits from which on a line says something of its own, unlike `}` or `end`."""
_LONG_CHARS = 12
_CLOSING = ")]}'\"`"
_NUM_NEAR_LINES = 5
"""Lines below the cursor among which a line of its own is not said twice."""
_COMMON_WORDS = re.compile(
    r"(?i)\b(?:return|break|continue|pass|raise|throw|end|else|none|null|nil|true|false|self|this)\b"
    r"|</?[a-z][^<>]*>|[\d_]"
)
"""What a line may say any number of times; tags, because cells and items repeat."""
_RECURS = re.compile(r"\s*(?:@.*|\w+[;,]?|(?:await\s+)?[\w.:]+\(.*\);?)\s*\Z")
"""Decorators, single words and statements that only call something: tests are full of them."""
_LONG_RECURRING_CHARS = 30
_ENDS_ITEM = re.compile(r"(?<![=-])>\s*\Z|[,;|}\].]\s*\Z")
_SECTION = re.compile(r"\s*\[[^\]]+\]\s*\Z")
_HEADING = re.compile(r"#{1,6}(?= )")
_LINE_MARKS = frozenset({"#", "//", "///", "//!", "--", "---", "*", "-", "+", ">"})
"""What begins a comment, an item or a quotation, and is said once a line."""
_OPENS_STRING = re.compile(r"""(?P<quote>\"{3}|'{3}|["'`])(?=[\w/#@<\\${])""")
"""Behind it a string's text, and none of what may follow a string."""
_LOOP = re.compile(r"(?s)(.{3,60}?)\1{4,}\Z|(\S)\2{79,}\Z")
_LOOP_WINDOW = 320


def without_head(answer: str, head: str) -> str:
    """The answer without the start of the cursor's line, should it begin with that again."""
    said = head.strip()
    is_mark = said in _LINE_MARKS and re.match(rf"\s*{re.escape(said)}[ \t]", answer)
    if is_mark or (_is_telling(said) and answer.lstrip().startswith(said)):
        answer = answer.lstrip()[len(said) :]
    if head[-1:] in {" ", "\t"}:
        # Two blanks in a row: the model began its own token with one.
        first, newline, rest = answer.partition("\n")
        return (first.lstrip(" \t") if first.strip() and head.strip() else first) + newline + rest
    return answer


def without_opening_quote(answer: str, around: Surroundings) -> str:
    """The answer without the quote that stands before the cursor, in a string that the editor closed
    and the answer opens and closes again."""
    quote = _opening_quote(answer, around)
    return answer[len(quote) :] if quote in answer[len(quote) :] else answer


def may_become_head(answer: str, around: Surroundings) -> bool:
    """Whether an answer that streams in may still turn out to begin with what stands before it."""
    said = around.head.strip()
    if _is_telling(said) and len(answer) < len(said) and said.startswith(answer.strip()):
        return True
    if not _is_in_closed_string(around):
        return False
    quote = _opening_quote(answer, around)
    if quote:
        return quote not in answer[len(quote) :] and "\n" not in answer
    return around.head.endswith(answer) and len(answer) <= 3


def repeats_tail(answer: str, around: Surroundings) -> int | None:
    """Where the rest of the cursor's line, white space apart, stands in the answer."""
    if not _is_telling(around.tail.strip()):
        return None
    rest = r"\s*".join(map(re.escape, around.tail.split()))
    for match in re.finditer(rest, answer):
        if _is_as_balanced(answer[: match.start()], answer[: match.end()], around):
            return match.start()
    return None


def overlap_with_tail(answer: str, around: Surroundings) -> int | None:
    """Where the answer's end is the beginning of the rest of the cursor's line. Closing brackets
    and quotes alone are no overlap: whether they are surplus, their partners tell."""
    rest = around.tail.strip()
    text = answer.rstrip()
    for length in range(min(len(text), len(rest)), 0, -1):
        start = len(text) - length
        overlap = rest[:length]
        if (
            overlap.strip(_CLOSING)
            and text.endswith(overlap)
            and (
                is_balanced(text[:start], around.language_at_cursor)
                # A letter or two of a word come twice by chance: `instal` + `led`.
                or (length >= 3 and _is_as_balanced(text[:start], text, around))
            )
        ):
            return start
    return None


def _is_as_balanced(kept: str, answer: str, around: Surroundings) -> bool:
    """Whether the cursor's line misses no more partners with what is kept than with the answer:
    in `g(⟦f(a, b)⟧, b)` the end of the answer only looks like the rest of the line."""
    lines = (around.head + text + around.tail for text in (kept, answer))
    kept_unmatched, answer_unmatched = (
        num_unmatched(line, around.language_at_cursor) for line in lines
    )
    return kept_unmatched <= answer_unmatched


def repeats_lines_after(lines: Sequence[str], around: Surroundings) -> int | None:
    """The first line of the answer (its first one completed with the cursor's line) from which
    on it says what the lines below the cursor say."""
    after = around.lines_after[:8]
    said = [(index, line) for index, line in enumerate(lines) if line.strip()]
    for position, (index, line) in enumerate(said):
        for skipped in range(len(after)):
            run = _run_length([text for _, text in said[position:]], after[skipped:])
            if run >= 2 and any(map(_is_significant, after[skipped : skipped + run])):
                return index
            if run and skipped == 0 and _stands_below(line, after[0], around):
                return index
            is_new = index > 0 or _is_mostly_new(line, around)
            if run and is_new and _follows_in_block(line, after[: skipped + 1], around):
                return index
    return None


def ends_with_line_after(first_line: str, around: Surroundings) -> int | None:
    """Where the whole next line stands at the end of the answer's first line, as an item of its
    own."""
    below = around.lines_after[0].strip() if around.lines_after else ""
    text = first_line.rstrip()
    if not _is_significant(below) or not text.endswith(below):
        return None
    start = len(text) - len(below)
    return start if _ENDS_ITEM.search(around.head + text[:start]) else None


def partly_repeats_line_after(lines: Sequence[str], around: Surroundings) -> int | None:
    """The answer's last line, when it is the beginning of the next line below the cursor."""
    if len(lines) < 2 or not around.lines_after:
        return None
    last, below = lines[-1], around.lines_after[0]
    if _num_letters(last) >= 4 and _squeezed(below).startswith(_squeezed(last)):
        return len(lines) - 1 if _is_same_depth(last, below, around) else None
    return None


def repeats_lines_before(lines: Sequence[str], around: Surroundings) -> int | None:
    """The line of the answer from which on it says again what stands just above."""
    above = [_squeezed(line) for line in around.lines_before[-2:]]
    said = [(index, _squeezed(line)) for index, line in enumerate(lines) if line.strip()]
    if not above or not said:
        return None
    for position, (index, text) in enumerate(said[:3]):
        between = [lines[earlier] for earlier, _ in said[:position]]
        if text != above[-1] or not _is_one_block([*between, lines[index]], around):
            continue
        if _is_distinctive(lines[index]) or (not between and _num_letters(text) >= _LONG_CHARS):
            return index
    for (index, one), (_, two) in pairwise(said):
        if [one, two] == above and (_is_significant(one) or _is_significant(two)):
            return index
    return None


def repeats_itself(answer: str) -> int | None:
    """Where a run of equal lines, of equal groups of lines or of equal pieces begins again."""
    lines = answer.split("\n")
    for period in range(1, 9):
        for start in range(len(lines) - 2 * period + 1):
            if _is_loop(lines, start, period):
                return len("\n".join(lines[: start + period]))
    window = answer[-_LOOP_WINDOW:]
    match = _LOOP.search(window)
    if match and match.group().strip():
        piece = match.group(1) or match.group(2)
        return len(answer) - len(window) + match.start() + len(piece)
    return None


def _opening_quote(answer: str, around: Surroundings) -> str:
    """The quote with which the answer opens the string around the cursor again; else empty."""
    match = _OPENS_STRING.match(answer) if _is_in_closed_string(around) else None
    quote = match["quote"] if match else ""
    return quote if around.head.endswith(quote) and around.tail.startswith(quote) else ""


def _is_in_closed_string(around: Surroundings) -> bool:
    """Whether the cursor stands between two quotes."""
    return around.head[-1:] in set(QUOTES) and around.tail[:1] == around.head[-1:]


def _is_loop(lines: list[str], start: int, period: int) -> bool:
    block = lines[start : start + period]
    if lines[start + period : start + 2 * period] != block:
        return False
    if any(_num_letters(line) >= _LONG_CHARS for line in block):
        return True
    is_third = lines[start + 2 * period : start + 3 * period] == block
    return is_third and any(line.strip() for line in block)


def _run_length(said: Sequence[str], after: Sequence[str]) -> int:
    length = 0
    for one, other in zip(said, after, strict=False):
        if _squeezed(one) != _squeezed(other):
            break
        length += 1
    return length


def _stands_below(line: str, below: str, around: Surroundings) -> bool:
    """Whether the line is the next one below. A deeper one may end a block of its own."""
    columns, columns_below = around.indent.columns(line), around.indent.columns(below)
    return columns == columns_below or (columns < columns_below and _is_distinctive(line))


def _follows_in_block(line: str, after: Sequence[str], around: Surroundings) -> bool:
    """Whether the line, which stands below as the last of `after`, follows there soon and in the
    same block: another branch, record or section may well say the same."""
    return (
        len(after) <= _NUM_NEAR_LINES
        and _is_distinctive(line)
        and not is_comment(line, around.language_id)
        and _is_same_depth(line, after[-1], around)
        and _is_one_block(after, around)
    )


def _is_one_block(lines: Sequence[str], around: Surroundings) -> bool:
    """Whether none of the lines leaves the block of the last."""
    depth = around.indent.columns(lines[-1])
    if any(around.indent.columns(line) < depth or _SECTION.match(line) for line in lines[:-1]):
        return False
    if around.language_id != "markdown":
        return True
    level = _heading_level(lines[-1])
    return all(_heading_level(line) >= level for line in lines[:-1])


def _heading_level(line: str) -> int:
    heading = _HEADING.match(line)
    return len(heading.group()) if heading else 7


def _is_mostly_new(line: str, around: Surroundings) -> bool:
    """Whether the user has typed less than half of the cursor's line."""
    return _num_letters(around.head) * 2 < _num_letters(line)


def _is_distinctive(line: str) -> bool:
    """Whether the line says something that is rarely said twice in a row."""
    if _RECURS.match(line) and _num_letters(line) < _LONG_RECURRING_CHARS:
        return False
    return _is_significant(line) and _num_letters(_COMMON_WORDS.sub("", line)) >= 4


def _is_same_depth(line: str, other: str, around: Surroundings) -> bool:
    return around.indent.columns(line) == around.indent.columns(other)


def _is_telling(text: str) -> bool:
    return len(text) >= 3 and re.search(r"\w", text) is not None


def _is_significant(line: str) -> bool:
    return _num_letters(line) >= _SIGNIFICANT_CHARS


@lru_cache(maxsize=1024)
def _num_letters(line: str) -> int:
    return sum(char.isalnum() for char in line)


@lru_cache(maxsize=1024)
def _squeezed(line: str) -> str:
    return "".join(line.split())
