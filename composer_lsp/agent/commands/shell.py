"""How a command line becomes a process: the shell that reads it, and its limits."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from composer_lsp.agent.commands.shared_folders import Mount


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    max_processes: int = 2048
    """Processes and threads of one command at a time."""
    max_file_bytes: int = 8 << 30
    """Size of any file that it writes."""
    max_open_files: int = 8192


@dataclass(frozen=True, kw_only=True, slots=True)
class Invocation:
    """A command line, ready to be started."""

    argv: tuple[str, ...]
    environ: Mapping[str, str]
    cwd: Path
    limits: Limits = Limits()
    is_sandboxed: bool = False
    """It runs in a process namespace of its own, which ends with its first process."""
    is_watched: bool = True
    """Its processes are counted from outside, since the kernel does not bound them."""
    mounts: tuple[Mount, ...] = ()
    """Of its sandbox, but for those of the system and of temporary folders."""
    begun: Path | None = None
    """An empty file that it makes once its sandbox is set up; None if it makes none."""


def shell_argv(
    line: str, limits: Limits, *, bounds_processes: bool, begun: Path | None = None
) -> tuple[str, ...]:
    """Bash where there is one, since models write it; without the user's start-up files. `begun`: a
    file to make first, whose path a shell takes as it is written.

    No limit of address space: node, Go, Java and sanitizers reserve far more than they use. Instead
    the kernel is told to end the command first when memory runs out. A limit of processes is only
    set in a user namespace, where it counts those of the sandbox; outside it would count all the
    user's.
    """
    shell = _shell()
    if shell is None:
        return (
            ("cmd.exe", "/d", "/s", "/c", line) if sys.platform == "win32" else ("sh", "-c", line)
        )
    name = Path(shell).name
    options = ["--noprofile", "--norc"] if name == "bash" else []
    bounds = [f"ulimit -c 0; ulimit -f {limits.max_file_bytes // _block_bytes(name)}"]
    bounds.append(f"ulimit -n {limits.max_open_files}")
    if bounds_processes:
        bounds.append(f"ulimit -u {limits.max_processes}")
    bounds.append("echo 1000 > /proc/self/oom_score_adj")
    if begun is not None:
        bounds.append(f": > {begun}")
    script = f'{{ {"; ".join(bounds)}; }} 2>/dev/null; exec "$@"'
    return (shell, *options, "-c", script, name, shell, *options, "-c", line)


def plain_invocation(
    line: str, cwd: Path, environ: Mapping[str, str], limits: Limits | None = None
) -> Invocation:
    """Outside of any sandbox, for the user to approve."""
    limits = limits or Limits()
    argv = shell_argv(line, limits, bounds_processes=False)
    return Invocation(argv=argv, environ=environ, cwd=cwd, limits=limits)


def _block_bytes(shell: str) -> int:
    """Of `ulimit -f`."""
    return 1024 if shell == "bash" else 512


def _shell() -> str | None:
    if sys.platform == "win32":
        return None
    known: Sequence[str] = ("/bin/bash", "/usr/bin/bash", "/bin/sh")
    found = next((path for path in known if os.access(path, os.X_OK)), None)
    return found or shutil.which("bash") or shutil.which("sh")
