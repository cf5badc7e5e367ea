"""What belongs to a place: imports, siblings, the test, what is edited together."""

import subprocess
from pathlib import Path

import pytest

from composer_index.search.history import History
from composer_index.search.imports import places
from composer_index.search.query import Searcher
from composer_index.search.related import resolve
from composer_index.search.shadow import Shadow
from composer_index.store.records import IndexedFile
from composer_index.store.store import Store
from tests.composer_index.store.building import indexed, parsed, stat_of

TREE = [
    *("pkg/a.py", "pkg/__init__.py", "pkg/sub/b.py", "pkg/sub/__init__.py", "src/lib/c.py"),
    *("web/src/app/x.ts", "web/src/lib/y.tsx", "web/src/lib/index.js", "web/src/z.d.ts"),
    *("cmd/main.go", "internal/store/store.go", "internal/store/lock.go"),
    *("crate/src/lib.rs", "crate/src/net/mod.rs", "crate/src/net/tcp.rs", "crate/src/util.rs"),
    *("other-crate/src/lib.rs", "other-crate/src/wire.rs"),
    *("app/src/main/java/com/foo/Bar.java", "lib/src/main/java/com/foo/Baz.java"),
    *("include/net/sock.h", "src/net/sock.c", "src/net/local.h"),
    *("lib/tool/run.rb", "app/Models/User.php", "lua/plug/core.lua", "lua/plug/init.lua"),
]

IMPORTS = [
    ("pkg/sub/b.py", "python", "pkg.a", ["pkg/a.py"]),
    ("pkg/sub/b.py", "python", "..a", ["pkg/a.py"]),
    ("pkg/sub/b.py", "python", ".", ["pkg/sub/__init__.py"]),
    ("pkg/a.py", "python", ".sub.b", ["pkg/sub/b.py"]),
    ("pkg/a.py", "python", "lib.c", ["src/lib/c.py"]),
    ("pkg/a.py", "python", "os.path", []),
    ("web/src/app/x.ts", "typescript", "../lib/y", ["web/src/lib/y.tsx"]),
    ("web/src/app/x.ts", "typescript", "../lib", ["web/src/lib/index.js"]),
    ("web/src/app/x.ts", "typescript", "../z.js", ["web/src/z.d.ts"]),
    ("web/src/app/x.ts", "typescript", "@/lib/y", ["web/src/lib/y.tsx"]),
    ("web/src/app/x.ts", "typescript", "react", []),
    (
        "cmd/main.go",
        "go",
        "example.org/me/tool/internal/store",
        ["internal/store/lock.go", "internal/store/store.go"],
    ),
    ("cmd/main.go", "go", "fmt", []),
    ("crate/src/net/tcp.rs", "rust", "crate::util::Thing", ["crate/src/util.rs"]),
    ("crate/src/net/tcp.rs", "rust", "super::Socket", []),
    ("crate/src/lib.rs", "rust", "net", ["crate/src/net/mod.rs"]),
    ("crate/src/net/mod.rs", "rust", "self::tcp::{Stream,Listener}", ["crate/src/net/tcp.rs"]),
    ("crate/src/lib.rs", "rust", "other_crate::wire::Frame", ["other-crate/src/wire.rs"]),
    ("crate/src/lib.rs", "rust", "std::fmt", []),
    (
        "app/src/main/java/com/foo/Bar.java",
        "java",
        "com.foo.Baz.make",
        ["lib/src/main/java/com/foo/Baz.java"],
    ),
    ("src/net/sock.c", "c", "net/sock.h", ["include/net/sock.h"]),
    ("src/net/sock.c", "c", "local.h", ["src/net/local.h"]),
    ("src/net/sock.c", "c", "stdio.h", []),
    ("lib/main.rb", "ruby", "tool/run", ["lib/tool/run.rb"]),
    ("app/Http/C.php", "php", "App\\Models\\User", ["app/Models/User.php"]),
    ("init.lua", "lua", "plug.core", ["lua/plug/core.lua"]),
    ("init.lua", "lua", "plug", ["lua/plug/init.lua"]),
    ("a.cobol", "cobol", "x", []),
]


def ending(endings: list[str]) -> list[str]:
    return [
        path
        for path in TREE
        if any(
            f"/{path}".endswith(f"/{end}") or f"/{path.rpartition('/')[0]}/".endswith(f"/{end}")
            for end in endings
        )
    ]


@pytest.mark.parametrize(
    ("path", "language", "name", "files"), IMPORTS, ids=[f"{i[1]} {i[2]}" for i in IMPORTS]
)
def test_imports_lead_to_files(path: str, language: str, name: str, files: list[str]):
    found = resolve(
        path, language, [name], lambda paths: set(paths) & set(TREE), lambda ends: ending([*ends])
    )
    assert sorted(found) == files


def test_places_stay_in_the_workspace_or_are_harmless():
    found = places("a.py", "python", "....x")
    assert all(not path.startswith("/") for path in found.paths)


@pytest.fixture
def store(tmp_path: Path):
    opened = Store.open(tmp_path / "store")
    yield opened
    opened.close()


def kinds(results: list) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for result in results:
        found.setdefault(result.why[0], []).append(f"{result.path}:{result.symbol}")
    return found


def test_related_gathers_each_kind(store: Store):
    here = parsed("pkg/a.py", "one calls helper", "two calls other", imports=("pkg.b",))
    store.upsert_files(
        [
            IndexedFile(parsed=here, stat=stat_of(1)),
            indexed("pkg/b.py", "unused text", "helper text", "other text"),
            indexed("tests/test_a.py", "test_one checks one", "test_two checks"),
        ]
    )
    found = kinds(Searcher(store).related("pkg/a.py", 1))
    assert found == {
        "import": ["pkg/b.py:helper"],
        "sibling": ["pkg/a.py:two"],
        "test": ["tests/test_a.py:test_one"],
    }
    assert kinds(Searcher(store).related("tests/test_a.py", 1))["test"] == ["pkg/a.py:one"]
    assert Searcher(store).related("unknown.py", 1) == []


def test_related_reads_the_unsaved_buffer(store: Store):
    store.upsert_files([indexed("pkg/b.py", "helper text"), indexed("pkg/a.py", "old")])
    searcher = Searcher(store)
    buffer = parsed("pkg/a.py", "new calls helper", imports=(".b",))
    searcher.shadow = Shadow(files={"pkg/a.py": buffer})
    assert kinds(searcher.related("pkg/a.py", 1)) == {"import": ["pkg/b.py:helper"]}


def test_history_ties_files_of_small_commits(tmp_path: Path, store: Store):
    root = tmp_path / "repository"
    root.mkdir()

    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)

    def commit(*paths: str) -> None:
        for path in paths:
            with (root / path).open("a") as file:
                file.write("more\n")
        git("add", ".")
        git("commit", "-m", "change")

    git("init")
    commit(*(f"f{number}.py" for number in range(40)))
    commit("f0.py", "f1.py")
    commit("f0.py", "f1.py")
    commit("f0.py", "f2.py", "naïve.py")
    history = History(str(root))
    history.wait()
    assert history.together("f0.py", 5) == ["f1.py", "f2.py", "naïve.py"]
    store.upsert_files([indexed("f0.py", "text"), indexed("f2.py", "text two")])
    found = Searcher(store).related("f0.py", 1, history=history)
    assert kinds(found) == {"edited together": ["f2.py:text"]}


def test_no_repository_no_history(tmp_path: Path):
    history = History(str(tmp_path))
    history.wait()
    assert history.together("a.py", 5) == []
