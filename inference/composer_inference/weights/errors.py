"""What is wrong with a model's files. Knows no torch: tokenizers are read without it."""

from composer_inference.backends.base import BackendError


class CheckpointError(BackendError):
    """A model's files cannot be used; the message names the file or tensor and the way out."""
