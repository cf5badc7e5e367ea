"""What a process may use, in file systems drawn by hand."""

import os
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from composer_inference.hardware import Hardware, read_hardware

GB = 10**9

Write = Callable[[dict[str, str]], Hardware]


@pytest.fixture
def read(tmp_path: Path) -> Write:
    """`read({path: text})` is the hardware of a system with these files."""

    def read_from(files: dict[str, str]) -> Hardware:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return read_hardware(tmp_path)

    return read_from


def test_a_system_that_tells_nothing_has_the_machines_own_figures(read: Write) -> None:
    hardware = read({})

    assert 1 <= hardware.num_usable_cores <= hardware.num_physical_cores
    assert hardware.total_memory_bytes == psutil.virtual_memory().total
    assert (hardware.gpus, hardware.cpu_features) == ((), ())


def test_this_machine_can_be_read() -> None:
    hardware = read_hardware()

    assert 1 <= hardware.num_usable_cores <= hardware.num_physical_cores
    assert 0 < hardware.available_memory_bytes <= hardware.total_memory_bytes


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 16)

    def cpu_count(logical: bool = True) -> int:
        return 16 if logical else 8

    def affinity(pid: int) -> set[int]:
        return set(range(8))

    monkeypatch.setattr(psutil, "cpu_count", cpu_count)
    monkeypatch.setattr(os, "sched_getaffinity", affinity, raising=False)


def _topology(core_of: Callable[[int], int]) -> dict[str, str]:
    files: dict[str, str] = {}
    for cpu in range(8):
        folder = f"sys/devices/system/cpu/cpu{cpu}/topology"
        files |= {f"{folder}/core_id": f"{core_of(cpu)}\n", f"{folder}/physical_package_id": "0\n"}
    return files


@pytest.mark.usefixtures("eight_cores")
def test_two_threads_of_one_core_count_once(read: Write) -> None:
    assert read(_topology(lambda cpu: cpu // 2)).num_usable_cores == 4


@pytest.mark.usefixtures("eight_cores")
@pytest.mark.parametrize(
    ("files", "usable"),
    [
        ({"cpu.max": "250000 100000\n"}, 2),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "max 100000\n"}, 8),
        ({"cpu.max": "garbage\n"}, 8),
    ],
    ids=["two and a half", "half", "no quota", "garbage"],
)
def test_a_quota_of_version_2_counts(read: Write, files: dict[str, str], usable: int) -> None:
    group = {f"sys/fs/cgroup/box/{name}": text for name, text in files.items()}
    cgroup = {"proc/self/cgroup": "0::/box/inner\n", "sys/fs/cgroup/box/inner/other": ""}

    assert read(_topology(lambda cpu: cpu) | cgroup | group).num_usable_cores == usable


@pytest.mark.usefixtures("eight_cores")
def test_a_quota_of_version_1_counts_at_the_mount_of_a_container(read: Write) -> None:
    files = {
        "proc/self/cgroup": "4:cpu,cpuacct:/docker/0123\n3:memory:/docker/0123\n",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "300000\n",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
    }

    assert read(files).num_usable_cores == 3


def test_a_memory_limit_counts_without_the_caches(read: Write) -> None:
    hardware = read(
        {
            "proc/self/cgroup": "0::/box\n",
            "sys/fs/cgroup/box/memory.max": "1000000000\n",
            "sys/fs/cgroup/box/memory.current": "700000000\n",
            "sys/fs/cgroup/box/memory.stat": "anon 1\ninactive_file 200000000\n",
        }
    )

    assert hardware.total_memory_bytes == GB
    assert hardware.available_memory_bytes == GB // 2


def test_no_limit_of_version_1_is_none(read: Write) -> None:
    hardware = read(
        {
            "proc/self/cgroup": "4:memory:/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "700000000\n",
        }
    )

    assert hardware.total_memory_bytes == psutil.virtual_memory().total


def test_the_processor_is_told_with_what_matters(read: Write) -> None:
    first = "processor: 0\nmodel name\t: Some CPU\nflags\t\t: fpu sse4_2 avx2 avx512f\n"

    hardware = read({"proc/cpuinfo": f"{first}\n{first.replace('Some', 'Other')}"})

    assert hardware.cpu == "Some CPU"
    assert hardware.cpu_features == ("avx2", "avx512f")


@pytest.mark.parametrize(
    ("files", "gpus"),
    [
        ({"proc/driver/nvidia/gpus/0000:01/information": "Model: \t H200\n"}, ("H200",)),
        ({"dev/nvidia0": ""}, ("NVIDIA GPU",)),
        ({"dev/kfd": ""}, ("AMD GPU",)),
    ],
    ids=["named", "hidden name", "AMD"],
)
def test_gpus_are_found_by_their_drivers(
    read: Write, files: dict[str, str], gpus: tuple[str, ...]
) -> None:
    assert read(files).gpus == gpus
