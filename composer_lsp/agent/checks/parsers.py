"""What linters print, read into problems. Paths stay as they were printed."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from composer_lsp.agent.checks.problem import Problem
from composer_lsp.agent.workspace.workspace import Severity

Parser = Callable[[str], Iterator[Problem]]
"""Of all that a linter printed. Raises: OutputError."""

_SEVERITIES: dict[str, Severity] = {
    **dict.fromkeys(("note", "info", "information", "notice", "hint"), "information"),
    **dict.fromkeys(("warning", "convention", "refactor", "w", "c", "r", "i"), "warning"),
}


class OutputError(Exception):
    """The output is not what the linter prints when it has done its work."""


def by_pattern(pattern: str) -> Parser:
    """A problem for each line that matches. Groups: `path`, `line`, `message`, and where there are
    any `code` and `severity`."""
    compiled = re.compile(pattern, re.MULTILINE)

    def parse(output: str) -> Iterator[Problem]:
        for match in compiled.finditer(output):
            groups = match.groupdict()
            yield Problem(
                path=groups["path"],
                line=int(groups["line"]),
                code=groups.get("code") or "",
                message=groups["message"].strip(),
                severity=_severity(groups.get("severity")),
            )

    return parse


def ruff(output: str) -> Iterator[Problem]:
    """`ruff check --output-format json-lines`: an object a line."""
    for line in output.splitlines():
        if line.startswith("{"):
            found = _json(line)
            yield Problem(
                path=found["filename"],
                line=found["location"]["row"],
                code=found["code"] or "",
                message=found["message"],
            )


def pyright(output: str) -> Iterator[Problem]:
    """`pyright --outputjson`; its lines count from 0."""
    for found in _json(output)["generalDiagnostics"]:
        yield Problem(
            path=found.get("file", ""),
            line=found["range"]["start"]["line"] + 1 if "range" in found else 1,
            code=found.get("rule", ""),
            message=found["message"],
            severity=_severity(found["severity"]),
        )


def eslint(output: str) -> Iterator[Problem]:
    """`eslint --format json`. That a file is ignored, which it says without a rule, is no problem."""
    files: Sequence[Mapping[str, Any]] = _json(output)
    for file in files:
        for found in file["messages"]:
            if found["ruleId"] is None and not found.get("fatal"):
                continue
            yield Problem(
                path=file["filePath"],
                line=found.get("line") or 1,
                code=found["ruleId"] or "",
                message=found["message"],
                severity="error" if found["severity"] == 2 else "warning",
            )


def rubocop(output: str) -> Iterator[Problem]:
    """`rubocop --format json`."""
    for file in _json(output)["files"]:
        for found in file["offenses"]:
            code = found["cop_name"]
            yield Problem(
                path=file["path"],
                line=found["location"]["line"],
                code=code,
                message=found["message"].removeprefix(f"{code}: "),
                severity=_severity(found["severity"]),
            )


def phpstan(output: str) -> Iterator[Problem]:
    """`phpstan analyse --error-format=json`. Of no files it prints a list, of some an object."""
    files: Mapping[str, Any] = _json(output)["files"] or {}
    for path, file in files.items():
        for found in file["messages"]:
            yield Problem(
                path=path,
                line=found["line"] or 1,
                code=found.get("identifier") or "",
                message=found["message"],
            )


def _json(text: str) -> Any:
    """The first JSON value of the text. Raises: OutputError."""
    start = re.search(r"[{\[]", text)
    if start is None:
        raise OutputError("it printed nothing that can be read")
    try:
        return json.JSONDecoder().raw_decode(text, start.start())[0]
    except (ValueError, RecursionError) as error:
        raise OutputError(f"what it printed is no JSON: {error}") from error


def _severity(name: str | None) -> Severity:
    return _SEVERITIES.get((name or "error").lower(), "error")
