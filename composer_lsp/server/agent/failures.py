"""What cannot be done for the agent's commands, as an answer that says why."""

from collections.abc import Generator
from contextlib import contextmanager

from lsprotocol import types
from pygls.exceptions import JsonRpcException

from composer_inference.endpoint import EndpointError
from composer_lsp.agent.checkpoints import CheckpointError
from composer_lsp.agent.edits.text_file import TextError
from composer_lsp.agent.transcript import TranscriptError
from composer_lsp.agent.workspace.workspace import WorkspaceError
from composer_lsp.engine.errors import EngineError
from composer_lsp.server.agent.window_run import RunError

FAILURES = (
    RunError,
    CheckpointError,
    TextError,
    TranscriptError,
    WorkspaceError,
    EngineError,
    EndpointError,
    OSError,
)


@contextmanager
def told() -> Generator[None, None, None]:
    """Raises: JsonRpcException in place of each of these."""
    try:
        yield
    except FAILURES as error:
        raise JsonRpcException(str(error), code=types.LSPErrorCodes.RequestFailed) from error
