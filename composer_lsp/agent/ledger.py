"""What a run did, in order, as far as claims about it can be checked: edits and commands."""

from dataclasses import dataclass

from composer_lsp.agent.testing_lines import runs_tests, tells_of_tests


@dataclass(frozen=True, slots=True)
class CommandRun:
    line: str
    exit_code: int | None
    """None: it was ended by a signal, a time limit or the user."""
    ran_none: bool = False
    """Its output says that no test ran."""

    @property
    def is_test(self) -> bool:
        return runs_tests(self.line)

    @property
    def tells_of_tests(self) -> bool:
        """Whether the exit code is zero only if the tests passed."""
        return tells_of_tests(self.line)

    @property
    def has_passed(self) -> bool:
        return self.exit_code == 0 and self.tells_of_tests and not self.ran_none


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
        """Whether a test command ran since the last edit, and each one's last run passed. One that ran
        no test says nothing."""
        last = {
            each.line: each.has_passed
            for each in self._after_edit
            if each.is_test and not (each.exit_code == 0 and each.ran_none)
        }
        return bool(last) and all(last.values())
