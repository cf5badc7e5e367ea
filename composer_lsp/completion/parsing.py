"""Whether a file parses as well with an answer as without it."""

import re
from collections.abc import Iterator
from functools import cached_property
from itertools import islice

from composer_index.languages import LANGUAGES, Language
from composer_index.parsing import grammar
from composer_lsp.completion.surroundings import Surroundings

CHECKED = frozenset(
    {
        *("python", "javascript", "javascriptreact", "typescript", "typescriptreact", "go", "rust"),
        *("java", "csharp", "lua", "json", "css"),
    }
)
"""Languages that hold no others, no templates and no macros, which a grammar takes for errors."""
_MAX_ERRORS = 64
"""Counted; beyond them nothing is told apart."""
_MAX_TRIES = 8
"""Each takes a millisecond or two."""
_LONG_END = re.compile(r"\"{3}|'{3}|\*/")
"""Of a text that goes over lines, or its beginning."""
_NEAR_CHARS = 800
"""Behind it, by which is told which of them it is."""
_WORD = re.compile(r"\w+|[^\w\s]")


def load_grammar(language_id: str) -> None:
    """Load what the first suggestion in the language would wait for: 10 to 60 ms. From any thread."""
    if language := LANGUAGES.get(language_id):
        grammar.load(language)


class ParsedWith:
    """The text near the cursor, with one answer or another in it."""

    def __init__(self, around: Surroundings) -> None:
        language = LANGUAGES.get(around.language_id)
        self._language = language if language and language.id in CHECKED else None
        self._around = around
        self._known: dict[str, int | None] = {}

    def num_errors(self, answer: str) -> int | None:
        """Places that do not parse, and tokens that are missing; None where no grammar can say."""
        if self._language is None:
            return None
        if answer not in self._known:
            text = self._before + answer + self._around.after
            self._known[answer] = _num_errors(self._language, text)
        return self._known[answer]

    @cached_property
    def _before(self) -> str:
        """The text before the cursor, from where most of it parses: it may begin inside a string or a
        comment, and then nothing behind is what it seems."""
        before = self._around.before
        end = _LONG_END.search(before)
        if end is None or self._language is None:
            return before
        behind = before[end.end() :]
        near = (before[: end.end() + _NEAR_CHARS], behind[:_NEAR_CHARS])
        errors = [_num_errors(self._language, text) or 0 for text in near]
        return behind if errors[1] < errors[0] else before

    def longest_as_good(self, answer: str) -> str:
        """The answer, or its longest beginning with which there are no more errors than without it, of
        whole lines or of whole words of one; empty where there is none."""
        before = self.num_errors("")
        if before is None:
            return answer
        for kept in islice(_beginnings(answer), _MAX_TRIES):
            after = self.num_errors(kept)
            if after is None or after <= before:
                return kept
        return ""


def _beginnings(answer: str) -> Iterator[str]:
    """The longest first: all, then without its last lines, then without its first line's last words."""
    yield answer
    lines = answer.split("\n")
    for num_lines in range(len(lines) - 1, 0, -1):
        yield "\n".join(lines[:num_lines]).rstrip()
    for word in reversed([*_WORD.finditer(lines[0])][1:]):
        yield lines[0][: word.start()].rstrip()


def _num_errors(language: Language, text: str) -> int | None:
    tree = grammar.parse(language, text.encode("utf-8", "replace"))
    if tree is None:
        return None
    num_errors = 0
    waiting = [tree.root_node]
    while waiting and num_errors < _MAX_ERRORS:
        node = waiting.pop()
        if node.is_error or node.is_missing:
            num_errors += 1
        if node.has_error:
            waiting += node.children
    return num_errors
