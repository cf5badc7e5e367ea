"""Runs of a small model, which the harness leads through a change (`composer_lsp.agent.guidance`)."""

from composer_lsp.agent.led.run import LedRun

__all__ = ["LedRun"]
