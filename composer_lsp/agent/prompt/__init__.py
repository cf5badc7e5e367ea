"""What the model is told before it begins."""
