"""Questions out of a repository's history: a commit's subject asks for the files it changed."""

import random
from collections.abc import Sequence
from pathlib import Path

from composer_index.evaluate.documented import is_telling
from composer_index.evaluate.queries import Place, Question
from composer_index.ignores import git

_MAX_FILES = 8
"""A commit that changed more is a sweep, and asks for nothing in particular."""

_NUM_COMMITS = 5_000
_WHOLE_FILE = (1, 2**31)


def commit_questions(tree: Path, number: int, seed: int) -> list[Question]:
    """Returns questions from the latest commits below `tree`; none outside of a repository."""
    command = (
        "log",
        "--no-merges",
        "--relative",
        f"-{_NUM_COMMITS}",
        "--name-only",
        "--no-ext-diff",
    )
    try:
        log = git.output(str(tree), *command, "--format=%x00%s")
    except git.GitError:
        return []
    commits = log.decode("utf-8", "replace").split("\0")[1:]
    questions = [found for commit in commits if (found := _question(tree, commit)) is not None]
    return random.Random(seed).sample(questions, min(number, len(questions)))


def distinct_files(places: Sequence[Place]) -> list[Place]:
    """Returns the first place of each file: what a question for files ranks."""
    first: dict[str, Place] = {}
    for place in places:
        first.setdefault(place.path, place)
    return list(first.values())


def _question(tree: Path, commit: str) -> Question | None:
    subject, *paths = (line for line in commit.splitlines() if line)
    present = [path for path in paths if (tree / path).is_file()]
    if not present or len(paths) > _MAX_FILES or not is_telling(subject):
        return None
    start, end = _WHOLE_FILE
    answers = (Place(path=path, start_line=start, end_line=end) for path in present)
    return Question(text=subject, answers=tuple(answers))
