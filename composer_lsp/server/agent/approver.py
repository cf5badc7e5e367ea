"""Asks the user by the editor's own message box: about commands, and about tool servers."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from composer_lsp.agent.commands import Answer, Question
from composer_lsp.agent.mcp.approval import ServerQuestion

ONCE = "Run once"
SESSION = "Allow for this session"
ALWAYS = "Always allow"
DENY = "Deny"

_ANSWERS: Mapping[str, Answer] = {
    ONCE: "once",
    SESSION: "session",
    ALWAYS: "always",
    DENY: "deny",
}
MAX_SHOWN_CHARS = 700
"""Of a line: VS Code cuts a message off after 1,000 characters, and nothing may hide behind that."""


class AskingEditor(Protocol):
    """What it needs of the editor."""

    async def ask(self, question: str, *answers: str) -> str | None:
        """The answer that was chosen; None: none was, the editor cannot ask, or it failed."""
        ...

    def log(self, message: str) -> None: ...


class EditorApprover:
    """An `Approver` and a `ServerApprover`, shared by the runs of a window: one question at a time."""

    def __init__(self, editor: AskingEditor) -> None:
        self._editor = editor
        self._asking = asyncio.Lock()

    async def approve(self, question: Question) -> Answer:
        async with self._asking:
            line = question.command.line
            answers = [ONCE, SESSION, ALWAYS, DENY]
            if not question.rules:
                answers.remove(ALWAYS)  # no rule allows it, so it would be asked again
            if len(_visible(line)) > MAX_SHOWN_CHARS:
                self._editor.log(f"The command that is asked about, whole:\n{_visible(line)}")
                answers = [ONCE, DENY]
            return await self._asked(question_text(question), answers)

    async def approve_server(self, question: ServerQuestion) -> Answer:
        async with self._asking:
            if question.summary != question.text:
                self._editor.log(f"What is asked about a tool server, whole:\n{question.text}")
            answers = [title for title, answer in _ANSWERS.items() if answer in question.choices]
            return await self._asked(question.summary, answers)

    async def _asked(self, text: str, answers: Sequence[str]) -> Answer:
        chosen = await self._editor.ask(text, *answers)
        return _ANSWERS.get(chosen or DENY, "deny") if chosen in answers else "deny"


def question_text(question: Question) -> str:
    """What is asked: the line to the letter, where, why, and what it would get."""
    verdict, place = question.verdict, question.place
    part = f"`{_visible(verdict.part)}` " if verdict.part else "It "
    access = str(verdict.access)
    sentences = [
        f"{part}{verdict.reason}.",
        f"It would get {access}." if access else "",
        "" if place.is_sandboxed else "There is no sandbox around it.",
    ]
    lines = [
        f"Composer wants to run in {place.cwd}:",
        _shortened(_visible(question.command.line)),
        " ".join(each for each in sentences if each),
    ]
    if question.rules:
        rules = "; ".join(_visible(str(rule)) for rule in question.rules)
        lines.append(f"“{ALWAYS}” adds: {_shortened(rules)}")
    return "\n".join(lines)


def _visible(text: str) -> str:
    """With a sign for each line's end, which message boxes swallow, and escapes for characters that
    would not be seen or would change the order of others."""
    return "".join(_visible_character(each) for each in text)


def _visible_character(character: str) -> str:
    if character == "\n":
        return "⏎\n"
    if character == "\t" or character.isprintable():
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def _shortened(text: str) -> str:
    if len(text) <= MAX_SHOWN_CHARS:
        return text
    half = MAX_SHOWN_CHARS // 2
    num_hidden = len(text) - 2 * half
    middle = f" … {num_hidden:,} characters are left out here; Composer's log shows all … "
    return text[:half] + middle + text[-half:]
