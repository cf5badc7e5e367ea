"""What the agent works on: files by their paths, through an editor or on a disk."""
