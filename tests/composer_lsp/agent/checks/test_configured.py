"""Whether a project configures a linter, and whose program is run."""

from pathlib import Path

import pytest

from composer_lsp.agent.checks.configured import find_interpreter, find_program
from composer_lsp.agent.checks.linters import LINTERS

CONFIGURED = {linter.name: linter.is_configured for linter in LINTERS}


def put(root: Path, path: str, text: str = "", mode: int = 0o644) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)
    return file


@pytest.mark.parametrize(
    ("name", "path", "text"),
    [
        ("ruff", "ruff.toml", ""),
        ("ruff", ".ruff.toml", ""),
        ("ruff", "pyproject.toml", "[tool.ruff.lint]\nselect = []\n"),
        ("flake8", ".flake8", ""),
        ("flake8", "setup.cfg", "[metadata]\nname = x\n[flake8]\nmax-line-length = 100\n"),
        ("flake8", "tox.ini", "[flake8]\n"),
        ("pylint", ".pylintrc", ""),
        ("pylint", "pyproject.toml", "[tool.pylint.main]\n"),
        ("pylint", "setup.cfg", "[pylint.main]\n"),
        ("mypy", "mypy.ini", ""),
        ("mypy", "setup.cfg", "[mypy-numpy.*]\n"),
        ("mypy", "pyproject.toml", "[tool.mypy]\n"),
        ("pyright", "pyrightconfig.json", "{}"),
        ("pyright", "pyproject.toml", "[tool.pyright]\n"),
        ("eslint", "eslint.config.mjs", ""),
        ("eslint", ".eslintrc.json", "{}"),
        ("eslint", "package.json", '{"eslintConfig": {}}'),
        ("biome", "biome.jsonc", "{}"),
        ("tsc", "tsconfig.json", "{}"),
        ("go vet", "go.mod", ""),
        ("cargo check", "Cargo.toml", ""),
        ("rubocop", ".rubocop.yml", ""),
        ("phpstan", "phpstan.neon.dist", ""),
    ],
)
def test_is_configured(name: str, path: str, text: str, tmp_path: Path) -> None:
    assert not CONFIGURED[name](tmp_path)
    put(tmp_path, path, text)
    assert CONFIGURED[name](tmp_path)


@pytest.mark.parametrize(
    ("name", "path", "text"),
    [
        ("ruff", "pyproject.toml", "[project]\nname = 'ruff'\n[tool.mypy]\n"),
        ("ruff", "pyproject.toml", "[tool.ruff"),
        ("mypy", "pyproject.toml", "tool = 1\n"),
        ("flake8", "setup.cfg", "[options]\nflake8 = yes\n# [flake8]\n"),
        ("eslint", "package.json", '{"devDependencies": {"eslint": "9"}}'),
        ("eslint", "package.json", "[]"),
    ],
)
def test_is_not_configured(name: str, path: str, text: str, tmp_path: Path) -> None:
    put(tmp_path, path, text)
    assert not CONFIGURED[name](tmp_path)


@pytest.mark.parametrize(
    "own", [".venv/bin", "venv/bin", "node_modules/.bin", "vendor/bin", "api/node_modules/.bin"]
)
def test_the_projects_program_comes_before_that_of_the_path(
    own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    elsewhere = put(tmp_path, "bin/lint", "", 0o755)
    monkeypatch.setenv("PATH", str(elsewhere.parent))
    assert find_program("lint", root / "api", root) == str(elsewhere)
    ours = put(root, f"{own}/lint", "", 0o755)
    assert find_program("lint", root / "api", root) == str(ours)
    assert find_program("lint", root / "api", root / "api") == str(
        ours if own.startswith("api") else elsewhere
    )


def test_a_program_of_nobody_is_none(tmp_path: Path) -> None:
    assert find_program("no-such-linter", tmp_path, tmp_path) is None


def test_finds_the_interpreter_of_the_environment_above(tmp_path: Path) -> None:
    assert find_interpreter(tmp_path / "api", tmp_path) is None
    python = put(tmp_path, ".venv/bin/python", "", 0o755)
    assert find_interpreter(tmp_path / "api", tmp_path) == str(python)
