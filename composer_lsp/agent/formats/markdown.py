"""Where in the Markdown of an answer its end stands, while text is added to it.

A quotation is a line that begins with `>` and what follows up to a blank line, what stands behind an
opening quotation mark of the same line, and what a tag `<blockquote>` opened. Code is what is fenced,
between backticks, indented by four columns, or opened by `<code>` or `<pre>`. Tags hold up to a blank
line.
"""

import re

from composer_lsp.agent.formats.cursor import More

_FENCE = re.compile(r"[ \t]*(`{3,}[^`]*|~{3,}.*)")
_TAGS = tuple(f"<{tag}>" for tag in ("pre", "code", "blockquote"))
_ENDS = tuple(tag.replace("<", "</") for tag in _TAGS)
_MAX_LINE_CHARS = 200
"""As much of a line is looked at to see what it is."""
_INDENTED = re.compile(r" {0,3}\t| {4}")
_OPENING = "“„«"
_CLOSING = "”»"
_INTRODUCES = re.compile(r"[^>].*[:：][*_]*", re.DOTALL)
_MEANS_NO_CALL = re.compile(
    r"(?i)\b(?:examples?|sample|instance|e\.g|not|never|cannot|without|would|looks? like|format)\b|n't\b"
)


class Markdown:
    def __init__(self) -> None:
        self._line = ""
        """What the last line holds so far."""
        self._lines: list[str] = []
        """The first lines before it that are not blank, two at most."""
        self._fence = ""
        """The marks that opened the code block which the end is in."""
        self._num_ticks = 0
        """Of the backticks that opened the code which the end is in."""
        self._tag = ""
        self._is_quotation = False
        self._num_marks = 0
        """Quotation marks of the line that are open."""

    @property
    def in_code(self) -> bool:
        return bool(self._fence or self._num_ticks)

    @property
    def in_fence(self) -> bool:
        return bool(self._fence)

    @property
    def at_line_start(self) -> bool:
        return not self._line.strip()

    @property
    def is_quoted(self) -> bool:
        """Within a quotation, or code that is not `in_code`."""
        return bool(
            self._is_quotation
            or self._tag
            or self._num_marks
            or self._line.lstrip().startswith(">")
            or self._line.endswith("'")
            or _INDENTED.match(self._line)
        )

    @property
    def introduces(self) -> bool:
        """Nothing is written before the last line, which is blank, but one short line at most, which
        ends with a colon and neither denies anything nor speaks of an example."""
        if not self.at_line_start or len(self._lines) > 1:
            return False
        line = self._lines[0].strip() if self._lines else ""
        return not line or (
            len(line) < _MAX_LINE_CHARS
            and _INTRODUCES.fullmatch(line) is not None
            and not _MEANS_NO_CALL.search(line)
        )

    def add(self, text: str) -> None:
        """A text that holds one line end at most, which is its last character."""
        if not self.in_code:
            self._num_marks ^= text.count('"') % 2
            self._num_marks += sum(map(text.count, _OPENING)) - sum(map(text.count, _CLOSING))
            self._num_marks = max(0, self._num_marks)
        before, newline, last = text.rpartition("\n")
        if newline:
            self._end_line(self._line + before)
            self._line = ""
        self._line = (self._line + last)[:_MAX_LINE_CHARS]

    def add_ticks(self, num: int) -> None:
        """So many backticks are about to be added."""
        if not self._num_ticks:
            self._num_ticks = num
        elif self._num_ticks == num:
            self._num_ticks = 0

    def add_tag(self, text: str, at: int, *, is_whole: bool) -> None:
        """A `<` that is about to be added may be a tag's. Raises: More."""
        for tag in (*_TAGS, *_ENDS):
            if text.startswith(tag, at):
                self._tag = tag if tag in _TAGS else ""
            elif not is_whole and tag.startswith(text[at : at + len(tag)]):
                raise More

    def _end_line(self, line: str) -> None:
        self._num_ticks = 0
        self._num_marks = 0
        if line.strip():
            self._is_quotation = self._is_quotation or line.lstrip().startswith(">")
            self._lines = [*self._lines, line][:2]
        else:
            self._is_quotation = False
            self._tag = ""
        match = _FENCE.fullmatch(line.rstrip("\r"))
        if match is None:
            return
        marks = re.match(r"`+|~+", match[1])
        assert marks is not None
        if not self._fence:
            self._fence = marks[0]
        elif match[1].strip() == marks[0] and marks[0].startswith(self._fence):
            self._fence = ""
