"""What a run did, in order, as far as claims about it can be checked: edits and commands."""

import re
from dataclasses import dataclass

_TEST = re.compile(
    r"""(?x)(?:^|[\s/])(?:
        pytest | py\.test | tox | nox | unittest | nose2 | jest | vitest | mocha | ava
        | rspec | minitest | phpunit | ctest | busted | bats
        | (?:npm|pnpm|yarn|bun|deno|cargo|go|mvn|gradlew?|dotnet|mix|rake|make|just|swift|zig|cabal|
           stack|sbt|bazel|composer)\s+(?:\S+\s+)*?(?:run\s+)?(?:unit)?-?tests?(?:[:\w-]*)
    )(?:$|\s|;|&)"""
)


@dataclass(frozen=True, slots=True)
class CommandRun:
    line: str
    exit_code: int | None
    """None: it was ended by a signal, a time limit or the user."""

    @property
    def is_test(self) -> bool:
        return _TEST.search(self.line) is not None


class Ledger:
    def __init__(self) -> None:
        self._after_edit: list[CommandRun] = []
        self.num_edits = 0
        self.commands: list[CommandRun] = []

    def edited(self) -> None:
        self.num_edits += 1
        self._after_edit = []

    def ran(self, command: CommandRun) -> None:
        self.commands.append(command)
        self._after_edit.append(command)

    @property
    def tests_passed(self) -> bool:
        """Whether a test command ran since the last edit, and each one's last run passed."""
        last: dict[str, bool] = {}
        for command in self._after_edit:
            if command.is_test:
                last[command.line] = command.exit_code == 0
        return bool(last) and all(last.values())
