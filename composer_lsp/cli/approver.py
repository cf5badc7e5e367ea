"""Asks in the terminal: about commands, and about tool servers."""

import sys
from collections.abc import Iterator, Mapping, Sequence

from composer_index.printable import printable
from composer_lsp.agent.commands import Answer, Question
from composer_lsp.agent.mcp.approval import ServerQuestion
from composer_lsp.cli.terminal import read_key

_ANSWERS: Mapping[str, Answer] = {
    "o": "once",
    "s": "session",
    "a": "always",
    "d": "deny",
    "n": "deny",
}
_NAMES: Mapping[Answer, str] = {
    "once": "[o]nce",
    "session": "for this [s]ession",
    "always": "[a]lways",
    "deny": "[d]eny",
}
_WITHOUT_RULES: tuple[Answer, ...] = ("once", "session", "deny")
_LEAVES = frozenset({"", "\x03", "\x04", "\x1b"})
"""End of input, and the keys by which people leave: they deny."""


class TerminalApprover:
    """Implements `Approver` and `ServerApprover`, for a terminal that can be asked (`can_ask`)."""

    async def approve(self, question: Question) -> Answer:
        print("\n".join(_lines(question)), file=sys.stderr)
        return await _answer("Run it?", tuple(_NAMES) if question.rules else _WITHOUT_RULES)

    async def approve_server(self, question: ServerQuestion) -> Answer:
        print("", *map(printable, question.text.split("\n")), sep="\n", file=sys.stderr)
        return await _answer("Allow it?", question.choices)


async def _answer(question: str, choices: Sequence[Answer]) -> Answer:
    names = ", ".join(_NAMES[choice] for choice in choices)
    while True:
        key = (await read_key(f"{question} {names}: ")).lower()
        answer = "deny" if key in _LEAVES else _ANSWERS.get(key)
        is_offered = answer in choices
        print(answer if is_offered else "?", file=sys.stderr)
        if answer is not None and is_offered:
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
