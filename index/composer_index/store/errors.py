"""What can go wrong with the store, each with the way out."""


class StoreError(Exception):
    """Any failure of the store. Search by text needs none of it, and goes on."""


class NotWriterError(StoreError):
    """Another process writes this root's store; this one may only search it."""


class StoreFullError(StoreError):
    """The disk, or the user's quota on it, is full. What was stored before stays searchable; write
    again once there is room."""


class StoreBrokenError(StoreError):
    """The database cannot be read. The writer begins an empty one: index everything anew."""
