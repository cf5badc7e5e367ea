"""Tool servers of the Model Context Protocol: asked about, started, and their tools offered."""
