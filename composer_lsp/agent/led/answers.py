"""The code in an answer: fenced blocks, each with the path that the model wrote to it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from composer_lsp.agent.edits.lines import with_line_feeds

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^`\n]*)")
PATH = re.compile(r"[\w.@+-]+(?:/[\w.@+-]+)*\.\w+")
_MARKS = " \t#*`:\"'<>-"
_COMMENTED = re.compile(
    r"(?:#|//|--|/\*|<!--)\s*(?:file(?:name)?:\s*|path:\s*)?(\S+)\s*(?:\*/|-->)?", re.IGNORECASE
)

_NO_CODE = ("bash", "console", "diff", "output", "sh", "shell", "text", "zsh")
"""Languages of blocks that are to be run or read, unless a path stands above them."""


@dataclass(frozen=True, slots=True)
class CodeBlock:
    path: str
    """As the model wrote it; empty where it wrote none."""
    code: str


def code_blocks(answer: str) -> list[CodeBlock]:
    return list(_blocks(with_line_feeds(answer).split("\n")))


def _blocks(lines: list[str]) -> Iterator[CodeBlock]:
    before = ""
    at = 0
    while at < len(lines):
        opened = _FENCE.fullmatch(lines[at].rstrip())
        if opened is None:
            before = lines[at] if lines[at].strip() else before
            at += 1
            continue
        end = next((n for n in range(at + 1, len(lines)) if _closes(lines[n], opened[1])), None)
        code = lines[at + 1 : end]
        path = _path_in(opened[2]) or _path_of(before)
        if not path and code and (comment := _COMMENTED.fullmatch(code[0].strip())) is not None:
            path = _path_of(comment[1])
            code = code[1:] if path else code
        is_code = bool(path) or opened[2].strip().lower() not in _NO_CODE
        if is_code and any(line.strip() for line in code):
            yield CodeBlock(path, "\n".join(code).strip("\n") + "\n")
        before = ""
        at = len(lines) if end is None else end + 1


def _closes(line: str, fence: str) -> bool:
    return line.strip().startswith(fence) and not line.strip().strip(fence[0])


def _path_in(info: str) -> str:
    """Of the fence's line, as in ```python src/shop.py or ```python:src/shop.py."""
    words = re.split(r"[\s:=]+", info)
    return next((word for word in words if "." in word and PATH.fullmatch(word)), "")


def _path_of(line: str) -> str:
    words = line.strip(_MARKS).split()
    return words[-1].strip(_MARKS) if words and PATH.fullmatch(words[-1].strip(_MARKS)) else ""
