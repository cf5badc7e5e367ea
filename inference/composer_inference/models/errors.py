"""What can go wrong with a model's file. Each message names the thing and the way out."""

import errno
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


class ModelError(Exception):
    """A model cannot be found, fetched or used."""


class UnknownModelError(ModelError):
    """Neither the catalogue nor this machine has a model of this name."""


class ModelNotInstalledError(ModelError):
    """The catalogue knows the model, and this machine does not have it."""


class ModelFileError(ModelError):
    """An installed model's file has vanished or is not what was stored."""


class ModelFolderError(ModelError):
    """The folder of the models cannot be read or written."""


class InvalidModelFileError(ModelError):
    """The file that the user named is not a GGUF model."""


class ModelNameError(ModelError):
    """The name cannot be used for a model, or belongs to another one."""


class DownloadError(ModelError):
    """A model could not be fetched from any source."""


class SourceError(DownloadError):
    """One source could not give the model; the next one may."""


class DigestMismatchError(SourceError):
    """A source gave other bytes than those that the catalogue pins."""


class DiskFullError(DownloadError):
    """The disk has no room for the model; what had been fetched is removed again."""


DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


@contextmanager
def folder_errors_told(folder: Path) -> Generator[None]:
    """Turns what the system refuses in the models' folder into a ModelFolderError."""
    try:
        yield
    except BrokenPipeError:
        raise  # whoever was told of the progress has gone
    except OSError as error:
        raise ModelFolderError(_explained(folder, error)) from error


def _explained(folder: Path, error: OSError) -> str:
    what = str(error.filename or folder)
    if error.errno in DISK_FULL:
        way_out = "make room, or set COMPOSER_DATA_DIR to a folder on another disk"
    elif isinstance(error, PermissionError):
        way_out = f"run: chmod -R u+rwX {folder}, or set COMPOSER_DATA_DIR to a folder of your own"
    else:
        way_out = "set COMPOSER_DATA_DIR to a folder that can be used"
    return f"cannot use {what} in the models' folder {folder}: {error.strerror}; {way_out}"
