import asyncio

import pytest

from composer_lsp.agent.evidence import check_claims
from composer_lsp.agent.ledger import CommandRun
from composer_lsp.agent.tools.context import ToolContext


def problems(context: ToolContext, text: str) -> list[tuple[str, str]]:
    return [(each.claim, each.why) for each in asyncio.run(check_claims(text, context))]


@pytest.mark.parametrize(
    "text",
    [
        "It is in src/app.py:4.",
        "`src/app.py:4-5` does it (see ./src/app.py:5).",
        "Open http://localhost:8080, 127.0.0.1:8000, localhost:3000 or example.com:443 at 12:30.",
        "std::vec, key:value, and a ratio of 3:1, as in RFC 2616:10",
        "error code src/app.py",
        "Run the tests to see whether they pass. The tests should pass now. Tests do not pass.",
        "I will make sure that the tests pass.",
    ],
)
def test_what_was_read_or_is_no_claim_holds(context: ToolContext, text: str) -> None:
    context.reads.add("src/app.py", 4, 5)
    assert problems(context, text) == []


@pytest.mark.parametrize(
    ("claim", "why"),
    [
        ("src/app.py:1", "these lines were not read in this run"),
        ("src/app.py:4-6", "the file has 5 lines"),
        ("src/app.py:0", "the file has 5 lines"),
        ("src/gone.py:3", "there is no such file"),
        ("/etc/hosts.py:1", "outside of the workspace"),
    ],
)
def test_a_citation_that_does_not_hold_is_named(context: ToolContext, claim: str, why: str) -> None:
    context.reads.add("src/app.py", 4, 5)
    ((found, reason),) = problems(context, f"See {claim}.")
    assert found == claim
    assert why in reason


@pytest.mark.parametrize(
    "text", ["All tests pass.", "The tests now pass", "42 tests passed", "It passes all tests."]
)
def test_tests_pass_only_when_they_did(context: ToolContext, text: str) -> None:
    (problem,) = problems(context, text)
    assert problem[1] == "no test command ran"
    context.ledger.ran(CommandRun("python -m pytest -q", 0))
    assert problems(context, text) == []
    context.ledger.edited()
    (problem,) = problems(context, text)
    assert problem[1] == "no test command has passed since the last edit"
    context.ledger.ran(CommandRun("pytest", 1))
    assert problems(context, text)
    context.ledger.ran(CommandRun("pytest", 0))
    assert problems(context, text) == []


@pytest.mark.parametrize(
    ("line", "is_test"),
    [
        ("pytest", True),
        (".venv/bin/pytest -x tests", True),
        ("python -m unittest", True),
        ("python3.12 -X dev -m pytest -q", True),
        ("uv run --with rich pytest -q", True),
        ("npx jest", True),
        ("npm test", True),
        ("npm run test:unit -- --watch=false", True),
        ("cargo test --all", True),
        ("cd api && go test ./...", True),
        ("make -j2 test", True),
        ("timeout 60 pytest", True),
        ("bash -c 'pytest -q'", True),
        ("echo pytest", False),
        ("grep -r pytest .", False),
        ("cat tests/test_app.py", False),
        ("pip install pytest", False),
        ("uv add pytest", False),
        ("pytest --collect-only -q", False),
        ("pytest --version", False),
        ("cargo test --no-run", False),
        ("make -n test", False),
        ("git status", False),
    ],
)
def test_knows_commands_that_test(line: str, is_test: bool) -> None:
    assert CommandRun(line, 0).is_test is is_test


@pytest.mark.parametrize(
    ("line", "tells"),
    [
        ("pytest", True),
        ("cd api && CI=1 pytest -q > log.txt 2>&1", True),
        ("cd api; pytest", True),
        ("pytest && echo fine", True),
        ("timeout 60 pytest  # quick", True),
        ("pytest | tail -5", False),
        ("pytest || true", False),
        ("pytest; echo done", False),
        ("pytest a; pytest b", False),
        ("pytest &", False),
        ("! pytest", False),
        ("if pytest; then :; fi", False),
        ("bash -c 'pytest; true'", False),
        ("find . -name 'test_*' -exec pytest {} \\;", False),
        ("pytest (", False),
    ],
)
def test_knows_whether_the_exit_code_is_that_of_the_tests(line: str, tells: bool) -> None:
    assert CommandRun(line, 0).has_passed is tells


def test_a_command_that_hides_a_failure_does_not_prove_that_tests_pass(
    context: ToolContext,
) -> None:
    context.ledger.ran(CommandRun("pytest | tail -5", 0))
    (problem,) = problems(context, "All tests pass.")
    assert problem[1] == "no test command has passed since the last edit"
