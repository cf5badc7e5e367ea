"""Answers about the workspace: by words and meaning, by name, by place; cold or warm."""
