"""The agent in an editor's window: its workspace, its runs."""
