"""Source trees that benchmarks run on, fetched once."""

import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from composer_inference.environment import cache_dir


def source_distribution(name: str, version: str) -> Path:
    """The unpacked source distribution of a package; pip fetches it at the first call.

    Raises: subprocess.CalledProcessError if pip cannot.
    """
    folder = cache_dir() / "bench" / f"{name.lower()}-{version}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            options = ["--no-deps", "--no-binary", ":all:", "-q"]
            command = [sys.executable, "-m", "pip", "download", *options, "-d", scratch]
            subprocess.run([*command, f"{name}=={version}"], check=True)
            (archive,) = Path(scratch).glob("*.tar.gz")
            with tarfile.open(archive) as packed:
                packed.extractall(scratch, filter="data")
            (tree,) = (path for path in Path(scratch).iterdir() if path.is_dir())
            tree.rename(folder)
    return folder
