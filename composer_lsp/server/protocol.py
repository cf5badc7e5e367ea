"""JSON-RPC and the LSP life cycle on top of pygls, for clients of every kind.

What differs from pygls: a message that cannot be understood is answered by an error with its id
instead of silence, the life cycle is enforced (nothing before `initialize`, nothing after
`shutdown`), the client's ids and ours live apart, cancellation and a client's mistakes are no
errors in the log, and documents are our own `DocumentStore`.
"""

import contextvars
import inspect
import json
import logging
from asyncio import Future as AsyncioFuture
from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from cattrs import Converter, transform_error
from lsprotocol import types
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInternalError,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcMethodNotFound,
    JsonRpcParseError,
    JsonRpcRequestCancelled,
    JsonRpcServerNotInitialized,
)
from pygls.protocol import LanguageServerProtocol, lsp_method

from composer_lsp.server.capabilities import pruned
from composer_lsp.server.documents import DocumentStore, is_uri
from composer_lsp.server.positions import PositionEncoding

if TYPE_CHECKING:
    from composer_lsp.server.server import ComposerServer

logger = logging.getLogger(__name__)

_WITH_VERSIONS = frozenset({types.TEXT_DOCUMENT_DID_OPEN, types.TEXT_DOCUMENT_DID_CHANGE})

MessageId = str | int
JsonObject = dict[str, Any]

work_done_token: contextvars.ContextVar[types.ProgressToken | None] = contextvars.ContextVar(
    "work_done_token", default=None
)
"""That the client gave with the command that runs, to be told by how far it is."""


@dataclass(frozen=True, slots=True)
class _Untyped:
    params: object


class ComposerProtocol(LanguageServerProtocol):
    def __init__(self, server: "ComposerServer", converter: Converter) -> None:
        super().__init__(server, converter)
        self._composer = server
        self._num_sent = 0
        self._sent: dict[MessageId, tuple[str, Future[Any]]] = {}
        """Our own requests that the client has not answered, with their methods."""

    @property
    def workspace(self) -> DocumentStore:
        assert isinstance(self._workspace, DocumentStore), "no document can come before initialize"
        return self._workspace

    @property
    def is_initialized(self) -> bool:
        return self._workspace is not None

    @property
    def was_shut_down(self) -> bool:
        return self._shutdown

    # Incoming ------------------------------------------------------------------------------------

    def receive(self, body: bytes) -> None:
        """Handle one message body, whatever it holds."""
        try:
            decoded: object = json.loads(body)
        except (ValueError, RecursionError) as error:
            self.refuse(None, JsonRpcParseError(f"the body is not JSON: {error}"))
            return
        message = cast("JsonObject", decoded) if isinstance(decoded, dict) else {}
        if message.get("jsonrpc") != self.VERSION:
            self.refuse(None, JsonRpcInvalidRequest("not a JSON-RPC 2.0 message"))
        elif "method" not in message:
            self._receive_response(message)
        elif "id" in message:
            self._receive_request(message)
        else:
            self._receive_notification(message)

    def refuse(self, msg_id: MessageId | None, error: JsonRpcException) -> None:
        """Answer with an error; the fault is the client's, so the log has it as information."""
        logger.info("refused message %r: %s", msg_id, error.message)
        details = {"code": error.code, "message": error.message}
        # As a plain object: lsprotocol leaves out an id that is null, which JSON-RPC wants written.
        self._send_data({"jsonrpc": self.VERSION, "id": msg_id, "error": details})

    def _receive_request(self, message: JsonObject) -> None:
        msg_id = message["id"]
        if not _is_id(msg_id):
            self.refuse(None, JsonRpcInvalidRequest("a request's id is a string or an integer"))
            return
        try:
            self._check_acceptable(msg_id, message["method"])
            request = self._structure(message)
        except JsonRpcException as error:
            self.refuse(msg_id, error)
            return
        contextvars.copy_context().run(
            self._handle_request, msg_id, message["method"], request.params
        )

    def _check_acceptable(self, msg_id: MessageId, method: object) -> None:
        if self._shutdown:
            raise JsonRpcInvalidRequest("the server was shut down; only `exit` may follow")
        if not self.is_initialized and method != types.INITIALIZE:
            raise JsonRpcServerNotInitialized(f"`{method}` came before `initialize`")
        if self.is_initialized and method == types.INITIALIZE:
            raise JsonRpcInvalidRequest("the server is initialized already")
        if not self._knows(method):
            raise JsonRpcMethodNotFound(f"unknown method: {method}")
        if msg_id in self._request_futures:
            raise JsonRpcInvalidRequest(f"a request with the id {msg_id!r} is running")

    def _receive_notification(self, message: JsonObject) -> None:
        method = message["method"]
        may_come = self.is_initialized and not self._shutdown
        if method != types.EXIT and not (may_come and self._knows(method)):
            logger.debug("ignoring notification %r", method)
            return
        try:
            notification = self._structure(message)
        except JsonRpcInvalidParams as error:
            logger.warning("ignoring a malformed %s: %s", method, error.message)
            return
        contextvars.copy_context().run(self._handle_notification, method, notification.params)

    def _receive_response(self, message: JsonObject) -> None:
        msg_id = message.get("id")
        sent = self._sent.pop(msg_id, None) if _is_id(msg_id) else None
        if sent is None:
            logger.info("ignoring a response to no request of ours: id %r", msg_id)
            return
        method, future = sent
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(self._structure_result(method, message))
        except JsonRpcException as error:
            future.set_exception(error)

    def _knows(self, method: object) -> bool:
        if not isinstance(method, str):
            return False
        manager: Any = self.fm  # pygls gives its tables no types.
        return (
            method in manager.builtin_features
            or method in manager.features
            or method == types.CANCEL_REQUEST
        )

    def _structure(self, message: JsonObject) -> Any:
        message_type = self.get_message_type(message["method"])
        # Clients disagree about how to write "no parameters".
        message = {"params": None} | message
        if message_type is None:  # no method of LSP: its feature reads the parameters itself
            return _Untyped(message["params"])
        if message["method"] == types.INITIALIZE:
            message["params"] = pruned(message["params"])
        elif message["method"] in _WITH_VERSIONS:
            message["params"] = self.workspace.with_version(message["params"])
        return self._structure_as(message, message_type)

    def _structure_result(self, method: str, message: JsonObject) -> Any:
        if (error := message.get("error")) is not None:
            raise JsonRpcException.from_error(self._structure_as(error, types.ResponseError))
        result_type = self.get_result_type(method)
        if result_type is None:
            return message.get("result")
        return self._structure_as(message, result_type).result

    def _structure_as(self, value: Any, as_type: Any) -> Any:
        try:
            return self._converter.structure(value, as_type)
        except (
            Exception
        ) as error:  # cattrs and its hooks raise anything; the input is the client's.
            problems = "; ".join(transform_error(error, path="$"))
            raise JsonRpcInvalidParams(problems) from error

    # Running -------------------------------------------------------------------------------------

    def _execute_handler(
        self,
        msg_id: MessageId,
        handler: Callable[..., Any],
        callback: Callable[[Any], None],
        args: tuple[Any, ...] | None = None,
        kwargs: dict[str, Any] | None = None,
    ) -> None:
        super()._execute_handler(msg_id, handler, callback, args, kwargs)
        # pygls forgets the futures of requests alone, and so keeps one for every notification.
        if (future := self._request_futures.get(msg_id)) is not None:
            future.add_done_callback(lambda _: self._request_futures.pop(msg_id, None))

    def _handle_cancel_notification(self, msg_id: MessageId) -> None:
        future = self._request_futures.get(msg_id)
        if future is None or not future.cancel():
            logger.debug("request %r was answered before its cancel came", msg_id)

    def _send_handler_result(
        self, future: Future[Any] | AsyncioFuture[Any], *, msg_id: MessageId
    ) -> None:
        self._request_futures.pop(msg_id, None)
        if future.cancelled():
            error: JsonRpcException = JsonRpcRequestCancelled(f"request {msg_id!r} was cancelled")
            self._send_response(msg_id, error=error.to_response_error())
            return
        raised = future.exception()
        if raised is None:
            self._send_response(msg_id, result=future.result())
        elif isinstance(raised, JsonRpcException):
            self.refuse(msg_id, raised)
        else:
            logger.error("request %r failed", msg_id, exc_info=raised)
            error = JsonRpcInternalError(f"{type(raised).__name__}: {raised}")
            self._send_response(msg_id, error=error.to_response_error())

    @lsp_method(types.WORKSPACE_EXECUTE_COMMAND)
    async def lsp_workspace__execute_command(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, params: types.ExecuteCommandParams
    ) -> Any:
        """A coroutine where pygls has a generator, so that `$/cancelRequest` reaches the command;
        the commands check their arguments themselves."""
        manager: Any = self.fm
        commands: dict[str, Callable[..., Any]] = manager.commands
        command = commands.get(params.command)
        if command is None:
            raise JsonRpcInvalidParams(
                f"unknown command {params.command}; there are {', '.join(sorted(commands))}"
            )
        work_done_token.set(params.work_done_token)
        result = command(*(params.arguments or ()))
        return await result if inspect.isawaitable(result) else result

    # Life cycle ----------------------------------------------------------------------------------

    @lsp_method(types.INITIALIZE)
    def lsp_initialize(
        self, params: types.InitializeParams
    ) -> Generator[Any, Any, types.InitializeResult]:
        if params.root_uri is not None and not is_uri(params.root_uri):
            params.root_uri = None  # The folders are what counts.
        result = yield from super().lsp_initialize(params)
        encoding = types.PositionEncodingKind(result.capabilities.position_encoding)
        self._workspace = DocumentStore(
            self._workspace.root_uri if self._workspace else None,
            params.workspace_folders or [],
            PositionEncoding(encoding.value),
        )
        self._composer.on_initialize(params, result.capabilities)
        return result

    @lsp_method(types.SHUTDOWN)
    def lsp_shutdown(self, *args: object) -> Generator[Any, Any, None]:
        yield from ()  # A generator, as pygls's own handlers are.
        shutdown_id = self.msg_id
        for msg_id, future in tuple(self._request_futures.items()):
            if msg_id != shutdown_id:
                future.cancel()
        self._shutdown = True

    @lsp_method(types.EXIT)
    def lsp_exit(self, *args: object) -> Generator[Any, Any, None]:
        yield from ()
        self._composer.stop(0 if self._shutdown else 1)

    # Outgoing ------------------------------------------------------------------------------------

    def send_request(
        self,
        method: str,
        params: Any | None = None,
        callback: Callable[[Any], None] | None = None,
        msg_id: MessageId | None = None,
    ) -> Future[Any]:
        assert callback is None, "await send_request_async instead"
        self._num_sent += 1
        msg_id = msg_id or f"composer-{self._num_sent}"
        request_type = self.get_message_type(method)
        assert request_type is not None, f"{method} is no method of LSP"
        future: Future[Any] = Future()
        self._sent[msg_id] = (method, future)
        future.add_done_callback(lambda done: self._withdraw(msg_id) if done.cancelled() else None)
        self._send_data(request_type(id=msg_id, method=method, params=params, jsonrpc=self.VERSION))
        return future

    def _withdraw(self, msg_id: MessageId) -> None:
        """Nobody waits for the answer any more: a question that is still shown has no use."""
        self.notify(types.CANCEL_REQUEST, types.CancelParams(id=msg_id))


def _is_id(value: object) -> TypeGuard[MessageId]:
    return isinstance(value, str | int) and not isinstance(value, bool)
