"""The user's word on fetching a model that is not on this machine, and the fetching."""

import logging
from collections.abc import Sequence

from lsprotocol import types

from composer_lsp.config import ModelDownload
from composer_lsp.server.editor import Editor
from composer_lsp.server.model_fetch import ModelFetcher, ModelFetchError
from composer_lsp.server.status import StatusBoard

logger = logging.getLogger(__name__)

AUTO = "auto"

_DOWNLOAD = "Download"
_NOT_NOW = "Not now"


class Models:
    def __init__(self, editor: Editor, board: StatusBoard, pull_command: Sequence[str]) -> None:
        self._editor = editor
        self._board = board
        self._fetcher = ModelFetcher(editor, board, pull_command)
        self._handled: set[str] = set()
        """Models whose absence was dealt with, by fetching, asking or telling."""

    async def provide(self, model: str, policy: ModelDownload) -> bool:
        """See to a missing model as the user's settings say, once a model and window; return
        whether it is there now."""
        if model in self._handled:
            return False
        self._handled.add(model)
        if not _is_known(model):
            message = (
                f"There is no model {model!r}: composer-lsp model list shows what there is, and "
                f"composer-lsp model pull --file registers a file of yours"
            )
            self._board.set_condition("error", message)
            self._editor.show_once(message, types.MessageType.Warning)
            return False
        if policy == "always" or (policy == "ask" and await self._may_fetch(model)):
            return await self._pull(model)
        message = f"{model} is not on this machine. Fetch it with: composer-lsp model pull {model}"
        self._board.set_condition("error", message)
        if policy == "never" or not self._editor.features.message_request:
            self._editor.show_once(message, types.MessageType.Warning)
        return False

    async def fetch(self, model: str) -> str:
        """Fetch a model of the catalogue and return its path. Raises: ModelFetchError."""
        path = await self._fetcher.fetch(model)
        logger.info("fetched %s to %s", model, path)
        self._board.set_condition("ready")
        return path

    async def _pull(self, model: str) -> bool:
        try:
            await self.fetch(model)
        except ModelFetchError as error:
            self._board.set_condition("error", str(error))
            self._editor.show_once(str(error))
            return False
        return True

    async def close(self) -> None:
        await self._fetcher.close()

    async def _may_fetch(self, model: str) -> bool:
        question = f"Download {model}{_size(model)}?"
        return await self._editor.ask(question, _DOWNLOAD, _NOT_NOW) == _DOWNLOAD


def recommended_model() -> str:
    """The model that suits this machine."""
    # Needed once in the life of an installation.
    from composer_inference.hardware import read_hardware
    from composer_inference.models.choose import recommend_model

    return recommend_model(read_hardware()).name


def smaller_model(name: str) -> str | None:
    """The largest installed model for Tab that is smaller; None where there is none."""
    from composer_inference.models.choose import next_smaller
    from composer_inference.models.errors import ModelError
    from composer_inference.models.store import ModelStore

    try:
        installed = [model.name for model in ModelStore().installed() if model.problem is None]
    except ModelError:
        return None
    return next_smaller(name, installed)


def _size(model: str) -> str:
    from composer_inference.models.catalog import CATALOG  # needed by few

    sizes = {spec.name: spec.size_bytes for spec in CATALOG}
    return f" ({sizes[model] / 1e6:.0f} MB)" if model in sizes else ""


def _is_known(model: str) -> bool:
    from composer_inference.models.catalog import CATALOG  # needed by few

    return any(spec.name == model for spec in CATALOG)
