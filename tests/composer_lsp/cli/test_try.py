"""`composer-lsp try` without a model: it asks for nothing where nobody can answer."""

from pathlib import Path

from tests.composer_lsp.cli.conftest import Cli


def test_without_a_model_and_a_terminal_it_names_the_command(cli: Cli) -> None:
    done = cli("try")

    assert done.returncode == 1
    assert "composer-lsp model pull qwen2.5-coder-" in done.stderr
    assert "--yes" in done.stderr


def test_a_place_that_is_not_there_is_told(cli: Cli, tmp_path: Path) -> None:
    done = cli("try", f"{tmp_path / 'none.py'}:3")

    assert done.returncode == 1
    assert "none.py" in done.stderr and "Traceback" not in done.stderr


def test_a_hidden_file_is_told(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / ".composerignore").write_text("a.py")
    (tmp_path / "a.py").write_text("x = ")
    done = cli("try", f"{tmp_path / 'a.py'}:1", "--yes")

    assert done.returncode == 1
    assert f"a.py is hidden by {tmp_path / '.composerignore'}" in done.stderr
