"""Fetches what the table is trained on: `python fetch.py ARCHIVES`.

By the registries' own clients, each package at the version that sources.toml names: pip, npm, and
apt-get with source entries (`deb-src`) enabled. What is there already is not fetched again.
"""

import argparse
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path


def pip(name: str, version: str) -> list[str]:
    return [sys.executable, "-m", "pip", "download", "--no-deps", f"{name}=={version}"]


def npm(name: str, version: str) -> list[str]:
    return ["npm", "pack", f"{name}@{version}"]


def apt(name: str, version: str) -> list[str]:
    # An epoch is no part of a file's name, but of the version that apt knows.
    known = subprocess.run(
        ["apt-cache", "showsrc", "--only-source", name], capture_output=True, text=True, check=True
    )
    found = [line.split()[1] for line in known.stdout.splitlines() if line[:9] == "Version: "]
    bare = {one: one.split(":", 1)[-1] for one in found}
    exact = next((one for one in found if f"{bare[one]}-".startswith(f"{version}-")), version)
    return ["apt-get", "source", "--only-source", "--download-only", f"{name}={exact}"]


CLIENTS: dict[str, Callable[[str, str], list[str]]] = {"pypi": pip, "npm": npm, "debian": apt}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archives", type=Path)
    archives: Path = parser.parse_args().archives
    sources = tomllib.loads(Path(__file__).with_name("sources.toml").read_text("utf-8"))
    for registry, packages in sources.items():
        for name, version in packages.items():
            folder = archives / registry / name.replace("/", "__")
            if folder.exists() and any(folder.iterdir()):
                continue
            folder.mkdir(parents=True, exist_ok=True)
            command = CLIENTS[registry](name, version)
            if subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL).returncode:
                print(f"not fetched: {registry} {name} {version}", file=sys.stderr)


if __name__ == "__main__":
    main()
