"""The workspace's files: which there are, which have changed, which come first."""
