"""What this machine has to compute with."""

import os
from dataclasses import dataclass
from pathlib import Path

import psutil

_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True, kw_only=True, slots=True)
class Hardware:
    num_physical_cores: int
    num_usable_cores: int
    """Cores that this process may use: its affinity, within its container's quota."""
    total_memory_bytes: int
    """Of the machine, or of its container if that is smaller."""
    available_memory_bytes: int

    @property
    def num_compute_cores(self) -> int:
        """Physical cores that this process may use; more threads than these slow each other."""
        return max(1, min(self.num_physical_cores, self.num_usable_cores))


def read_hardware(cgroup: Path = _CGROUP) -> Hardware:
    """Reads it afresh; costs about a millisecond."""
    memory = psutil.virtual_memory()
    limit = _number(cgroup / "memory.max") or memory.total
    logical = os.cpu_count() or 1
    return Hardware(
        num_physical_cores=psutil.cpu_count(logical=False) or logical,
        num_usable_cores=_usable_cores(cgroup, logical),
        total_memory_bytes=min(memory.total, limit),
        available_memory_bytes=min(memory.available, limit),
    )


def _usable_cores(cgroup: Path, logical: int) -> int:
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else logical
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()
        allowed = round(int(quota) / int(period))
    except (OSError, ValueError):  # No cgroup, or its quota is "max".
        allowed = affinity
    return max(1, min(affinity, allowed))


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
