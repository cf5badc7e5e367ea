"""Edits that keep every byte they do not touch: texts, hunks, changes to several files."""
