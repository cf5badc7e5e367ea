"""Where settings come from: `initializationOptions`, what the client pushes, what it tells when
asked; what came last on top."""

import logging
from collections.abc import Mapping
from typing import Any, Literal

from lsprotocol import types

from composer_lsp.config import Settings
from composer_lsp.server.editor import Editor
from composer_lsp.server.settings import merged, parse_settings, section_of

logger = logging.getLogger(__name__)

Layer = Literal["initialization", "pushed", "pulled"]


class Configuration:
    def __init__(self, editor: Editor) -> None:
        self._editor = editor
        self._layers: dict[Layer, Mapping[str, Any]] = {}
        self._problems: list[str] = []
        self._told: set[str] = set()

    def update(self, layer: Layer, sent: object) -> Settings:
        """Take what the client sent and return the settings that follow. Problems wait for
        `report_problems`: nothing should reach the client before `initialized`."""
        self._layers.pop(layer, None)  # The newest goes to the end, and wins.
        self._layers[layer] = section_of(sent)
        values = merged(*self._layers.values())
        settings, self._problems = parse_settings(values)
        return settings

    def report_problems(self) -> None:
        """Tell the user about each value that could not be used, once."""
        for problem in self._problems:
            if problem not in self._told:
                logger.info("setting refused: %s", problem)
                self._editor.show_once(problem, types.MessageType.Warning)
        self._told = set(self._problems)
