"""A child process that never ends by itself."""

import json
import os
import threading

from composer_inference.decoder.parallel.lifeline import end_with_parent


def wait_forever() -> None:
    end_with_parent()
    print(json.dumps({"parent": os.getppid()}), flush=True)
    threading.Event().wait()
