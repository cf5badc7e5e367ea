"""What the model can call. Each tool is a function whose signature is its schema."""
