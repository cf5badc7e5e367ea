"""Files of tests, by their names."""

import posixpath
import re

_AFFIXES = re.compile(r"^(?:tests?_|Test(?=[A-Z]))|(?:_tests?|_spec|\.test|\.spec|Tests?|IT|Spec)$")


def tested_stem(path: str) -> str | None:
    """The stem of the file that a file of tests is of, as `shop` for `tests/test_shop.py`; None for
    what is no test by its name."""
    stem = posixpath.splitext(posixpath.basename(path))[0]
    bare = _AFFIXES.sub("", stem)
    return bare if bare != stem else None
