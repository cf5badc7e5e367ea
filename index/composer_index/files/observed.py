"""Watches a workspace where the system watches a whole tree at once: macOS and Windows.

Not tried on either; the tests drive it on Linux. What the system loses it does not tell, so
only reconciling finds it."""

import os
from collections.abc import Callable
from pathlib import Path

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

from composer_index.files.changes import Changes
from composer_index.files.folders import with_targets
from composer_index.ignores import git
from composer_index.ignores.rules import RULE_FILE_NAMES, Rules

_GIT_STATE = ("HEAD", "index")
_KINDS = frozenset({"created", "modified", "closed", "deleted", "moved"})
_MAX_NUM_EVENTS = 1 << 16


class ObservedTree(FileSystemEventHandler):
    """Stands in for `InotifyTree`. Events arrive in watchdog's thread, which only queues them."""

    def __init__(self, rules: Rules, wake: Callable[[], None]) -> None:
        """Raises: OSError."""
        self._rules = rules
        self._wake = wake
        self._events: list[tuple[str, bool, bool]] = []
        self._telling = set[str]()
        """Files that tell more than of themselves."""
        self._observer = Observer()
        self._observer.schedule(self, rules.root, recursive=True)
        self._observer.start()

    @property
    def trouble(self) -> str:
        return ""

    def close(self) -> None:
        self._observer.stop()
        self._observer.join()

    def watch_all(self) -> bool:
        former = self._telling
        try:
            repository = git.find_repository(self._rules.root)
        except git.GitError:
            files = git.user_rule_files()
        else:
            state = {f"{repository.git_dir}/{name}" for name in _GIT_STATE}
            files = repository.rule_files | state
        self._telling = with_targets(files)
        for folder in {str(Path(file).parent) for file in self._telling}:
            if self._rules.relative(folder) is None and Path(folder).is_dir():
                self._observer.schedule(self, folder)
        return not self._telling <= former

    def collect(self, changes: Changes) -> None:
        events, self._events = self._events, []
        changes.is_overflow |= len(events) >= _MAX_NUM_EVENTS
        for path, is_folder, is_gone in events:
            self._take(changes, path, is_folder=is_folder, is_gone=is_gone)

    def on_any_event(self, event: FileSystemEvent) -> None:
        if event.event_type not in _KINDS or len(self._events) >= _MAX_NUM_EVENTS:
            return
        is_gone = event.event_type in ("deleted", "moved")
        self._events.append((os.fsdecode(event.src_path), event.is_directory, is_gone))
        if event.dest_path:
            self._events.append((os.fsdecode(event.dest_path), event.is_directory, False))
        self._wake()

    def _take(self, changes: Changes, path: str, *, is_folder: bool, is_gone: bool) -> None:
        if path in self._telling:
            changes.is_overflow = True
            changes.are_folders_stale |= Path(path).name not in _GIT_STATE
        relative = self._rules.relative(path)
        if relative is None or ".git" in relative.split("/"):
            return
        if relative == ".":
            changes.is_root_gone |= is_gone
        elif not is_folder:
            changes.paths.add(relative)
            changes.is_overflow |= Path(relative).name in RULE_FILE_NAMES
        elif is_gone:
            changes.folders.add(relative)
