"""Which model `auto` means on this machine."""

from collections.abc import Collection
from dataclasses import dataclass

from composer_inference.hardware import Hardware
from composer_inference.models.catalog import (
    CATALOG,
    QWEN_CODER_0_5B,
    QWEN_CODER_1_5B,
    ModelSpec,
)

_MIN_CORES = 4
_MIN_MEMORY_BYTES = 7_500_000_000
"""A machine that is sold with 8 GB reports a little less than 8e9."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    name: str
    reason: str
    """One sentence for the user."""


def recommend_model(hardware: Hardware) -> Choice:
    """What suits the hardware, installed or not; this is what `model pull` without a name
    fetches."""
    cores, memory = hardware.num_usable_cores, hardware.total_memory_bytes
    machine = f"{cores} usable cores and {memory / 1e9:.0f} GB of memory"
    larger = QWEN_CODER_1_5B.name
    if cores < _MIN_CORES or memory < _MIN_MEMORY_BYTES:
        wants = f"{larger} wants {_MIN_CORES} cores and 8 GB to keep up with typing"
        return Choice(name=QWEN_CODER_0_5B.name, reason=f"this machine has {machine}; {wants}")
    return Choice(name=larger, reason=f"this machine has {machine}, enough to keep up with typing")


def choose_model(hardware: Hardware, installed: Collection[str]) -> Choice:
    """What `auto` means, given the names of the installed models.

    The recommended model if it is installed or nothing else would do; else the nearest in size of
    the installed ones that the catalogue holds fit for code: a suggestion now is worth more than a
    better one after a download, and the reason names the better one. Files that the user registered
    are never chosen, for nothing is known of them: a setting names them.
    """
    best = recommend_model(hardware)
    if best.name in installed:
        return best
    fit = [spec for spec in CATALOG if "tab" in spec.roles and spec.name in installed]
    if not fit:
        return best
    spec = min(fit, key=lambda spec: abs(spec.size_bytes - _spec(best.name).size_bytes))
    return Choice(
        name=spec.name,
        reason=(
            f"it is installed; composer-lsp model pull {best.name} fetches the one that suits "
            f"better: {best.reason}"
        ),
    )


def next_smaller(name: str, installed: Collection[str]) -> str | None:
    """The largest installed model for Tab that is smaller than `name`; None where there is none, or
    nothing is known of `name`."""
    sizes = {spec.name: spec.size_bytes for spec in CATALOG if "tab" in spec.roles}
    if name not in sizes:
        return None
    smaller = [each for each in sizes if each in installed and sizes[each] < sizes[name]]
    return max(smaller, key=lambda each: sizes[each], default=None)


def _spec(name: str) -> ModelSpec:
    return next(spec for spec in CATALOG if spec.name == name)
