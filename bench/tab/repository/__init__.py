"""Holes in real packages, filled with and without the rest of the package at hand."""
