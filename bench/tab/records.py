"""What was measured, kept as it comes, so that a benchmark that was interrupted goes on from there."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Generic, TypeVar

import cattrs

Value = TypeVar("Value")


class Records(Generic[Value]):
    """Values by their keys, each a line of a file; without a file they are forgotten in the end."""

    def __init__(self, kind: type[Value], path: Path | None) -> None:
        """Raises: cattrs.BaseValidationError if the file holds another kind."""
        self._path = path
        self._values: dict[str, Value] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                key, value = json.loads(line)
                self._values[key] = cattrs.structure(value, kind)

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __getitem__(self, key: str) -> Value:
        return self._values[key]

    def add(self, key: str, value: Value) -> None:
        self._values[key] = value
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps([key, cattrs.unstructure(value)]) + "\n")

    def of(self, keys: Iterable[str]) -> list[Value]:
        """Those of the keys, in their order, that there are."""
        return [self._values[key] for key in keys if key in self._values]
