"""Lance and Arrow, as this package sees them: neither brings complete types, so both are `Any`.

Importing this costs more than a second of CPU time.
"""

import os
from importlib import import_module
from typing import Any

Table = Any
"""A `lancedb.table.Table`."""
ArrowTable = Any
ArrowSchema = Any
ArrowField = Any


def _limit_threads() -> None:
    # Lance makes its pools on first use; by default they take every core.
    cores = str(max(1, min(2, os.cpu_count() or 1)))
    for name in ("LANCE_CPU_THREADS", "LANCE_IO_THREADS", "TOKIO_WORKER_THREADS"):
        os.environ.setdefault(name, cores)
    os.environ.setdefault("LANCE_LOG", "error")


_limit_threads()
pa: Any = import_module("pyarrow")
lancedb: Any = import_module("lancedb")
lance_index: Any = import_module("lancedb.index")
lance_query: Any = import_module("lancedb.query")
