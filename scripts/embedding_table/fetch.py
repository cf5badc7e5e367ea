"""Fetches what the table is trained on: `python fetch.py ARCHIVES [PACKAGE...]`, all without names.

By the registries' own clients, each package at the version that sources.toml names: pip, npm, and
apt-get, whose system this has to be Debian 12's (its sources stay as they are). Each client compares
what it fetched with the digest that its registry tells. What is there already is not fetched again.
"""

import argparse
import atexit
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path

_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
_INDICES = ["indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)"]
_OF_DEBIAN = ["Created-By: Packages", "Origin: Debian"]


def pip(name: str, version: str) -> list[str]:
    return [sys.executable, "-m", "pip", "download", "-q", "--no-deps", f"{name}=={version}"]


def npm(name: str, version: str) -> list[str]:
    return ["npm", "pack", "--silent", f"{name}@{version}"]


def apt(name: str, version: str) -> list[str]:
    options = source_options()
    # An epoch is no part of a file's name, but of the version that apt knows.
    known = output(["apt-cache", *options, "showsrc", "--only-source", name])
    found = [line.split()[1] for line in known.splitlines() if line[:9] == "Version: "]
    bare = {one: one.split(":", 1)[-1] for one in found}
    exact = next((one for one in found if f"{bare[one]}-".startswith(f"{version}-")), version)
    only = ["source", "-qq", "--only-source", "--download-only", "--tar-only"]
    return ["apt-get", *options, *only, f"{name}={exact}"]


@cache
def source_options() -> list[str]:
    """What lets apt know the source packages of the system's own mirrors, in a folder aside."""
    folder = Path(tempfile.mkdtemp(prefix="composer-sources-"))
    atexit.register(shutil.rmtree, folder)
    (folder / "lists" / "partial").mkdir(parents=True)
    # Of two entries with one version the first counts: the archive's, which keeps what the one for
    # security may have dropped.
    indices = set(output(["apt-get", *_INDICES, *_OF_DEBIAN]).splitlines())
    indices = sorted(indices, key=lambda index: "security" in index)
    entries = [f"deb-src [signed-by={_KEYS}] {index}\n" for index in indices]
    (folder / "sources.list").write_text("".join(entries))
    options = {
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder,
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "APT::Sandbox::User": "root",
    }
    chosen = [part for key, value in options.items() for part in ("-o", f"{key}={value}")]
    output(["apt-get", *chosen, "-qq", "update"])
    return chosen


def output(command: list[str]) -> str:
    """Raises: CalledProcessError."""
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


CLIENTS: dict[str, Callable[[str, str], list[str]]] = {"pypi": pip, "npm": npm, "debian": apt}


def fetch(registry: str, name: str, version: str, archives: Path) -> bool:
    """Whether the package is there, whole; nothing of it is left where it is not."""
    folder = archives / registry / name.replace("/", "__")
    if folder.is_dir():
        return True
    scratch = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        subprocess.run(
            CLIENTS[registry](name, version), cwd=scratch, stdout=subprocess.DEVNULL, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"not fetched: {registry} {name} {version}: {error}", file=sys.stderr)
        return False
    scratch.rename(folder)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archives", type=Path)
    parser.add_argument("packages", nargs="*")
    arguments = parser.parse_args()
    sources = tomllib.loads(Path(__file__).with_name("sources.toml").read_text("utf-8"))
    known = {name for packages in sources.values() for name in packages}
    if unknown := set(arguments.packages) - known:
        parser.error(f"sources.toml names no {', '.join(sorted(unknown))}")
    fetched = [
        fetch(registry, name, version, arguments.archives.resolve())
        for registry, packages in sources.items()
        for name, version in packages.items()
        if not arguments.packages or name in arguments.packages
    ]
    print(f"{sum(fetched)} of {len(fetched)} packages are in {arguments.archives}")
    if not all(fetched):
        sys.exit(1)


if __name__ == "__main__":
    main()
