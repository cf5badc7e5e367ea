"""Asks in the terminal whether a command may run."""

import sys
from collections.abc import Iterator

from composer_index.printable import printable
from composer_lsp.agent.commands import Answer, Question
from composer_lsp.cli.terminal import read_key

_ANSWERS: dict[str, Answer] = {"o": "once", "s": "session", "a": "always", "d": "deny"}
_LEAVES = frozenset({"", "\x03", "\x04", "\x1b"})
"""End of input, and the keys by which people leave: they deny."""


class TerminalApprover:
    """Implements `Approver`, for a terminal that can be asked (`can_ask`)."""

    async def approve(self, question: Question) -> Answer:
        print("\n".join(_lines(question)), file=sys.stderr)
        choices = "[o]nce, for this [s]ession, [a]lways, [d]eny"
        if not question.rules:
            choices = "[o]nce, for this [s]ession, [d]eny"
        while True:
            key = (await read_key(f"Run it? {choices}: ")).lower()
            answer = "deny" if key in _LEAVES else _ANSWERS.get(key)
            if answer == "always" and not question.rules:
                answer = None
            print(answer or "?", file=sys.stderr)
            if answer is not None:
                return answer


def _lines(question: Question) -> Iterator[str]:
    verdict = question.verdict
    yield ""
    yield "The model wants to run:"
    yield from (f"    {printable(line)}" for line in question.command.line.split("\n"))
    yield f"in {printable(str(question.place.cwd))}"
    part = f"`{printable(verdict.part)}` " if verdict.part else "it "
    yield f"You are asked because {part}{printable(verdict.reason)}."
    if question.place.is_sandboxed:
        more = f", and with {verdict.access}" if str(verdict.access) else " and no network"
        yield f"It would run in a sandbox, with the workspace{more}."
    else:
        yield "It would run WITHOUT a sandbox, with all that you may do on this machine."
    if question.rules:
        yield "Always would add to your rules for this folder:"
        yield from (f"    {printable(str(rule))}" for rule in question.rules)
