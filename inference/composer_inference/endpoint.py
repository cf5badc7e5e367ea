"""Where the engine listens: a Unix socket, or a loopback port with a bearer token.

Both live in the runtime folder, which only its user may enter: whoever can reach the socket can read
the source that is being typed. Nothing here imports an HTTP library; the engine and the language
server's start-up both load this module.
"""

import json
import os
import secrets
import socket
import stat
from dataclasses import dataclass, field
from pathlib import Path

from composer_inference.environment import force_tcp_endpoint, runtime_dir

MAX_SOCKET_PATH_BYTES = 100
"""`sun_path` holds 104 bytes on macOS and 108 on Linux, the final zero included."""

_SOCKET = "engine.sock"
_TCP = "engine.json"
_LOCK = "engine.lock"


class EndpointError(Exception):
    """The engine cannot be reached or bound where it should be; the message names the path."""


class UnsafeRuntimeDirError(EndpointError):
    """Somebody else could enter, or has planted, the runtime folder."""


class SocketPathTooLongError(EndpointError):
    """The system's limit for a socket's path is shorter than the runtime folder's."""


@dataclass(frozen=True, slots=True)
class UnixEndpoint:
    path: Path
    identity: tuple[int, int] | None = field(default=None, repr=False, compare=False)
    """Inode and change time of the socket that `bind_endpoint` made; None for one found."""

    def __str__(self) -> str:
        return f"unix:{self.path}"


@dataclass(frozen=True, slots=True)
class TcpEndpoint:
    port: int
    token: str = field(repr=False)
    """Sent as `Authorization: Bearer`; any process of the machine can reach a loopback port."""

    def __str__(self) -> str:
        return f"127.0.0.1:{self.port}"


Endpoint = UnixEndpoint | TcpEndpoint


def uses_tcp() -> bool:
    """Whether this machine's engine listens on a loopback port: it has no Unix sockets, or the
    user asked for it (`COMPOSER_ENGINE_TRANSPORT`)."""
    return force_tcp_endpoint() or not hasattr(socket, "AF_UNIX")


def private_runtime_dir() -> Path:
    """The runtime folder, made with mode 0700 when it is missing.

    Raises: UnsafeRuntimeDirError if it is a link, not a folder, another user's, or open to others.
    """
    path = runtime_dir()
    try:
        path.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        pass
    except OSError as error:
        raise EndpointError(
            f"cannot make the runtime folder {path}: {error.strerror}; set COMPOSER_RUNTIME_DIR to "
            "a folder that can be made"
        ) from error
    _check_private(path)
    if not os.access(path, os.W_OK | os.X_OK):
        raise EndpointError(
            f"the runtime folder {path} cannot be written; run: chmod 700 {path}, or set "
            "COMPOSER_RUNTIME_DIR to another folder"
        )
    return path


def lock_path() -> Path:
    """The file whose lock the running engine holds."""
    return private_runtime_dir() / _LOCK


def socket_path() -> Path:
    """Raises: SocketPathTooLongError, UnsafeRuntimeDirError."""
    path = private_runtime_dir() / _SOCKET
    num_bytes = len(os.fsencode(path))
    if num_bytes > MAX_SOCKET_PATH_BYTES:
        raise SocketPathTooLongError(
            f"the socket path {path} has {num_bytes} bytes and the system allows "
            f"{MAX_SOCKET_PATH_BYTES}; set COMPOSER_RUNTIME_DIR to a shorter folder"
        )
    return path


def find_endpoint() -> Endpoint | None:
    """Where an engine is announced, None when there is none. A dead engine may have left its
    announcement behind: `is_listening` tells.

    Raises: EndpointError.
    """
    if uses_tcp():
        return _read_tcp(private_runtime_dir() / _TCP)
    path = socket_path()
    return UnixEndpoint(path) if path.exists() else None


def is_listening(endpoint: Endpoint, *, timeout_s: float = 1.0) -> bool:
    """Whether some process accepts connections there."""
    try:
        with _client_socket(endpoint) as client:
            client.settimeout(timeout_s)
            client.connect(
                str(endpoint.path)
                if isinstance(endpoint, UnixEndpoint)
                else ("127.0.0.1", endpoint.port)
            )
    except OSError:
        return False
    return True


def bind_endpoint() -> tuple[socket.socket, Endpoint]:
    """Bind and announce the engine's listening socket; the caller holds `lock_path()`, so
    whatever stands at the path was left by a dead engine and is removed.

    Raises: EndpointError.
    """
    return _bind_tcp() if uses_tcp() else _bind_unix()


def is_announced(endpoint: Endpoint) -> bool:
    """Whether a bound endpoint can still be found: something may have removed or replaced its
    announcement, such as a cleaner of temporary files."""
    if isinstance(endpoint, UnixEndpoint):
        # None twice: it was removed between being bound and being looked at.
        identity = _socket_identity(endpoint.path)
        return identity is not None and identity == endpoint.identity
    try:
        return _read_tcp(runtime_dir() / _TCP) == endpoint
    except EndpointError:
        return False


def withdraw_endpoint(endpoint: Endpoint) -> None:
    """Remove the announcement of a bound endpoint, unless a successor has replaced it; open
    connections stay."""
    if is_announced(endpoint):
        path = endpoint.path if isinstance(endpoint, UnixEndpoint) else runtime_dir() / _TCP
        path.unlink(missing_ok=True)


def _bind_unix() -> tuple[socket.socket, Endpoint]:
    path = socket_path()
    _remove_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise EndpointError(f"cannot listen at {path}: {error.strerror}") from error
    return listener, UnixEndpoint(path, _socket_identity(path))


def _remove_stale(path: Path) -> None:
    if path.is_dir():
        raise EndpointError(f"{path} is a folder and no socket; remove it: rmdir {path}")
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise EndpointError(f"cannot remove the stale {path}: {error.strerror}") from error


def _socket_identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns


def _bind_tcp() -> tuple[socket.socket, Endpoint]:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.bind(("127.0.0.1", 0))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise EndpointError(f"cannot listen on a loopback port: {error.strerror}") from error
    endpoint = TcpEndpoint(listener.getsockname()[1], secrets.token_urlsafe(32))
    path = private_runtime_dir() / _TCP
    try:
        write_private(path, json.dumps({"port": endpoint.port, "token": endpoint.token}))
    except OSError as error:
        listener.close()
        raise EndpointError(f"cannot write {path}: {error.strerror}") from error
    return listener, endpoint


def write_private(path: Path, text: str) -> None:
    """A reader sees the old file or the whole new one, and never a mode other than 0600.

    Raises: OSError.
    """
    partial = path.with_suffix(f".{os.getpid()}.tmp")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    partial.replace(path)


def _read_tcp(path: Path) -> TcpEndpoint | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        port = int(value["port"])
        if not 0 < port < 2**16:
            raise ValueError(f"{port} is no port")
        return TcpEndpoint(port, str(value["token"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError, OSError) as error:
        raise EndpointError(f"{path} does not describe an engine ({error}); remove it") from error


def _client_socket(endpoint: Endpoint) -> socket.socket:
    family = socket.AF_UNIX if isinstance(endpoint, UnixEndpoint) else socket.AF_INET
    return socket.socket(family, socket.SOCK_STREAM)


def _check_private(path: Path) -> None:
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise UnsafeRuntimeDirError(
            f"the runtime folder {path} is a symbolic link, which another user may have planted; "
            "remove it, or set COMPOSER_RUNTIME_DIR"
        )
    if not stat.S_ISDIR(status.st_mode):
        raise UnsafeRuntimeDirError(f"the runtime folder {path} is not a folder; remove it")
    if not hasattr(os, "getuid"):
        return  # Windows: the user's own folders are closed to others by their access list.
    if status.st_uid != os.getuid():
        raise UnsafeRuntimeDirError(
            f"the runtime folder {path} belongs to user {status.st_uid}, not to you "
            f"({os.getuid()}); set COMPOSER_RUNTIME_DIR to a folder of your own"
        )
    if status.st_mode & 0o077:
        raise UnsafeRuntimeDirError(
            f"the runtime folder {path} has mode {stat.S_IMODE(status.st_mode):04o}, so others can "
            f"enter it; run: chmod 700 {path}"
        )
