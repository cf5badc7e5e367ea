"""Composer's inference engine: one process a machine, shared by every editor window."""
