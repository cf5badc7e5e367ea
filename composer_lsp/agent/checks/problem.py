"""What a linter says of a line."""

import re
from dataclasses import dataclass

from composer_lsp.agent.workspace.workspace import Severity

_LINE_NUMBER = re.compile(r"(?i)\b(lines?|columns?|at) \d+(?::\d+)*|:\d+:\d+")
_MAX_MESSAGE_CHARS = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    path: str
    """As the linter wrote it: absolute, or relative to the folder that it ran in; of what is shown,
    the workspace's."""
    line: int
    """1-based."""
    code: str
    """The rule; empty where the linter names none."""
    message: str
    """One line or several."""
    severity: Severity = "error"
    source: str = ""
    """The linter's name."""

    @property
    def key(self) -> tuple[str, str]:
        """The same for the same problem on another line."""
        return self.code, _LINE_NUMBER.sub(r"\1", self.message)

    def __str__(self) -> str:
        message = self.message.splitlines()[0][:_MAX_MESSAGE_CHARS] if self.message else ""
        said = f"{self.code} {message}".strip()
        return f"{self.path}:{self.line}: {said} ({self.source})"
