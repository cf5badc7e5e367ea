"""Runs programs that a model wrote: in a sandbox without network, writable files or much memory."""

import resource
import shutil
import subprocess
import sys

_LIMIT_S = 10
_MEMORY_BYTES = 2 << 30
_SANDBOX = (
    "--unshare-all",
    "--die-with-parent",
    "--new-session",
    "--ro-bind / /",
    "--proc /proc",
    "--dev /dev",
)


class SandboxError(Exception):
    """Nothing to run such programs in."""


def passes(program: str) -> bool:
    """Whether the program ends by itself, in time and without an error.

    Raises: SandboxError.
    """
    bubblewrap = shutil.which("bwrap")
    if bubblewrap is None:
        raise SandboxError("bwrap is missing, in which a model's programs run; install bubblewrap")
    options = [word for option in _SANDBOX for word in option.split()]
    command = [bubblewrap, *options, sys.executable, "-I", "-"]
    try:
        done = subprocess.run(
            command,
            input=program.encode(errors="replace"),
            capture_output=True,
            timeout=_LIMIT_S,
            check=False,
            preexec_fn=_limit,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_LIMIT_S, _LIMIT_S))
