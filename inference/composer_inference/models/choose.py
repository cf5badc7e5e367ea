"""Which model `auto` means on this machine, and why."""

from collections.abc import Collection
from dataclasses import dataclass

from composer_inference.hardware import Hardware
from composer_inference.models.catalog import CATALOG, QWEN_CODER_0_5B, QWEN_CODER_1_5B

MIN_CORES = 4
MIN_MEMORY_BYTES = 8_000_000_000
"""What the larger model needs to answer while one types."""


@dataclass(frozen=True, slots=True)
class Choice:
    name: str
    reason: str
    """A sentence for people."""


def choose_model(hardware: Hardware, installed: Collection[str] = ()) -> Choice:
    """The best model for the hardware; if that one is not installed but another suitable one is,
    that other, so that nothing is fetched which the user can do without."""
    best = _for_hardware(hardware)
    if best.name in installed:
        return best
    for spec in CATALOG:
        if spec.roles and spec.name in installed:
            return Choice(
                spec.name, f"it is installed; {best.name} would be chosen otherwise: {best.reason}"
            )
    return best


def _for_hardware(hardware: Hardware) -> Choice:
    cores, memory = hardware.num_compute_cores, hardware.total_memory_bytes
    machine = f"{cores} cores and {memory / 1e9:.0f} GB of memory"
    if cores < MIN_CORES or memory < MIN_MEMORY_BYTES:
        return Choice(
            QWEN_CODER_0_5B.name,
            f"this machine has {machine}; the larger model wants {MIN_CORES} cores and "
            f"{MIN_MEMORY_BYTES / 1e9:.0f} GB to answer while one types",
        )
    return Choice(QWEN_CODER_1_5B.name, f"this machine has {machine}")
