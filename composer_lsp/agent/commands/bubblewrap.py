"""Whether bubblewrap works here. It may be missing, or forbidden to make namespaces."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_LIMIT_S = 20
NAMESPACES = (
    *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--die-with-parent", "--new-session"),
)
"""All but the network's, which a command may be allowed to share."""


class SandboxError(Exception):
    """A command could not be run in the sandbox; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    executable: Path
    bounds_processes: bool
    """A limit of processes holds in it: Linux 5.14 counts them by namespace, but not root's."""


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
    return Bubblewrap(Path(found), bounds_processes=os.geteuid() != 0 and _linux() >= (5, 14))


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
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_LIMIT_S,
            check=False,
        )
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
