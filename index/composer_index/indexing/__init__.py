"""Bringing a root's store up to date with its files."""
