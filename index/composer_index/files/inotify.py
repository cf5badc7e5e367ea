"""Watches a workspace's folders on Linux, one inotify watch a folder that is not ignored.

On watchdog's lowest layer: its observer watches ignored folders as well and asks the kernel to tell
of every file that is opened (docs/decisions/0005-watching.md)."""

import errno
import os
import threading
from collections import deque
from collections.abc import Callable

from watchdog.observers.inotify_c import (
    CallbackId,
    InotifyConstants,
    InotifyEvent,
    InotifyFD,
    Mask,
    WatchDescriptor,
)

from composer_index.files.changes import Changes
from composer_index.files.folders import list_folders, with_targets
from composer_index.ignores import git, layered
from composer_index.ignores.rules import RULE_FILE_NAMES, Rules

_MASK = Mask(
    InotifyConstants.IN_CREATE
    | InotifyConstants.IN_CLOSE_WRITE
    | InotifyConstants.IN_DELETE
    | InotifyConstants.IN_MOVE
    | InotifyConstants.IN_DELETE_SELF
    | InotifyConstants.IN_MOVE_SELF
    | InotifyConstants.IN_ONLYDIR
    | InotifyConstants.IN_DONT_FOLLOW
    | InotifyConstants.IN_EXCL_UNLINK
)
_APPEARS = InotifyConstants.IN_CREATE | InotifyConstants.IN_MOVED_TO
_GOES = InotifyConstants.IN_DELETE | InotifyConstants.IN_MOVED_FROM
_GONE_SELF = (
    InotifyConstants.IN_DELETE_SELF | InotifyConstants.IN_MOVE_SELF | InotifyConstants.IN_UNMOUNT
)
_GIT_STATE = frozenset({"HEAD", "index"})
_MAX_NUM_EVENTS = 1 << 16
"""Held between two collections."""
_TREE_ID = CallbackId(0)
_NAMES_IDS = (CallbackId(1), CallbackId(2))
"""By turns, so that what stays watched never ceases to be."""


class InotifyTree:
    """Events arrive in watchdog's thread, which only queues them. All else is for the thread that
    made it."""

    def __init__(self, rules: Rules, wake: Callable[[], None], *, max_num_watches: int) -> None:
        """Raises: OSError if the system has no more inotify instances."""
        self._rules = rules
        self._wake = wake
        self._max_num_watches = max_num_watches
        self._lock = threading.Lock()
        self._events: deque[tuple[WatchDescriptor, int, str]] = deque()
        self._are_events_lost = False
        self._is_unsure = False
        self._paths: dict[WatchDescriptor, str] = {}
        self._descriptors: dict[str, WatchDescriptor] = {}
        self._names: dict[WatchDescriptor, set[str]] = {}
        """Folders, most of them outside of the tree, and the names in them that tell something."""
        self._named: dict[str, WatchDescriptor] = {}
        self._names_id, self._former_names_id = _NAMES_IDS
        self._trouble = ""
        self._inotify = InotifyFD()
        self._inotify.start()

    @property
    def trouble(self) -> str:
        """Why not all is watched, "" if all is."""
        return self._trouble

    @property
    def num_watches(self) -> int:
        return len(self._paths.keys() | self._names.keys())

    def close(self) -> None:
        self._inotify.stop()
        self._inotify.join()

    def watch_all(self) -> bool:
        """Watches all folders that are not ignored, and the files that say what is, and no others.
        Whether there were new ones."""
        self._trouble = ""
        former_names, self._names = self._names, {}
        self._named.clear()
        self._names_id, self._former_names_id = self._former_names_id, self._names_id
        if self._is_unsure:
            # A watch may have died with its folder without our hearing of it.
            self._is_unsure = False
            for path in list(self._descriptors):
                self._forget(path)
        unwanted = set(self._descriptors)
        num_before = len(self._descriptors)
        for path in list_folders(self._rules):
            unwanted.discard(path)
            if not self._watch(path):
                unwanted.clear()
                break
            if not path or layered.is_repository(self._rules.absolute(path)):
                self._watch_repository(path)
        has_new = len(self._descriptors) > num_before
        for path in unwanted:
            self._forget(path)
        self._inotify.remove_callbacks([(each, self._former_names_id) for each in former_names])
        return has_new or any(
            names - former_names.get(descriptor, set()) for descriptor, names in self._names.items()
        )

    def collect(self, changes: Changes) -> None:
        """Takes what has happened since. Watches new folders; what is in them then is told of."""
        with self._lock:
            events, self._events = self._events, deque()
            if self._are_events_lost:
                self._are_events_lost = False
                self._is_unsure = True
                changes.is_overflow = changes.are_folders_stale = True
        new: dict[str, None] = {}
        for descriptor, mask, name in events:
            if (folder := self._paths.get(descriptor)) is not None:
                self._take(changes, new, folder, mask, name)
            if name in self._names.get(descriptor, ()):
                changes.is_overflow = True
                changes.are_folders_stale |= name not in _GIT_STATE
            if mask & InotifyConstants.IN_IGNORED:
                changes.are_folders_stale |= descriptor in self._names
                self._drop(descriptor)
        self._watch_new(changes, list(new))

    # Called in watchdog's thread:

    def on_event(self, event: InotifyEvent) -> None:
        self._put(event.wd, event.mask, os.fsdecode(event.name))

    def on_watch_deleted(self, wd: WatchDescriptor) -> None:
        self._put(wd, InotifyConstants.IN_IGNORED, "")

    def on_queue_overflow(self) -> None:
        with self._lock:
            self._are_events_lost = True
        self._wake()

    def _put(self, descriptor: WatchDescriptor, mask: int, name: str) -> None:
        with self._lock:
            if len(self._events) >= _MAX_NUM_EVENTS:
                self._events.clear()
                self._are_events_lost = True
            self._events.append((descriptor, mask, name))
        self._wake()

    # End.

    def _take(
        self, changes: Changes, new: dict[str, None], folder: str, mask: int, name: str
    ) -> None:
        path = f"{folder}/{name}" if folder else name
        if not name:
            changes.is_root_gone |= not folder and bool(mask & _GONE_SELF)
        elif name == ".git":
            # A repository has come or gone here, and other rules with it.
            changes.is_overflow = changes.are_folders_stale = True
        elif not mask & InotifyConstants.IN_ISDIR:
            changes.paths.add(path)
            if name in RULE_FILE_NAMES:
                changes.is_overflow = changes.are_folders_stale = True
        elif mask & _APPEARS:
            new[path] = None
        elif mask & _GOES:
            new.pop(path, None)
            changes.folders.add(path)
            self._forget(path, is_moved=bool(mask & InotifyConstants.IN_MOVED_FROM))

    def _watch_new(self, changes: Changes, paths: list[str]) -> None:
        """Level by level, so that git is asked once a level."""
        while paths:
            hidden = self._rules.hidden_many(paths)
            below: list[str] = []
            for path in paths:
                if path in hidden or not self._watch(path):
                    continue
                # A file that comes from here on has an event of its own.
                folder = self._rules.absolute(path)
                if layered.is_repository(folder):
                    changes.is_overflow = changes.are_folders_stale = True
                try:
                    with os.scandir(folder) as entries:
                        for entry in entries:
                            if not entry.is_dir(follow_symlinks=False):
                                changes.paths.add(f"{path}/{entry.name}")
                                changes.is_overflow |= entry.name in RULE_FILE_NAMES
                            elif entry.name != ".git":
                                below.append(f"{path}/{entry.name}")
                except OSError:
                    continue
            paths = below

    def _watch(self, path: str) -> bool:
        """False if there is no room for more. A folder that is gone or cannot be read is none."""
        if path in self._descriptors:
            return True
        descriptor = self._added(self._rules.absolute(path), _TREE_ID)
        if descriptor is None:
            return not self._trouble
        former = self._paths.get(descriptor)
        if former is not None:  # the folder was moved here
            self._descriptors.pop(former, None)
        self._paths[descriptor] = path
        self._descriptors[path] = descriptor
        return True

    def _added(self, folder: str, number: CallbackId) -> WatchDescriptor | None:
        if self.num_watches >= self._max_num_watches:
            self._trouble = f"more than {self._max_num_watches} folders"
            return None
        if not os.access(folder, os.R_OK):
            return None
        try:
            descriptor = self._inotify.add_callback(os.fsencode(folder), _MASK, self, number)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                self._trouble = "the system's limit fs.inotify.max_user_watches is reached"
            return None
        return descriptor if descriptor >= 0 else None

    def _watch_repository(self, path: str) -> None:
        try:
            repository = git.find_repository(self._rules.absolute(path))
        except git.GitError:
            files = set[str]() if path else git.user_rule_files()
        else:
            self._watch_names(repository.git_dir, _GIT_STATE)
            files = repository.rule_files
        for file in with_targets(files):
            folder, name = os.path.split(file)
            while not os.path.isdir(folder):  # noqa: PTH112 - any error is a no
                folder, name = os.path.split(folder)  # It may appear.
            self._watch_names(folder, {name})

    def _watch_names(self, folder: str, names: frozenset[str] | set[str]) -> None:
        folder = os.path.realpath(folder)
        descriptor = self._named.get(folder)
        if descriptor is None:
            descriptor = self._added(folder, self._names_id)
        if descriptor is not None:
            self._named[folder] = descriptor
            self._names.setdefault(descriptor, set()).update(names)

    def _forget(self, path: str, *, is_moved: bool = False) -> None:
        """`is_moved`: the folders in it are still there and watched, by a wrong name."""
        paths = [path]
        if is_moved:
            prefix = path + "/"
            paths += [below for below in self._descriptors if below.startswith(prefix)]
        for below in paths:
            descriptor = self._descriptors.pop(below, None)
            if descriptor is not None:
                self._paths.pop(descriptor, None)
                self._inotify.remove_callbacks([(descriptor, _TREE_ID)])

    def _drop(self, descriptor: WatchDescriptor) -> None:
        """A watch that the system has taken away, with its folder."""
        self._names.pop(descriptor, None)
        path = self._paths.pop(descriptor, None)
        if path is not None and self._descriptors.get(path) == descriptor:
            del self._descriptors[path]
