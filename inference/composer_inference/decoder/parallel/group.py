"""The ranks' connection, by torch.distributed: NCCL between GPUs, gloo on the CPU, all on one machine."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed import FileStore, distributed_c10d  # pyright: ignore[reportPrivateImportUsage]

TIMEOUT = timedelta(minutes=2)
"""Of one sum, which waits for the slowest rank; and of connecting."""


class RankGroup:
    """Implements `Group`. Not the process's default group: several models may have one each."""

    def __init__(self, meeting_point: Path, *, rank: int, num_ranks: int) -> None:
        """`meeting_point`: a file that is not there yet, the same of all ranks."""
        self._meeting_point = meeting_point
        self._rank = rank
        self._num_ranks = num_ranks
        self._group: Any = None

    def connect(self, device: torch.device) -> None:
        """Waits for the other ranks.

        Raises: RuntimeError if one does not come within `TIMEOUT`.
        """
        store = FileStore(str(self._meeting_point), self._num_ranks)
        store.set_timeout(TIMEOUT)
        kind: Any = (
            distributed_c10d.ProcessGroupNCCL
            if device.type == "cuda"
            else distributed_c10d.ProcessGroupGloo
        )
        if device.type == "cuda":
            options = kind.Options()
        else:
            options = kind._Options()
            # Nothing outside the machine is to reach it.
            options._devices = [kind.create_device(hostname="127.0.0.1")]
        options._timeout = TIMEOUT
        self._group = kind(store, self._rank, self._num_ranks, options)

    def sum(self, x: Tensor) -> Tensor:
        """Raises: RuntimeError where a rank has ended, or does not come within `TIMEOUT`."""
        self._group.allreduce([x]).wait()
        return x
