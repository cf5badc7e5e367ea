"""Imports for names that an accepted suggestion uses: which it lacks, from where, and where they go."""
