"""Composer: a coding model in the editor, on the user's own machine."""

__version__ = "0.1.0"
