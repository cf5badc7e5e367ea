"""Asking the user: what is asked, what may be answered, and what is remembered of it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from composer_lsp.agent.commands.access import Access
from composer_lsp.agent.commands.command import Command, Program
from composer_lsp.agent.commands.policy import Place, Policy, Verdict
from composer_lsp.agent.commands.rules import Rule, exact_rule

Answer = Literal["once", "session", "always", "deny"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A command that the user is asked about."""

    command: Command
    verdict: Verdict
    """Why it is asked, and what access the command gets."""
    place: Place
    rules: tuple[Rule, ...]
    """What `always` adds to the user's rules."""


class Approver(Protocol):
    async def approve(self, question: Question) -> Answer: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Permission:
    is_granted: bool
    reason: str
    """Why not, for the model; or why it was granted."""
    access: Access


@dataclass(frozen=True, slots=True)
class _Approved:
    """What an approval for the session is bound to."""

    line: str
    cwd: Path
    access: Access
    is_sandboxed: bool


class Approvals:
    """Decides whether a command runs, and asks where the policy says so. One question at a time."""

    def __init__(
        self,
        policy: Policy,
        approver: Approver | None,
        *,
        store: Callable[[Rule], None] = lambda rule: None,
    ) -> None:
        """`approver`: None where nobody can answer, and what would be asked is denied. `store`:
        keeps a rule that the user answered `always` with; here it holds until the end."""
        self.policy = policy
        self._approver = approver
        self._store = store
        self._session: set[_Approved] = set()
        self._asking = asyncio.Lock()

    async def check(self, command: Command, place: Place, wanted: Access) -> Permission:
        """Whether a line may run in a place, with what access. Asks the user where the policy says
        so, one question at a time; where nobody can be asked, the answer is no."""
        async with self._asking:
            verdict = self.policy.decide(command, place, wanted=wanted)
            if verdict.decision == "deny":
                return _refused(verdict, "it is not allowed")
            approved = _Approved(
                command.line.strip(), place.cwd, verdict.access, place.is_sandboxed
            )
            if verdict.decision == "allow" or approved in self._session:
                return Permission(is_granted=True, reason=verdict.reason, access=verdict.access)
            if self._approver is None:
                return _refused(verdict, "it needs an approval, and nobody can be asked")
            question = Question(
                command=command,
                verdict=verdict,
                place=place,
                rules=rules_for(command, self.policy, place),
            )
            answer = await self._approver.approve(question)
            return self._answered(answer, question, approved)

    def _answered(self, answer: Answer, question: Question, approved: _Approved) -> Permission:
        verdict = question.verdict
        if answer == "deny":
            return _refused(verdict, "the user has denied it")
        if answer in ("session", "always"):
            self._session.add(approved)
        if answer == "always":
            for rule in question.rules:
                self._store(rule)
            self.policy = Policy((*self.policy.rules, *question.rules))
        return Permission(is_granted=True, reason="the user has allowed it", access=verdict.access)


def rules_for(command: Command, policy: Policy, place: Place) -> tuple[Rule, ...]:
    """The narrowest rules with which the command would not be asked about again: one for each
    program that asks, with just its arguments; or one for the whole line, where the programs alone
    do not decide. None without a sandbox, where no rule allows anything."""
    if not place.is_sandboxed:
        return ()
    rules = [
        exact_rule("allow", program)
        for program in command.programs
        if _asks(program, policy, place)
    ]
    known = tuple(rule for rule in rules if rule is not None)
    extended = Policy((*policy.rules, *known))
    if len(known) == len(rules) and extended.decide(command, place).decision == "allow":
        return known
    return (Rule("allow", f"= {command.line.strip()}"),)


def _asks(program: Program, policy: Policy, place: Place) -> bool:
    alone = Command(line=str(program), programs=(program,))
    return policy.decide(alone, place).decision != "allow"


def _refused(verdict: Verdict, why: str) -> Permission:
    part = f"`{verdict.part}` " if verdict.part else "the command "
    return Permission(
        is_granted=False, reason=f"not run: {why}; {part}{verdict.reason}", access=verdict.access
    )
