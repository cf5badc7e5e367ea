"""Calls that a model wrote into its text, in the format that it was trained on."""
