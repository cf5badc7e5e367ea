"""The user's rules for commands: those of his settings, and those that he answered `always` with.

The latter are kept for each workspace in a file of its own, which a person may read and change:

    {"root": "/home/me/shop", "rules": ["allow pytest *"]}
"""

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

from composer_index.store.location import store_location
from composer_lsp.agent.commands import Approvals, Approver, Policy, Rule, RuleError
from composer_lsp.agent.commands.rules import Decision
from composer_lsp.agent.workspace.directory import write_whole

logger = logging.getLogger(__name__)

_DECISIONS: tuple[str, ...] = get_args(Decision)
_MODE = 0o600


class RulesFileError(Exception):
    """A file of rules cannot be read or written; the text names it."""


def parse_rule(text: str) -> Rule:
    """A rule as it is written down: `allow pytest *`. Raises: RuleError."""
    decision, _, pattern = text.strip().partition(" ")
    if decision not in _DECISIONS:
        raise RuleError(f"the rule {text!r} must begin with {', '.join(_DECISIONS)}")
    return Rule(cast("Decision", decision), pattern.strip())


@dataclass(frozen=True, slots=True)
class RulesFile:
    path: Path
    root: Path
    """The workspace's first folder."""

    @classmethod
    def of(cls, state: Path, root: Path) -> "RulesFile":
        """`state`: the folder of the user's state."""
        # A folder's name in the state folder is the one that its index has in the cache.
        name = store_location(state, root).name
        return cls(state / "command-rules" / f"{name}.json", root)

    def read(self) -> tuple[list[Rule], list[str]]:
        """The rules, and what is wrong with others of the file."""
        try:
            written = self._written()
        except RulesFileError as error:
            return [], [f"{error}; no rule of it holds"]
        rules: list[Rule] = []
        problems: list[str] = []
        for text in written:
            try:
                rules.append(parse_rule(text))
            except RuleError as error:
                problems.append(f"{self.path}: {error}")
        return rules, problems

    def add(self, rule: Rule) -> None:
        """Raises: RulesFileError; what is there already stays."""
        written = self._written()
        if str(rule) in written:
            return
        values = {"root": str(self.root), "rules": [*written, str(rule)]}
        data = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self.path, data.encode(), _MODE)
        except OSError as error:
            raise RulesFileError(f"{self.path} cannot be written: {error.strerror}") from error

    def _written(self) -> list[str]:
        try:
            values: Any = json.loads(self.path.read_bytes())
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise RulesFileError(f"{self.path} cannot be read: {error}") from error
        rules: Any = cast("dict[str, Any]", values).get("rules") if isinstance(values, dict) else 0
        if not isinstance(rules, list) or not all(
            isinstance(each, str) for each in cast("list[Any]", rules)
        ):
            raise RulesFileError(f"{self.path} must hold an object with a list of strings, `rules`")
        return cast("list[str]", rules)


class Permissions:
    """What commands may do in one workspace, for as long as a window or a terminal's command lasts:
    the user's rules and his answers. Event loop only; runs share it."""

    def __init__(self, file: RulesFile | None = None, approver: Approver | None = None) -> None:
        """`file`: where `always` is kept; None: it holds as long as this does. `approver`: None
        where nobody can answer, and what would be asked is refused."""
        self._file = file
        self._added: list[Rule] = []
        self.approvals = Approvals(Policy(), approver, store=self._keep)

    def refresh(self, rules: Sequence[Rule]) -> list[str]:
        """Take the settings' rules and the file's, as they are now. What is wrong with the file."""
        kept, problems = self._file.read() if self._file else ([], [])
        self.approvals.policy = Policy((*rules, *kept, *self._added))
        return problems

    def _keep(self, rule: Rule) -> None:
        self._added.append(rule)
        if self._file is None:
            return
        try:
            self._file.add(rule)
        except RulesFileError as error:
            logger.warning("a rule holds only until the end of this session: %s", error)
