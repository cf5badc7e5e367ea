"""Shell commands of the agent: what a line would run, whether it may, and running it."""

from composer_lsp.agent.commands.access import Access
from composer_lsp.agent.commands.approval import Answer, Approvals, Approver, Permission, Question
from composer_lsp.agent.commands.background import (
    BackgroundCommand,
    BackgroundCommands,
    BackgroundError,
)
from composer_lsp.agent.commands.bubblewrap import SandboxError
from composer_lsp.agent.commands.command import Command
from composer_lsp.agent.commands.outcome import Offer
from composer_lsp.agent.commands.parse import parse
from composer_lsp.agent.commands.policy import Place, Policy, Verdict
from composer_lsp.agent.commands.rules import Rule, RuleError
from composer_lsp.agent.commands.run import CommandResult
from composer_lsp.agent.commands.runner import CommandRunner, RefusedError
from composer_lsp.agent.commands.sandbox import SandboxSettings
from composer_lsp.agent.commands.shell import Limits
from composer_lsp.agent.commands.staging import Staged

__all__ = [
    "Access",
    "Answer",
    "Approvals",
    "Approver",
    "BackgroundCommand",
    "BackgroundCommands",
    "BackgroundError",
    "Command",
    "CommandResult",
    "CommandRunner",
    "Limits",
    "Offer",
    "Permission",
    "Place",
    "Policy",
    "Question",
    "RefusedError",
    "Rule",
    "RuleError",
    "SandboxError",
    "SandboxSettings",
    "Staged",
    "Verdict",
    "parse",
]
