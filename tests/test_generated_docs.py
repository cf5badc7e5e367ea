"""scripts/generate_docs.py: what it writes, and that nothing it writes is stale."""

import argparse
import dataclasses
import importlib.util
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import pytest

from composer_lsp.config import Settings
from composer_lsp.server.settings import parse_settings

ROOT = Path(__file__).parent.parent


def _load() -> ModuleType:
    path = ROOT / "scripts" / "generate_docs.py"
    spec = importlib.util.spec_from_file_location("generate_docs", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


docs = _load()
FILES = ["README.md", "docs/configuration.md", "docs/cli.md", "editor-clients/vscode/package.json"]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the files that have generated parts."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_nothing_is_stale() -> None:
    assert docs.main(["--check"]) == 0


@pytest.mark.parametrize("name", FILES)
def test_check_tells_what_is_stale_and_changes_nothing(
    tree: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tree / name
    stale = path.read_text().replace("Longest suggestion", "Shortest suggestion")
    assert stale != path.read_text()
    path.write_text(stale)

    assert docs.main(["--check"], root=tree) == 1
    assert name in capsys.readouterr().err
    assert path.read_text() == stale

    assert docs.main([], root=tree) == 0
    assert path.read_text() == (ROOT / name).read_text()


def test_document_without_a_place_for_the_table_is_named() -> None:
    with pytest.raises(docs.MissingMarkerError, match=r"page\.md lacks <!-- settings:begin -->"):
        docs.replace_block("# Page\n<!-- settings:end -->\n", "settings", "table", "page.md")


def test_every_default_in_the_schema_is_what_the_server_uses() -> None:
    values: dict[str, Any] = {}
    for setting in docs.settings():
        _, *path, last = setting.key.split(".")
        inner = values
        for name in path:
            inner = inner.setdefault(name, {})
        inner[last] = docs.as_json(setting.default)

    assert parse_settings(values) == (Settings(), [])


def test_untrusted_folder_cannot_choose_a_program_a_url_or_a_key() -> None:
    manifest = json.loads((ROOT / "editor-clients/vscode/package.json").read_text())
    restricted = manifest["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"]
    assert {
        "composer.server.command",
        "composer.tab.url",
        "composer.tab.apiKeyEnv",
        "composer.agent.url",
        "composer.agent.apiKeyEnv",
        "composer.modelDownload",
    } <= set(restricted)


def test_no_folder_chooses_what_may_run_on_the_machine() -> None:
    manifest = json.loads((ROOT / "editor-clients/vscode/package.json").read_text())
    properties = {
        key: value
        for group in manifest["contributes"]["configuration"]
        for key, value in group["properties"].items()
    }
    for name in ("commandRules", "mcpServers", "sandboxReadOnlyPaths"):
        assert properties[f"composer.agent.{name}"]["scope"] == "machine"


@dataclasses.dataclass
class _Base:
    a: int = 1
    """Above,
    over two lines."""


@dataclasses.dataclass
class _Derived(_Base):
    b: int = 2
    """Below."""


def test_documentation_of_a_field_is_the_string_under_it_in_whichever_class() -> None:
    assert docs.field_documentation(_Derived) == {"a": "Above, over two lines.", "b": "Below."}


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        pytest.param(bool, {"type": "boolean"}, id="bool"),
        pytest.param(int, {"type": "integer", "minimum": 0}, id="int"),
        pytest.param(Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, id="literal"),
        pytest.param(
            Mapping[str, Any],
            {"type": "object", "additionalProperties": {"type": "object"}},
            id="names",
        ),
        pytest.param(tuple[str, ...], {"type": "array", "items": {"type": "string"}}, id="strings"),
    ],
)
def test_schema_of_a_type(kind: Any, schema: dict[str, Any]) -> None:
    assert docs.json_schema(kind) == schema


def test_type_without_a_schema_is_an_error() -> None:
    with pytest.raises(TypeError, match="bytes"):
        docs.json_schema(bytes)


def test_page_of_a_command_with_subcommands() -> None:
    parser = argparse.ArgumentParser(prog="tool", description="do things")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    get = commands.add_parser("get", help="get one")
    get.add_argument("name", help="which | whose")
    get.add_argument("--limit", "-n", type=int, default=3, help="how many (default: %(default)s)")
    get.add_argument("--quiet", action="store_true", help="say nothing")
    get.add_argument("--secret", help=argparse.SUPPRESS)

    assert "\n\n".join(docs.command_sections(parser, level=2)) == (
        "## `tool`\n\n"
        "Do things.\n\n"
        "### `tool get`\n\n"
        "Get one.\n\n"
        "```console\ntool get [options] NAME\n```\n\n"
        "| Argument | Meaning |\n|---|---|\n"
        "| `NAME` | Which \\| whose. |\n"
        "| `--limit LIMIT`, `-n LIMIT` | How many (default: 3). |\n"
        "| `--quiet` | Say nothing. |"
    )
