"""The index's worker processes."""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Self

import psutil

LIMIT_S = 120.0
_HURRIED = """
from composer_index.root import RootIndex
from composer_index.worker import keeper
keeper.TAKEOVER_S = keeper.FULL_S = keeper.IDLE_S = keeper.COMPACT_GRACE_S = 0.2
RootIndex.compact.__kwdefaults__["grace_s"] = 0.1
"""
_RUN = """
import runpy
runpy.run_module("composer_index.worker", run_name="__main__", alter_sys=True)
"""


def workers_of(process: psutil.Process) -> list[psutil.Process]:
    """Those that a process has started and that still run; it may have other children."""
    return [child for child in process.children() if _is_worker(child)]


def _is_worker(process: psutil.Process) -> bool:
    try:
        return any("composer_index.worker" in word for word in process.cmdline())
    except psutil.Error:  # a zombie, or gone just now
        return False


class RefusedError(Exception):
    """The worker's own words."""


class Worker:
    """A worker as a child process, spoken to in lines as the language server does.

    `is_hurried`: it tidies up, and tries again, after a fifth of a second. `faults`: code that it
    runs first.
    """

    def __init__(
        self,
        cache_dir: Path,
        *,
        is_hurried: bool = False,
        faults: str = "",
        environment: Mapping[str, str] | None = None,
        log: IO[bytes] | None = None,
        before: Callable[[], None] | None = None,
    ) -> None:
        code = (_HURRIED if is_hurried else "") + faults
        start = ["-c", code + _RUN] if code else ["-m", "composer_index.worker"]
        self.process = subprocess.Popen(
            [sys.executable, "-P", *start, str(cache_dir)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log or subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
            preexec_fn=before,
        )
        self.told: list[dict[str, Any]] = []
        """What it said unasked."""
        self._answers: dict[int, dict[str, Any]] = {}
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._last_id = 0
        threading.Thread(target=self._read, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    @property
    def messages(self) -> list[str]:
        """For the user."""
        return [each["params"]["message"] for each in self.told if each["method"] == "message"]

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def tell(self, method: str, **params: Any) -> None:
        self.send(json.dumps({"method": method, "params": params}).encode() + b"\n")

    def begin(self, method: str, **params: Any) -> int:
        """Asks; `answer` waits for the answer."""
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": params}
        self.send(json.dumps(message).encode() + b"\n")
        return self._last_id

    def answer(self, number: int) -> Any:
        """Raises: RefusedError."""
        latest = time.monotonic() + LIMIT_S
        while number not in self._answers:
            self.listen(latest)
        answer = self._answers.pop(number)
        if "error" in answer:
            raise RefusedError(answer["error"])
        return answer["result"]

    def ask(self, method: str, **params: Any) -> Any:
        """Raises: RefusedError."""
        return self.answer(self.begin(method, **params))

    def listen(self, latest: float) -> None:
        """Takes the next line, which comes before `latest`."""
        self._take(self._lines.get(timeout=max(0.0, latest - time.monotonic())))

    def _take(self, line: bytes) -> None:
        assert line, f"the worker ended with {self.process.wait()}"
        message = json.loads(line)
        if "id" in message:
            self._answers[message["id"]] = message
        else:
            self.told.append(message)

    def until(self, condition: Callable[[], object], what: str, limit_s: float = LIMIT_S) -> None:
        """Asks again and again."""
        latest = time.monotonic() + limit_s
        while not condition():
            while not self._lines.empty():
                self._take(self._lines.get())
            assert time.monotonic() < latest, f"waited {limit_s:g} s for {what}; {self.messages}"
            time.sleep(0.02)

    def open(self, root: Path, **params: Any) -> None:
        self.tell("open", root=str(root), **params)

    def status(self, root: Path) -> Mapping[str, Any]:
        real = str(root.resolve())
        (found,) = [each for each in self.ask("status") if each["root"] == real]
        return found

    def knows(self, name: str, root: Path | None = None) -> bool:
        """Whether it has the definition of exactly this name."""
        return bool(self.ask("definitions", name=name, root=None if root is None else str(root)))

    def search(self, query: str, root: Path | None = None, limit: int = 10) -> list[Any]:
        where = None if root is None else str(root)
        return self.ask("search", query=query, limit=limit, root=where)["results"]

    def until_current(self, root: Path, limit_s: float = LIMIT_S) -> None:
        """Until all that happened in the root before is stored, by its own watching alone: a file
        that comes now is told of later."""
        name = f"mark_{time.monotonic_ns()}"
        mark = root / f"{name}.py"
        mark.write_text(f"def {name}():\n    pass\n")
        self.until(lambda: self.knows(name, root), f"{name} to come", limit_s)
        mark.unlink()
        self.until(lambda: not self.knows(name, root), f"{name} to go", limit_s)
        self.until(lambda: self.is_idle(root), "all to be stored", limit_s)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """As a window does that is closed."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(LIMIT_S)

    def is_idle(self, root: Path) -> bool:
        """Whether all that it knows of is stored."""
        status = self.status(root)
        return status["state"] == "ready" and not status["num_waiting"]

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")
