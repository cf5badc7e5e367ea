"""Changes as a unified diff, as `git apply` takes it."""

from collections.abc import Iterable, Iterator
from difflib import unified_diff

from composer_lsp.agent.edits.change_set import FileChange
from composer_lsp.agent.edits.lines import split_lines


def unified(changes: Iterable[FileChange]) -> str:
    return "".join(line for change in changes for line in _of(change))


def _of(change: FileChange) -> Iterator[str]:
    old, new = change.moved_from or change.path, change.path
    yield f"diff --git a/{old} b/{new}\n"
    if change.before is None:
        yield "new file mode 100644\n"
    elif change.after is None:
        yield "deleted file mode 100644\n"
    elif change.moved_from is not None:
        yield f"rename from {old}\nrename to {new}\n"
    lines = unified_diff(
        split_lines(change.before_text),
        split_lines(change.after or ""),
        "/dev/null" if change.before is None else f"a/{old}",
        "/dev/null" if change.after is None else f"b/{new}",
    )
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
