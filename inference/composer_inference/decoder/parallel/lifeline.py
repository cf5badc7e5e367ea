"""A child process that does not outlive its parent, whatever it is doing."""

import multiprocessing
import os
import threading
from multiprocessing.connection import wait


def end_with_parent() -> None:
    """Ends this process at once when the one that started it by `multiprocessing` has ended, however
    that did, also while this one waits for it elsewhere."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="lifeline", daemon=True).start()
