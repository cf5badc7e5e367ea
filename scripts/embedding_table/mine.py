"""Mines pairs of prose and code out of packages' archives: `python mine.py ARCHIVES PAIRS.npz`.

ARCHIVES holds what fetch.py brought: wheels, npm tarballs and Debian source archives, read without
unpacking. A pair is a documented function: the first sentence of its prose, its code without it,
its name, and the path that it lies at, each as words of `composer_index.words`.
"""

import argparse
import hashlib
import random
import tarfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import numpy as np

from composer_index import words
from composer_index.evaluate.documented import (
    Documented,
    find_documented,
    first_sentence,
    is_telling,
)

SEED = 1
MAX_BYTES_PER_PACKAGE = 20_000_000
MAX_BYTES_PER_FILE = 300_000
MAX_PAIRS_PER_PACKAGE = 8_000
MAX_CODE_BYTES = 3_000
"""The head of a function: chunks of the index hold about 1,200 characters that are not white."""
MIN_COUNT = 3
"""Functions that a word must occur in to have a row of the table."""
MAX_WORDS = 56_000

_SUFFIXES = {
    *(".py", ".js", ".jsx", ".mjs", ".cjs", ".ts", ".mts", ".tsx", ".c", ".h", ".cc", ".cpp"),
    *(".hpp", ".go", ".rs", ".java", ".rb", ".php"),
}
_EVALUATED_INSIDE = ("django", "redis", "typescript/lib", "hiredis", "jquery", "select2", "xregexp")
"""Parts of paths of vendored copies of what is evaluated."""


def read_archive(path: Path, rng: random.Random) -> Iterator[tuple[str, bytes]]:
    """Yields name and bytes of sources of one archive, in a random order, up to the bounds."""
    if path.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(path) as archive:
            sizes = {info.filename: info.file_size for info in archive.infolist()}
            for name in _choose(sizes, rng):
                yield name, archive.read(name)
        return
    with tarfile.open(path) as archive:
        members = {member.name: member for member in archive.getmembers() if member.isfile()}
        chosen = set(_choose({name: one.size for name, one in members.items()}, rng))
        for member in members.values():  # in the order of the stream: seeking back is slow
            if member.name in chosen and (file := archive.extractfile(member)) is not None:
                yield member.name, file.read()


def _choose(sizes: dict[str, int], rng: random.Random) -> Iterator[str]:
    names = sorted(name for name in sizes if _is_wanted(name, sizes[name]))
    rng.shuffle(names)
    total = 0
    for name in names:
        total += sizes[name]
        if total > MAX_BYTES_PER_PACKAGE:
            return
        yield name


def _is_wanted(name: str, size: int) -> bool:
    path = PurePosixPath(name)
    return (
        path.suffix.lower() in _SUFFIXES
        and 200 < size < MAX_BYTES_PER_FILE
        and not path.name.endswith((".min.js", ".d.ts", "_pb2.py"))
        and not any(part in name.lower() for part in _EVALUATED_INSIDE)
        and "locale" not in path.parts
    )


def pairs_of(name: str, source: bytes) -> Iterator[tuple[str, str, str, str]]:
    """Yields sentence, code, name and path of the documented functions of one file."""
    if max(map(len, source.split(b"\n"))) > 2_000:
        return
    inner = "/".join(PurePosixPath(name).parts[1:])
    for one in find_documented(name, source):
        # Go's prose begins with the name, which would give the pair away.
        sentence = first_sentence(one.prose).removeprefix(one.name).lstrip("() -:")
        if not is_telling(sentence) or one.is_all:
            continue
        code = _code(one, source)
        if code.count("\n") >= 2:
            yield sentence, code, one.name, inner


def _code(one: Documented, source: bytes) -> str:
    if one.prose_start >= one.start:
        code = source[one.start : one.prose_start] + source[one.prose_end : one.end]
    else:
        code = source[one.start : one.end]
    return code[:MAX_CODE_BYTES].decode("utf-8", "replace")


class Vocabulary:
    """Numbers words in order of appearance, and counts the functions that each is in."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.counts: Counter[int] = Counter()

    def add(self, text: str) -> list[int]:
        numbers = self.numbers
        found = [numbers.setdefault(word, len(numbers)) for word in words.split_words(text)]
        self.counts.update(set(found))
        return found


class Ragged:
    """Lists of numbers of any length, as one array and where each begins."""

    def __init__(self) -> None:
        self.lists: list[np.ndarray] = []

    def append(self, numbers: list[int]) -> None:
        self.lists.append(np.array(numbers, np.int32))

    def arrays(self, renumber: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        kept = [renumber[one][renumber[one] >= 0] for one in self.lists]
        starts = np.cumsum([0, *map(len, kept)], dtype=np.int64)
        return np.concatenate(kept).astype(np.int32), starts


def written_forms(vocabulary: dict[str, int]) -> list[str]:
    """For each stem the shortest of the words that it was made of, which a model would know."""
    forms: dict[str, str] = {}
    for run, stems in words._REMEMBERED.items():
        parts = words._PART.findall(run)
        if len(parts) != len(stems):
            continue
        for part, stem in zip(parts, stems, strict=True):
            form = forms.get(stem)
            if form is None or (len(part), part.lower()) < (len(form), form):
                forms[stem] = part.lower()
    return [forms.get(word, word) for word in vocabulary]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archives", type=Path)
    parser.add_argument("pairs", type=Path)
    arguments = parser.parse_args()

    words._MAX_REMEMBERED = 5_000_000
    vocabulary, seen = Vocabulary(), set[bytes]()
    fields = {field: Ragged() for field in ("sentence", "code", "name", "path")}
    packages: list[int] = []
    names: list[str] = []
    archives = sorted(path for path in arguments.archives.rglob("*") if _is_archive(path))
    for archive in archives:
        rng = random.Random(f"{SEED} {archive.name}")
        found: list[tuple[str, str, str, str]] = []
        for name, source in read_archive(archive, rng):
            for pair in pairs_of(name, source):
                digest = hashlib.blake2b("\0".join(pair[:2]).encode(), digest_size=8).digest()
                if digest not in seen:
                    seen.add(digest)
                    found.append(pair)
        rng.shuffle(found)
        for pair in found[:MAX_PAIRS_PER_PACKAGE]:
            for field, text in zip(fields.values(), pair, strict=True):
                field.append(vocabulary.add(text))
        packages += [len(names)] * min(len(found), MAX_PAIRS_PER_PACKAGE)
        names.append(archive.name)
        print(archive.name, len(found), len(packages), len(vocabulary.numbers), flush=True)

    counts = np.array([vocabulary.counts[i] for i in range(len(vocabulary.numbers))])
    order = np.argsort(-counts, kind="stable")[:MAX_WORDS]
    order = order[counts[order] >= MIN_COUNT]
    renumber = np.full(len(counts), -1, np.int32)
    renumber[order] = np.arange(len(order))
    all_words = np.array(list(vocabulary.numbers))
    forms = np.array(written_forms(vocabulary.numbers))
    arrays = {
        f"{name}_{part}": array
        for name, field in fields.items()
        for part, array in zip(("words", "starts"), field.arrays(renumber), strict=True)
    }
    np.savez(
        arguments.pairs,
        vocabulary=all_words[order],
        forms=forms[order],
        counts=counts[order],
        packages=np.array(packages, np.int32),
        package_names=np.array(names),
        **arrays,
    )


def _is_archive(path: Path) -> bool:
    return path.suffix in (".whl", ".tgz", ".zip") or (
        ".orig" in path.name and ".tar." in path.name and path.suffix != ".asc"
    )


if __name__ == "__main__":
    main()
