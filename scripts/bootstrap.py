"""Make the development environment: a virtual environment with the package and its tools.

usage: python3 scripts/bootstrap.py VENV

Needs nothing but Python itself. Where the system's Python lacks ensurepip (Debian splits it off),
pip is made available by the `venv` of another interpreter, or told how to be installed.
"""

import subprocess
import sys
import time
import venv
from pathlib import Path

NUM_TRIES = 3


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
    command = [
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--editable",
        f"{root}[dev]",
    ]
    return _retry([str(part) for part in command])


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
