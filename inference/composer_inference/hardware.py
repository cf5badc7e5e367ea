"""What this machine offers to a model, read cheaply: no GPU library is loaded.

The operating system's counts are not what a process may use: CPU affinity and the quotas of control
groups (containers, systemd slices) take away from them.
"""

import math
import os
import platform
from dataclasses import dataclass
from pathlib import Path

import psutil

_CPU_FEATURES = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "asimddp", "i8mm")
"""Those that llama.cpp has kernels for, in Linux's spelling."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Hardware:
    system: str
    """Such as Linux or Darwin."""
    machine: str
    """Such as x86_64 or arm64."""
    cpu: str
    """The processor's name, "" where it is not told."""
    cpu_features: tuple[str, ...]
    """Vector extensions that speed up inference; empty where they are not told."""
    num_physical_cores: int
    """Of the machine; a core with two hardware threads counts once."""
    num_usable_cores: int
    """Physical cores that this process may keep busy, by affinity and quota; at least 1."""
    total_memory_bytes: int
    """Of the machine, or of the control group if that is less."""
    available_memory_bytes: int
    """What can be had without swapping, within the control group's limit."""
    gpus: tuple[str, ...]
    """Names of the GPUs whose drivers are loaded."""


def read_hardware(root: Path = Path("/")) -> Hardware:
    """Read it afresh; available memory changes. `root` stands for the file system's in tests."""
    physical = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    memory = psutil.virtual_memory()
    groups = _control_groups(root)
    limit = _memory_limit(groups)
    cpu, features = _processor(root)
    return Hardware(
        system=platform.system(),
        machine=platform.machine(),
        cpu=cpu,
        cpu_features=features,
        num_physical_cores=physical,
        num_usable_cores=_usable_cores(root, physical, _cpu_quota(groups)),
        total_memory_bytes=min(memory.total, limit.total_bytes if limit else memory.total),
        available_memory_bytes=min(memory.available, limit.free_bytes if limit else memory.total),
        gpus=_gpus(root),
    )


def _usable_cores(root: Path, physical: int, quota: float) -> int:
    if not hasattr(os, "sched_getaffinity"):
        return max(1, min(physical, _floor(quota)))
    cores = {_core_of(root, cpu) for cpu in os.sched_getaffinity(0)}
    return max(1, min(len(cores), physical, _floor(quota)))


def _core_of(root: Path, cpu: int) -> tuple[str, str]:
    """The physical core behind a logical one; itself where the system does not tell."""
    topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
    package, core = _read(topology / "physical_package_id"), _read(topology / "core_id")
    return (package, core) if core else ("", str(cpu))


def _floor(quota: float) -> int:
    # A thread more than the quota pays for is throttled in the middle of every token.
    return 1 << 30 if math.isinf(quota) else max(1, math.floor(quota))


@dataclass(frozen=True, slots=True)
class _MemoryLimit:
    total_bytes: int
    free_bytes: int


def _control_groups(root: Path) -> list[Path]:
    """Folders of the control groups that this process is in, each with its ancestors. Inside a
    container the path that the kernel tells may not exist; the mount's top is then the group."""
    folders: dict[Path, None] = {}
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        mounts = [root / "sys/fs/cgroup" / name for name in controllers.split(",")]
        for mount in mounts:
            group = mount / path.lstrip("/")
            for folder in (group, *group.parents):
                if folder.is_relative_to(mount):
                    folders[folder] = None
    return [folder for folder in folders if folder.is_dir()]


def _cpu_quota(groups: list[Path]) -> float:
    """Cores that the tightest quota pays for; infinity without one."""
    quotas = [math.inf]
    for group in groups:
        words = _read(group / "cpu.max").split()  # version 2: quota or "max", and the period
        if len(words) != 2:
            words = [_read(group / "cpu.cfs_quota_us"), _read(group / "cpu.cfs_period_us")]
        quota, period = (_integer(word) for word in words)
        if quota is not None and quota > 0 and period:
            quotas.append(quota / period)
    return min(quotas)


def _memory_limit(groups: list[Path]) -> _MemoryLimit | None:
    """The tightest one. Version 1 writes "no limit" as a number greater than any memory."""
    limits: list[_MemoryLimit] = []
    for group in groups:
        for limit_file, usage_file in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            total, used = _integer(_read(group / limit_file)), _integer(_read(group / usage_file))
            if total is not None and used is not None:
                used -= _reclaimable(group)
                limits.append(_MemoryLimit(total, max(0, total - max(0, used))))
    return min(limits, key=lambda limit: limit.free_bytes, default=None)


def _reclaimable(group: Path) -> int:
    """Bytes of cached files, which count as used and are given up on demand."""
    for line in _read(group / "memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name in {"inactive_file", "total_inactive_file"}:
            return _integer(value) or 0
    return 0


def _processor(root: Path) -> tuple[str, tuple[str, ...]]:
    fields: dict[str, str] = {}
    for line in _read(root / "proc/cpuinfo").splitlines():
        if not line.strip() and fields:
            break  # the first core speaks for all
        name, _, value = line.partition(":")
        fields[name.strip()] = value.strip()
    flags = set(fields.get("flags", fields.get("Features", "")).split())
    name = fields.get("model name") or platform.processor()
    return name, tuple(feature for feature in _CPU_FEATURES if feature in flags)


def _gpus(root: Path) -> tuple[str, ...]:
    nvidia = sorted((root / "proc/driver/nvidia/gpus").glob("*/information"))
    names = [_nvidia_name(_read(path)) for path in nvidia]
    if not names and (root / "dev/nvidia0").exists():
        names.append("NVIDIA GPU")  # containers often hide the folder above
    if (root / "dev/kfd").exists():
        names.append("AMD GPU")
    if platform.system() == "Darwin" and platform.machine() == "arm64":
        names.append("Apple GPU")
    return tuple(names)


def _nvidia_name(information: str) -> str:
    for line in information.splitlines():
        name, _, value = line.partition(":")
        if name == "Model":
            return value.strip()
    return "NVIDIA GPU"


def _integer(text: str) -> int | None:
    return int(text) if text.strip().lstrip("-").isdecimal() else None


def _read(path: Path) -> str:
    """The file's text, "" if there is none: what the system does not tell is left out."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
