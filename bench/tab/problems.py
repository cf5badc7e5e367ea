"""HumanEval infilling: programs with a hole, and the tests that a filled one has to pass.

Source: Bavarian et al. 2022, arXiv 2207.14255; https://github.com/openai/human-eval-infilling (MIT).
"""

import gzip
import hashlib
import json
import random
import re
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["single-line", "multi-line", "random-span"]
Split = Literal["tune", "eval"]
"""By the program's number: what is tuned on the one half is judged on the other."""

_URL = "https://raw.githubusercontent.com/openai/human-eval-infilling/88062ff9859c875d04db115b698ed4b0f0395170/data/"
_FILES: dict[Kind, tuple[str, str]] = {
    "single-line": (
        "HumanEval-SingleLineInfilling.jsonl.gz",
        "a0b96b81a052503c0279075236a810ecb33d61ccfacd5848f9f0fc66e11420f9",
    ),
    "multi-line": (
        "HumanEval-MultiLineInfilling.jsonl.gz",
        "4e680b921b66dbdbfdcf6d53a979dad59d7e4eca6da647419129f901aafd391a",
    ),
    "random-span": (
        "HumanEval-RandomSpanInfillingLight.jsonl.gz",
        "bebc4183d75f521aa17c00faa638774eec4060f95842ab78575d3f96568a9161",
    ),
}
"""Names and SHA-256."""
_CACHE = Path("~/.cache/composer-bench/humaneval-infilling")
_SEED = 7


class DataError(Exception):
    """The problems cannot be had; the message says the way out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    task_id: str
    before: str
    after: str
    solution: str
    check: str
    """Code behind the program, which raises if that is wrong."""

    @property
    def is_whole_lines(self) -> bool:
        return self.solution.endswith("\n") and (not self.before or self.before.endswith("\n"))

    @property
    def document(self) -> str:
        """What an editor shows: where whole lines are missing, an empty line in their place."""
        return self.before + ("\n" if self.is_whole_lines else "") + self.after


def read_problems(
    kind: Kind, *, folder: Path | None, split: Split | None, num_problems: int
) -> list[Problem]:
    """Drawn by a fixed seed. `folder`: with the published files; None: they are fetched once, into
    the user's cache. `split` None: of both.

    Raises: DataError.
    """
    rows = [json.loads(line) for line in gzip.decompress(_data(kind, folder)).splitlines()]
    random.Random(_SEED).shuffle(rows)
    chosen = [row for row in rows if split is None or _split_of(row["task_id"]) == split]
    return [
        Problem(
            task_id=row["task_id"],
            before=row["prompt"],
            after=row["suffix"],
            solution=row["canonical_solution"],
            check=f"{row['test']}\ncheck({row['entry_point']})\n",
        )
        for row in chosen[:num_problems]
    ]


def _split_of(task_id: str) -> Split:
    found = re.search(r"HumanEval/(\d+)", task_id)
    return "eval" if found is None or int(found.group(1)) % 2 else "tune"


def _data(kind: Kind, folder: Path | None) -> bytes:
    name, digest = _FILES[kind]
    path = (folder or _CACHE.expanduser()) / name
    if folder is None and not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with urllib.request.urlopen(_URL + name, timeout=60) as answer:
                path.write_bytes(answer.read())
        except OSError as error:
            raise DataError(
                f"{_URL}{name} cannot be fetched ({error}); give --data FOLDER"
            ) from error
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error}); give the folder that holds it"
        ) from error
    if hashlib.sha256(data).hexdigest() != digest:
        raise DataError(f"{path} is not the published file; remove it, and it is fetched again")
    return data
