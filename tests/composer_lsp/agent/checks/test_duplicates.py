"""New functions that look like existing ones."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from composer_lsp.index.client import WorkerError
from tests.composer_lsp.agent.checks.conftest import Project

SLUG = """\
def to_slug(title: str, max_length: int = 80) -> str:
    \"\"\"Make a title fit for an address.\"\"\"
    lowered = unicodedata.normalize("NFKD", title).lower()
    cleaned = re.sub(r"[^a-z0-9]+", "-", lowered)
    return cleaned.strip("-")[:max_length]
"""
AGAIN = """\
def slugify(text, limit=60):
    # Letters and digits only.
    text = unicodedata.normalize("NFKD", text).lower()
    slug = re.sub(r"[^a-z0-9]+", "-", text)
    return slug.strip("-")[:limit]
"""
OTHER = """\
def mean_of(rows):
    total = sum(row.weight * row.value for row in rows)
    if not rows:
        raise EmptyError("there are no rows")
    logger.info("the mean of %d rows", len(rows))
    return total / sum(row.weight for row in rows)
"""


class Index:
    """Implements `CodeIndex`: finds the files of one folder by any question."""

    def __init__(self, root: Path, *paths: str, is_there: bool = True) -> None:
        self._found = [{"root": str(root), "path": path} for path in paths]
        self._is_there = is_there
        self.queries: list[tuple[str, str | None]] = []

    async def search(
        self, query: str, *, limit: int = 10, glob: str | None = None, language: str | None = None
    ) -> Mapping[str, Any]:
        if not self._is_there:
            raise WorkerError("the index is off")
        self.queries.append((query, language))
        return {"results": self._found[:limit], "states": {}}

    async def definitions(self, name: str) -> list[Mapping[str, Any]]:
        if not self._is_there:
            raise WorkerError("the index is off")
        return []

    async def references(self, name: str, *, limit: int = 100) -> list[Mapping[str, Any]]:
        raise AssertionError


async def test_points_at_the_function_that_exists(project: Project) -> None:
    project.has({"src/text.py": f"import re\n\n\n{SLUG}", "src/x.py": OTHER})
    await project.write("src/x.py", f"{OTHER}\n\n{AGAIN}")
    (line,) = await project.check()
    assert line.startswith("src/x.py:9 slugify looks like src/text.py:4 to_slug (")
    assert line.endswith("% the same); use it if it does the same")


async def test_points_at_it_once(project: Project) -> None:
    project.has({"text.py": SLUG})
    await project.write("x.py", AGAIN)
    assert len(await project.check()) == 1
    await project.write("x.py", f"import re\n\n\n{AGAIN}")
    assert await project.check() == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("x.py", OTHER),
        ("x.py", "def slug(it):\n    return it.slug\n"),
        ("test_x.py", AGAIN),
        ("x.py", AGAIN.replace("slugify", "__str__")),
        ("x.py", f"def outer():\n    pass\n\n\n{OTHER}"),
    ],
    ids=["another", "accessor", "test", "special", "outer"],
)
async def test_points_at_nothing_else(project: Project, path: str, text: str) -> None:
    project.has({"text.py": SLUG})
    await project.write(path, text)
    assert await project.check() == []


async def test_a_renamed_or_moved_function_is_not_new(project: Project) -> None:
    project.has({"text.py": SLUG, "other.py": SLUG.replace("to_slug", "as_slug")})
    await project.write("text.py", SLUG.replace("to_slug", "slugify"))
    assert await project.check() == []
    await project.write("text.py", "")
    await project.write("new.py", AGAIN)
    assert await project.check() == []


async def test_an_existing_function_that_is_changed_is_not_new(project: Project) -> None:
    project.has({"text.py": SLUG, "x.py": "def slugify():\n    return 1\n"})
    await project.write("text.py", SLUG.replace("80", "90"))
    assert await project.check() == []


async def test_methods_of_one_name_are_meant_to_be_alike(project: Project) -> None:
    method = "".join(f"    {line}\n" for line in AGAIN.splitlines())
    project.has({"a.py": f"class A:\n{method}"})
    await project.write("b.py", f"class B:\n{method}")
    assert await project.check() == []
    await project.write("c.py", f"class C:\n{method.replace('slugify', 'address')}")
    assert len(await project.check()) == 1


async def test_two_new_functions_may_be_the_same(project: Project) -> None:
    await project.write("a.py", SLUG)
    await project.write("b.py", AGAIN)
    (line,) = await project.check()
    assert line.startswith("b.py:1 slugify looks like a.py:1 to_slug (")


async def test_asks_the_index_beyond_the_folder(project: Project) -> None:
    project.has({"lib/deep/text.py": SLUG, "src/x.py": ""})
    await project.write("src/x.py", AGAIN)
    assert await project.check() == []
    index = project.index = Index(project.root, "lib/deep/text.py", "lib/gone.py")
    project.forget_checks()
    (line,) = await project.check()
    assert "lib/deep/text.py:1 to_slug" in line
    ((query, language),) = index.queries
    assert query.startswith("slugify ")
    assert language == "python"


async def test_reads_what_is_staged_rather_than_the_disk(project: Project) -> None:
    project.has({"lib/text.py": SLUG})
    project.index = Index(project.root, "lib/text.py")
    await project.write("lib/text.py", OTHER.replace("mean_of", "to_slug"))
    await project.write("x.py", AGAIN)
    assert await project.check() == []


async def test_variants_stand_beside_each_other(project: Project) -> None:
    variant = AGAIN.replace("lower", "upper").replace(".strip", ".rstrip")
    project.has({"text.py": SLUG})
    await project.write("text.py", f"{SLUG}\n\n{variant}")
    assert await project.check() == []
    await project.write("x.py", variant.replace("slugify", "shout"))
    assert len(await project.check()) == 1


@pytest.mark.parametrize("name", ["to_slug_async", "ato_slug", "async_to_slug"])
async def test_async_callers_may_have_their_own(project: Project, name: str) -> None:
    project.has({"text.py": SLUG})
    await project.write("x.py", f"async {SLUG.replace('to_slug', name)}")
    assert await project.check() == []


async def test_functions_of_one_name_are_not_meant_to_be_alike(project: Project) -> None:
    project.has({"text.py": SLUG})
    await project.write("x.py", SLUG)
    assert len(await project.check()) == 1


async def test_much_the_same_name_needs_less_of_a_body(project: Project) -> None:
    longer = SLUG.replace(
        "    return",
        "    if len(cleaned) > max_length:\n        logger.info('cut %s', cleaned)\n"
        "        cleaned = cleaned[:max_length].rpartition('-')[0] or cleaned\n"
        "    for old, new in REPLACED.items():\n        cleaned = cleaned.replace(old, new)\n"
        "    return",
    )
    project.has({"text.py": SLUG})
    await project.write("a.py", longer.replace("to_slug", "address_of"))
    assert await project.check() == []
    await project.write("a.py", longer.replace("to_slug", "to_slugs"))
    (line,) = await project.check()
    assert "a.py:1 to_slugs looks like text.py:1 to_slug (much the same name)" in line


async def test_a_function_in_a_function_is_nobodys(project: Project) -> None:
    inner = "".join(f"    {line}\n" for line in AGAIN.splitlines())
    project.has({"text.py": SLUG})
    await project.write(
        "x.py", OTHER.replace(":\n", f":\n{inner}", 1) + OTHER.split("\n", 1)[1] * 2
    )
    assert await project.check() == []


async def test_an_index_that_is_off_is_no_problem(project: Project) -> None:
    project.has({"text.py": SLUG})
    project.index = Index(project.root, is_there=False)
    await project.write("x.py", AGAIN)
    assert await project.check() == []


async def test_compares_other_languages_too(project: Project) -> None:
    body = """(rows, limit) {
  const kept = rows.filter((row) => row.score > limit && !row.isHidden);
  kept.sort((a, b) => b.score - a.score);
  return kept.slice(0, 10).map((row) => row.title.trim());
}
"""
    project.has({"a.ts": f"export function bestTitles{body}"})
    await project.write("b.ts", f"// Titles.\nexport function topRows{body.replace('row', 'one')}")
    (line,) = await project.check()
    assert line.startswith("b.ts:2 topRows looks like a.ts:1 bestTitles (")
