"""Environment variables and the folders that they can move. Read here and nowhere else."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import platformdirs

APP = "composer"


class EnvironmentVariableError(ValueError):
    """An environment variable holds a value that cannot be used; the message names both."""


def data_dir() -> Path:
    """Models and everything else that is costly to fetch again (`COMPOSER_DATA_DIR`)."""
    return _dir("COMPOSER_DATA_DIR", lambda: platformdirs.user_data_path(APP))


def cache_dir() -> Path:
    """What can be rebuilt (`COMPOSER_CACHE_DIR`)."""
    return _dir("COMPOSER_CACHE_DIR", lambda: platformdirs.user_cache_path(APP))


def state_dir() -> Path:
    """Logs and transcripts (`COMPOSER_STATE_DIR`)."""
    return _dir("COMPOSER_STATE_DIR", lambda: platformdirs.user_state_path(APP))


def runtime_dir() -> Path:
    """The engine's socket and lock (`COMPOSER_RUNTIME_DIR`): `$XDG_RUNTIME_DIR/composer`, or a
    folder of the user's own under the system's temporary folder. Its creator gives it mode 0700.
    """

    def default() -> Path:
        base = os.environ.get("XDG_RUNTIME_DIR")
        if base and Path(base).is_dir():
            return Path(base) / APP
        user = str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
        return Path(tempfile.gettempdir()) / f"{APP}-{user}"

    return _dir("COMPOSER_RUNTIME_DIR", default)


def log_level() -> str:
    """`COMPOSER_LOG_LEVEL`: debug, info, warning (default) or error.

    Raises: EnvironmentVariableError for any other word.
    """
    level = os.environ.get("COMPOSER_LOG_LEVEL", "warning").upper()
    if level not in {"DEBUG", "INFO", "WARNING", "ERROR"}:
        raise EnvironmentVariableError(
            f"COMPOSER_LOG_LEVEL={level!r} is not one of debug, info, warning, error"
        )
    return level


def force_tcp_endpoint() -> bool:
    """`COMPOSER_ENGINE_TRANSPORT=tcp` uses the loopback transport of Windows on any system.

    Raises: EnvironmentVariableError for a value other than unix and tcp.
    """
    value = os.environ.get("COMPOSER_ENGINE_TRANSPORT", "")
    if value not in {"", "unix", "tcp"}:
        raise EnvironmentVariableError(
            f"COMPOSER_ENGINE_TRANSPORT={value!r} is neither unix nor tcp"
        )
    return value == "tcp"


def api_key(variable: str) -> str:
    """The API key held by the environment variable that a setting names.

    Raises: EnvironmentVariableError if it is unset or empty.
    """
    value = os.environ.get(variable, "")
    if not value:
        raise EnvironmentVariableError(f"environment variable {variable} holds no API key")
    return value


def _dir(variable: str, default: Callable[[], Path]) -> Path:
    value = os.environ.get(variable)
    if not value:
        return default()
    path = Path(value)
    if not path.is_absolute():
        raise EnvironmentVariableError(f"{variable}={value!r} is not an absolute path")
    return path
