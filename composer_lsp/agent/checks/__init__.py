"""What is looked at after the agent's edits: linters, syntax, and functions that exist already."""

from composer_lsp.agent.checks.checks import EditChecks, make_checks
from composer_lsp.agent.checks.linters import LINTERS, Linter
from composer_lsp.agent.checks.runner import CheckResult, RunsChecks

__all__ = ["LINTERS", "CheckResult", "EditChecks", "Linter", "RunsChecks", "make_checks"]
