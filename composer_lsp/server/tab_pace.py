"""What Tab gives up to be in time on this machine, and how the user learns of it: in the status, and in
`composer-lsp doctor`, which reads what is kept here."""

import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from composer_inference.environment import state_dir
from composer_lsp.completion.request import Suggestion
from composer_lsp.completion.speed import Speed
from composer_lsp.completion.timeliness import Timeliness
from composer_lsp.config import TabSettings

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What was seen last of Tab's speed here."""

    model: str
    tokens_per_s: float
    """Of reading prompts."""
    p50_ms: float
    """From the end of typing to the suggestion."""
    note: str
    """What was given up; empty for nothing."""


class TabPace:
    def __init__(
        self,
        speed: Speed,
        on_note: Callable[[str], None],
        find_smaller: Callable[[str], str | None],
    ) -> None:
        """`find_smaller`: an installed model that is smaller than the named one."""
        self._speed = speed
        self._on_note = on_note
        self._find_smaller = find_smaller
        self._timeliness = Timeliness()
        self._smaller: tuple[str, str] | None = None
        """A model, and the one that answers in its place."""

    def cut(self, tab: TabSettings) -> TabSettings:
        """The settings without what was given up."""
        share = self._timeliness.context_share
        model = self._smaller[1] if self._smaller and _may_choose(tab) else tab.model
        return replace(tab, context_tokens=int(tab.context_tokens * share), model=model)

    def observe(self, suggestion: Suggestion, tab: TabSettings, model: str) -> bool:
        """Take a suggestion that came unasked. Returns whether another model is to answer from now on.

        `tab`: the user's settings; `model`: the one that answered.
        """
        if suggestion.is_from_memory or not self._timeliness.observe(suggestion.timings):
            return False
        is_switched = self._switch(tab, model)
        note = self._note(tab)
        self._on_note(note)
        measured = Measured(
            model=model,
            tokens_per_s=self._speed.tokens_per_s or 0.0,
            p50_ms=self._timeliness.p50_ms or 0.0,
            note=note,
        )
        logger.info("Tab: %s", measured)
        _keep(measured)
        if is_switched:
            self._timeliness.forget()
        return is_switched

    def forget(self) -> None:
        """The user chose another model, or a server."""
        self._timeliness.forget()
        self._smaller = None
        self._on_note("")

    def _switch(self, tab: TabSettings, model: str) -> bool:
        if not self._timeliness.is_model_too_slow or not _may_choose(tab):
            return False
        smaller = self._find_smaller(model)
        if smaller is not None:
            self._smaller = model, smaller
        return smaller is not None

    def _note(self, tab: TabSettings) -> str:
        p50_s = (self._timeliness.p50_ms or 0.0) / 1000
        notes: list[str] = []
        if (share := self._timeliness.context_share) < 1:
            num_tokens = int(tab.context_tokens * share)
            notes.append(f"prompts hold {num_tokens} tokens of the file, not {tab.context_tokens}")
        if self._smaller is not None:
            notes.append(f"{self._smaller[1]} answers in place of {self._smaller[0]}")
        elif self._timeliness.is_model_too_slow:
            notes.append(
                "a smaller model (composer.tab.model) or shorter suggestions (composer.tab.maxTokens) "
                "would come sooner"
            )
        return f"Suggestions took {p50_s:.1f} s here: {'; '.join(notes)}" if notes else ""


def read_measured() -> Measured | None:
    """What was kept last; None where nothing was, or it cannot be read."""
    try:
        kept: Any = json.loads(_path().read_text("utf-8"))
        fields = cast("Mapping[str, Any]", kept)
        return Measured(
            model=str(fields["model"]),
            tokens_per_s=float(fields["tokens_per_s"]),
            p50_ms=float(fields["p50_ms"]),
            note=str(fields["note"]),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _may_choose(tab: TabSettings) -> bool:
    return tab.model == "auto" and not tab.url


def _keep(measured: Measured) -> None:
    path = _path()
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        part.write_text(json.dumps(asdict(measured)), "utf-8")
        part.replace(path)
    except OSError as error:
        logger.info("%s cannot be written: %s", path, error)


def _path() -> Path:
    return state_dir() / "tab.json"
