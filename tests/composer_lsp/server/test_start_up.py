"""What the process loads, and when: figures are the benchmark's, causes are tests."""

import json
import subprocess
import sys

import pytest

from tests.support.lsp import start_server

HEAVY = {"torch", "lancedb", "transformers", "xllamacpp", "tokenizers", "rich", "jinja2"}
LATER = {
    "httpx",
    "huggingface_hub",
    "starlette",
    "uvicorn",
    "websockets",
    "psutil",
    "composer_index",
}


def modules_after(program: str) -> set[str]:
    program += "\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    return set(json.loads(output))


def test_nothing_that_initialize_does_not_need():
    modules = modules_after(
        "from composer_lsp.server.factory import create_server\ncreate_server()"
    )
    assert not modules & (HEAVY | LATER)


def test_completions_need_no_heavy_library():
    assert (
        not modules_after(
            "from composer_lsp.server.imports import import_engine_service\nimport_engine_service()"
        )
        & HEAVY
    )


def test_the_command_alone_loads_no_server():
    modules = modules_after("import composer_lsp.cli.main")
    assert not modules & ({"pygls", "lsprotocol", "asyncio"} | HEAVY | LATER)


def test_the_types_are_imported_without_what_nobody_calls():
    program = """
from composer_lsp.server.imports import import_lsp_types
import_lsp_types()
import attrs
from lsprotocol.types import Hover, Position
assert Hover.__eq__ is object.__eq__ and Hover.__repr__ is object.__repr__
assert Position(1, 2) == Position(1, 2) and Position(1, 2) < Position(2, 0)
assert repr(attrs.make_class("C", ["x"])(1)) == "C(x=1)", "attrs itself is as it was"
"""
    modules_after(program)


@pytest.mark.parametrize("arguments", [[], ["serve"], ["--stdio"], ["serve", "--stdio"]])
async def test_the_ways_that_editors_start_it(directory, arguments):
    command = [sys.executable, "-m", "composer_lsp", *arguments]
    async with start_server(directory, command=command) as client:
        await client.initialize({})
        assert client.initialize_result["serverInfo"]["name"] == "composer-lsp"
        assert await client.shut_down() == 0


def composer_lsp(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "composer_lsp", *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def test_version_and_help():
    version = composer_lsp("--version")
    assert version.returncode == 0
    assert version.stdout.startswith("composer-lsp ")
    for name in ("serve", "engine", "model", "doctor", "complete", "try"):
        assert name in composer_lsp("--help").stdout


def test_an_unknown_subcommand():
    result = composer_lsp("frobnicate")
    assert result.returncode == 2
    assert "frobnicate" in result.stderr


def test_a_malformed_environment_variable(monkeypatch):
    monkeypatch.setenv("COMPOSER_LOG_LEVEL", "loud")
    result = composer_lsp("serve")
    assert result.returncode == 2
    assert "COMPOSER_LOG_LEVEL='LOUD'" in result.stderr
    assert "Traceback" not in result.stderr
