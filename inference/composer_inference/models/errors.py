"""What can go wrong with a model's file. Each message names the thing and the way out."""


class ModelError(Exception):
    """A model cannot be found, fetched or used."""


class UnknownModelError(ModelError):
    """Neither the catalogue nor this machine has a model of this name."""


class ModelNotInstalledError(ModelError):
    """The catalogue knows the model, and this machine does not have it."""


class ModelFileError(ModelError):
    """An installed model's file has vanished or is not what was stored."""


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
