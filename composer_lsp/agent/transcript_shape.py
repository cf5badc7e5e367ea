"""What a transcript's lines have to hold, so that whoever reads one need not look: a file on a disk can be
damaged, or another program's. Fields that were once not written may be missing."""

import re
from typing import Any

_LAST_S = 253_402_300_799
"""The end of the year 9999, which no calendar here goes beyond."""
_HEXADECIMAL = re.compile(r"(?:[0-9a-f]{2})*")


def is_header(line: Any) -> bool:
    match line:
        case {"id": str(), "mode": str(), "request": str(), "roots": [*roots], **rest}:
            began: Any = rest.get("began", 0.0)
            texts = (rest.get(name, "") for name in ("model", "base_commit", "dirty_diff"))
            return (
                all(isinstance(each, str) for each in (*roots, *texts))
                and isinstance(began, int | float)
                and 0 <= began <= _LAST_S
            )
        case _:
            return False


def is_entry(line: Any) -> bool:
    """Of a line after the header. Kinds that nobody goes on from may hold what they like."""
    match line:
        case {"kind": "message", "message": message}:
            return _is_message(message)
        case {"kind": "context", "messages": [*messages]}:
            return all(map(_is_message, messages))
        case {"kind": "changes", "files": [*files]}:
            return all(map(_is_file, files))
        case {"kind": "state", "reads": {**reads}, "commands": [*commands], "plan": [*steps]}:
            return (
                all(map(_is_read, reads.values()))
                and all(map(_is_command, commands))
                and all(map(_is_step, steps))
            )
        case {"kind": "verdict", "path": str(), "accepted": [*_], "rejected": [*_]}:
            return True
        case {"kind": "end", "status": str(), "text": str(), "problems": [*problems]}:
            return all(map(_is_problem, problems))
        case {"kind": "message" | "context" | "changes" | "state" | "verdict" | "end"}:
            return False
        case {"kind": str()}:
            return True
        case _:
            return False


def _is_message(message: Any) -> bool:
    match message:
        case {"role": "system" | "user", "content": str()}:
            return True
        case {"role": "assistant", "tool_calls": [*calls], **rest}:
            return isinstance(rest.get("content"), str | None) and all(map(_is_call, calls))
        case {"role": "assistant", "content": str(), **rest}:
            return "tool_calls" not in rest
        case {"role": "tool", "tool_call_id": str(), "content": str()}:
            return True
        case _:
            return False


def _is_call(call: Any) -> bool:
    match call:
        case {"id": str(), "function": {"name": str(), "arguments": str()}}:
            return True
        case _:
            return False


def _is_file(file: Any) -> bool:
    match file:
        case {
            "path": str(),
            "moved_from": str() | None,
            "before": str() | None,
            "after": str() | None,
            **rest,
        }:
            return (
                _is_form(rest.get("like"))
                and isinstance(rest.get("mode"), int | None)
                and isinstance(rest.get("link"), str | None)
            )
        case _:
            return False


def _is_form(like: Any) -> bool:
    match like:
        case None:
            return True
        case [str(), str(mark)]:
            return _HEXADECIMAL.fullmatch(mark) is not None
        case _:
            return False


def _is_read(read: Any) -> bool:
    match read:
        case {"lines": [*ranges], "num_lines": int() | None, "digest": str() | None}:
            return all(map(_is_range, ranges))
        case _:
            return False


def _is_range(lines: Any) -> bool:
    match lines:
        case [int(), int()]:
            return True
        case _:
            return False


def _is_command(command: Any) -> bool:
    match command:
        case {"line": str(), "exit_code": int() | None, **rest}:
            return isinstance(rest.pop("ran_none", False), bool) and not rest
        case _:
            return False


def _is_step(step: Any) -> bool:
    match step:
        case {"text": str(), "state": "todo" | "doing" | "done", **rest}:
            return not rest
        case _:
            return False


def _is_problem(problem: Any) -> bool:
    match problem:
        case [str(), str()]:
            return True
        case _:
            return False
