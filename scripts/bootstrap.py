"""Make a virtual environment with the package.

usage: python3 scripts/bootstrap.py VENV [--dev]

Needs nothing but Python itself. Where the system's Python lacks ensurepip (Debian splits it off),
pip is made available by the `venv` of another interpreter, or told how to be installed.

With --dev, what tests and checks need beside it. The tests need no GPU: where PyTorch's index of builds
for CPUs is an extra index of pip's, they take such a build, which saves gigabytes.
"""

import subprocess
import sys
import time
import venv
from pathlib import Path

NUM_TRIES = 3

TORCH = "torch==2.13.0"
"""Installed first and by its exact version. pip prefers a build for CPUs (2.13.0+cpu), where one is
at hand, over the same version's CUDA build, but not over a newer version: a range would bring the
newest release for CUDA, with gigabytes of libraries of which the tests use none."""


def main() -> int:
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        print(
            f"Python 3.11 to 3.13 is needed and {sys.executable} is {sys.version.split()[0]}; "
            "name another one: make PYTHON=python3.12 ...",
            file=sys.stderr,
        )
        return 1
    target = Path(sys.argv[1])
    python = target / "bin" / "python"
    if not python.exists():
        try:
            venv.create(target, with_pip=True, symlinks=True)
        except subprocess.CalledProcessError:
            print(
                "this Python has no ensurepip; install python3-venv, or name another Python: "
                "make PYTHON=python3.12 ...",
                file=sys.stderr,
            )
            return 1
    root = Path(__file__).resolve().parent.parent
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if "--dev" not in sys.argv:
        return _retry([*install, "--editable", str(root)])
    return _retry([*install, TORCH]) or _retry([*install, "--editable", f"{root}[dev]"])


def _retry(command: list[str]) -> int:
    """Registries have hiccups: try an install again, with a growing pause."""
    status = 1
    for attempt in range(NUM_TRIES):
        if attempt:
            time.sleep(5 * attempt)
        status = subprocess.run(command, check=False).returncode
        if status == 0:
            break
    return status


if __name__ == "__main__":
    sys.exit(main())
