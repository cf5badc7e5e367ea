"""The next edit in a window: what is asked, what was given, what became of it."""

from composer_lsp.server.next_edit.next_edits import Given, NextEdits, Request

__all__ = ["Given", "NextEdits", "Request"]
