"""Whether bubblewrap works here. It may be missing, or forbidden to make namespaces."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

_LIMIT_S = 20
NAMESPACES = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--die-with-parent", "--new-session"),
)
"""All but the network's, which a command may be allowed to share."""
NO_CAPABILITIES = ("--cap-drop", "ALL")
"""Root would keep its capabilities in the namespace, and could unmount what covers secrets."""


ProcessBound = Literal["rlimit", "pid_max", "none"]
"""`rlimit`: by user and namespace, since Linux 5.14; root is exempt. `pid_max`: by the highest number
of a process in a namespace around the sandbox, since Linux 6.14, which only root can make."""
_SYSTEM_PATH = "/usr/bin:/bin:/usr/sbin:/sbin:/run/current-system/sw/bin"
_LEAST_PID_MAX = 512
"""The kernel wants some hundreds."""


class SandboxError(Exception):
    """A command could not be run in the sandbox; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    executable: Path
    bound: ProcessBound
    """How the kernel is made to bound the number of processes."""

    def argv(self, max_processes: int, mounts: str = "") -> tuple[str, ...]:
        """What bubblewrap's own arguments follow. `mounts`: commands of a shell that mount what
        nobody else is to see, before bubblewrap starts."""
        steps = [mounts] if mounts else []
        if self.bound == "pid_max":
            most = max(max_processes, _LEAST_PID_MAX)
            steps.insert(0, f"echo {most} > /proc/sys/kernel/pid_max")
        if not steps:
            return (str(self.executable),)
        outer = _pid_namespace() if self.bound == "pid_max" else _mount_namespace()
        script = "; ".join([*steps, 'exec "$@"'])
        return (*outer, system_program("sh"), "-c", script, "sh", str(self.executable))


def identity() -> tuple[str, ...]:
    """The user's own, also where bubblewrap itself runs as the root of a namespace."""
    return ("--uid", str(os.getuid()), "--gid", str(os.getgid()))


@cache
def system_program(name: str) -> str:
    """Its path, whatever PATH says: it runs outside of the sandbox. Raises: SandboxError."""
    found = shutil.which(name, path=_SYSTEM_PATH)
    if found is None:
        raise SandboxError(f"the program {name} (of util-linux) is missing")
    return found


def _pid_namespace() -> tuple[str, ...]:
    """Of root's, with mounts of its own too."""
    unshare = (system_program("unshare"), "--pid", "--fork", "--kill-child", "--mount-proc")
    return (*_ending_with_parent(), *unshare)


def _mount_namespace() -> tuple[str, ...]:
    """Whose user may mount: root, or who is root in a namespace of users."""
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    # The kernel forgets about the parent's end when a process gains capabilities.
    return (system_program("unshare"), *user, "--mount", *_ending_with_parent())


def _ending_with_parent() -> tuple[str, ...]:
    return (system_program("setpriv"), "--pdeathsig", "KILL")


def find_bubblewrap(path: str, roots: Sequence[Path] = ()) -> Bubblewrap:
    """Search `path`, as PATH is written, for a bwrap that is none of the workspace's, and try it
    once. Raises: SandboxError."""
    if sys.platform != "linux":
        raise SandboxError("there is no sandbox on this system; each command asks first")
    found = shutil.which("bwrap", path=_without(path, roots))
    if found is None:
        raise SandboxError(
            "bubblewrap is not installed (the package `bubblewrap`), so each command asks first"
        )
    _try(found)
    return Bubblewrap(Path(found), _process_bound())


@cache
def _process_bound() -> ProcessBound:
    if os.geteuid() != 0:
        return "rlimit" if _linux() >= (5, 14) else "none"
    if _linux() < (6, 14):
        return "none"  # where the number would be the whole machine's
    script = f"echo {_LEAST_PID_MAX} > /proc/sys/kernel/pid_max && cat /proc/sys/kernel/pid_max"
    try:
        found = _run([*_pid_namespace(), system_program("sh"), "-c", script])
    except SandboxError:
        return "none"
    return "pid_max" if found.returncode == 0 else "none"


def _run(argv: Sequence[str]) -> "subprocess.CompletedProcess[bytes]":
    """Raises: OSError, TimeoutExpired."""
    return subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_LIMIT_S, check=False
    )


def _without(path: str, roots: Sequence[Path]) -> str:
    folders = (Path(entry) for entry in path.split(os.pathsep) if entry.startswith("/"))
    return os.pathsep.join(
        str(folder)
        for folder in folders
        if not any(folder.resolve().is_relative_to(root) for root in roots)
    )


def _linux() -> tuple[int, int]:
    major, minor = os.uname().release.split(".")[:2]
    return int(major), int("".join(filter(str.isdigit, minor)) or 0)


@cache
def _failure(executable: str) -> str | None:
    """Why it does not work; None if it does. Asked once."""
    argv = [executable, *NAMESPACES, "--unshare-net", "--ro-bind", "/", "/"]
    argv += ["--proc", "/proc", "--dev", "/dev", "--", "/bin/sh", "-c", "exit 0"]
    try:
        done = _run(argv)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if done.returncode == 0 else done.stderr.decode("utf-8", "replace").strip()


def _try(executable: str) -> None:
    failure = _failure(executable)
    if failure is None:
        return
    is_forbidden = any(text in failure for text in ("namespace", "uid map", "RTM_NEWADDR"))
    advice = (
        "; this system forbids users to make namespaces (an AppArmor profile for bwrap, or the "
        "sysctl kernel.unprivileged_userns_clone, allows it)"
    )
    raise SandboxError(
        f"{executable} does not work here ({failure}){advice if is_forbidden else ''}, so each "
        "command asks first"
    )
