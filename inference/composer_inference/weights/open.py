"""A model's files, whatever their format."""

from pathlib import Path

from composer_inference.weights.checkpoint import Checkpoint, CheckpointError
from composer_inference.weights.fp8_checkpoint import Fp8Checkpoint, is_fp8
from composer_inference.weights.gguf_checkpoint import GgufCheckpoint
from composer_inference.weights.safetensors_checkpoint import SafetensorsCheckpoint


def open_checkpoint(path: Path) -> Checkpoint:
    """Of a folder with config.json and safetensors, or of a GGUF file. Raises: CheckpointError."""
    if path.is_dir():
        stored = SafetensorsCheckpoint(path)
        return Fp8Checkpoint(stored) if is_fp8(stored.config) else stored
    if path.suffix == ".gguf":
        return GgufCheckpoint(path)
    raise CheckpointError(
        f"{path} is neither a folder with config.json and safetensors nor a GGUF file"
    )
