"""The linters and type checkers that are known. A new one is one more entry of the table."""

from dataclasses import dataclass
from typing import Literal

from composer_lsp.agent.checks import parsers
from composer_lsp.agent.checks.configured import (
    Configured,
    any_of,
    has_file,
    has_key,
    has_section,
    has_table,
)
from composer_lsp.agent.checks.parsers import Parser, by_pattern

Target = Literal["files", "folders", "project"]

_PYTHON = frozenset({"python"})
_TYPESCRIPT = frozenset({"typescript", "typescriptreact"})
_JAVASCRIPT = _TYPESCRIPT | {"javascript", "javascriptreact"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Linter:
    """Runs in the nearest folder above a file that configures it."""

    name: str
    """Begins with the name of its program."""
    languages: frozenset[str]
    """LSP language ids of the files that it is run for."""
    is_configured: Configured
    args: tuple[str, ...]
    """Output that a program reads, no changes to files, no colours."""
    parse: Parser
    target: Target = "files"
    """What follows the arguments: the files, the folders that hold them, or nothing, where it looks
    at the whole project."""
    python_option: str = ""
    """Names the interpreter of the workspace's virtual environment, where there is one."""
    timeout_s: float = 8.0

    @property
    def program(self) -> str:
        return self.name.split()[0]


LINTERS = (
    Linter(
        name="ruff",
        languages=_PYTHON,
        is_configured=any_of(
            has_file("ruff.toml", ".ruff.toml"), has_table("pyproject.toml", "tool.ruff")
        ),
        args=(
            *("check", "--output-format", "json-lines", "--no-fix", "--force-exclude"),
            *("--no-cache", "--quiet"),
        ),
        parse=parsers.ruff,
    ),
    Linter(
        name="flake8",
        languages=_PYTHON,
        is_configured=any_of(
            has_file(".flake8"),
            has_section("setup.cfg", "flake8"),
            has_section("tox.ini", "flake8"),
        ),
        args=("--color=never", "--format=default"),
        parse=by_pattern(
            r"^(?P<path>[^:\n]+):(?P<line>\d+):\d+: (?P<code>[A-Z]+\d+) (?P<message>.+)"
        ),
    ),
    Linter(
        name="pylint",
        languages=_PYTHON,
        is_configured=any_of(
            has_file(".pylintrc", "pylintrc", ".pylintrc.toml", "pylintrc.toml"),
            has_table("pyproject.toml", "tool.pylint"),
            has_section("setup.cfg", "pylint"),
        ),
        args=(
            *("--score=n", "--reports=n"),
            "--msg-template={path}:{line}: {category}: {symbol}: {msg}",
        ),
        parse=by_pattern(
            r"^(?P<path>[^:\n]+):(?P<line>\d+): (?P<severity>\w+): (?P<code>[\w-]+): (?P<message>.+)"
        ),
    ),
    Linter(
        name="mypy",
        languages=_PYTHON,
        is_configured=any_of(
            has_file("mypy.ini", ".mypy.ini"),
            has_section("setup.cfg", "mypy"),
            has_table("pyproject.toml", "tool.mypy"),
        ),
        args=(
            *("--no-error-summary", "--no-color-output", "--no-pretty", "--hide-error-context"),
            "--show-error-codes",
        ),
        parse=by_pattern(
            r"^(?P<path>[^:\n]+):(?P<line>\d+)(?::\d+)*: (?P<severity>error|warning): "
            r"(?P<message>.+?)(?:  \[(?P<code>[\w-]+)\])?$"
        ),
        python_option="--python-executable",
    ),
    Linter(
        name="pyright",
        languages=_PYTHON,
        is_configured=any_of(
            has_file("pyrightconfig.json"), has_table("pyproject.toml", "tool.pyright")
        ),
        args=("--outputjson",),
        parse=parsers.pyright,
        python_option="--pythonpath",
    ),
    Linter(
        name="eslint",
        languages=_JAVASCRIPT | {"vue", "svelte"},
        is_configured=any_of(
            has_file("eslint.config.*", ".eslintrc", ".eslintrc.*"),
            has_key("package.json", "eslintConfig"),
        ),
        args=("--format", "json"),
        parse=parsers.eslint,
    ),
    Linter(
        name="biome",
        languages=_JAVASCRIPT | {"json", "jsonc", "css"},
        is_configured=has_file("biome.json", "biome.jsonc"),
        args=("lint", "--reporter=github", "--colors=off", "--max-diagnostics=200"),
        parse=by_pattern(
            r"^::(?P<severity>\w+) title=(?P<code>[^,\n]*),file=(?P<path>[^,\n]+),line=(?P<line>\d+)"
            r"[^:\n]*::(?P<message>.+)"
        ),
    ),
    Linter(
        name="tsc",
        languages=_TYPESCRIPT,
        is_configured=has_file("tsconfig.json"),
        args=("--noEmit", "--pretty", "false"),
        parse=by_pattern(
            r"^(?P<path>[^\s(][^(\n]*)\((?P<line>\d+),\d+\): (?P<severity>error|warning) "
            r"(?P<code>TS\d+): (?P<message>.+)"
        ),
        target="project",
    ),
    Linter(
        name="go vet",
        languages=frozenset({"go"}),
        is_configured=has_file("go.mod"),
        args=("vet",),
        parse=by_pattern(
            r"^(?:vet: )?(?P<path>[^\s:#][^:\n]*\.go):(?P<line>\d+)(?::\d+)?: (?P<message>.+)"
        ),
        target="folders",
    ),
    Linter(
        name="cargo check",
        languages=frozenset({"rust"}),
        is_configured=has_file("Cargo.toml"),
        # Of the formats for programs, the short one: the long ones give kilobytes a problem.
        args=("check", "--quiet", "--offline", "--color=never", "--message-format=short"),
        parse=by_pattern(
            r"^(?P<path>[^\s:][^:\n]*\.rs):(?P<line>\d+):\d+: (?P<severity>error|warning)"
            r"(?:\[(?P<code>\w+)\])?: (?P<message>.+)"
        ),
        target="project",
    ),
    Linter(
        name="rubocop",
        languages=frozenset({"ruby"}),
        is_configured=has_file(".rubocop.yml"),
        args=("--format", "json", "--force-exclusion", "--cache", "false"),
        parse=parsers.rubocop,
    ),
    Linter(
        name="phpstan",
        languages=frozenset({"php"}),
        is_configured=has_file("phpstan.neon", "phpstan.neon.dist", "phpstan.dist.neon"),
        args=("analyse", "--error-format=json", "--no-progress", "--no-interaction"),
        parse=parsers.phpstan,
    ),
)
