import asyncio

import pytest

from composer_lsp.agent.evidence import check_claims
from composer_lsp.agent.ledger import CommandRun
from composer_lsp.agent.testing_output import ran_no_test
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
        "The tests may pass. I have not seen the tests pass. I can't say that all tests pass.",
        "Once it is installed, the tests pass. If you set it, all tests pass. Do the tests pass?",
        "Not all tests pass. No tests pass yet. 12 of 15 tests pass. 9/12 passed.",
        "12 passed, 3 failed. All tests pass except test_b. One test fails, the others pass.",
        "The tests pass but test_b fails. The tests pass with the one that still fails left out.",
        "The tests pass `None` to it. pytest passes the fixture to the function. Pass a test name.",
        "It checks the 2 passed arguments. 3 passed values are kept. 2 passed to f.",
        "The tests were added successfully. I wrote the tests without errors in mind. Tests added ✅",
        "Check that all tests pass. To make the tests pass, install it. Please run all tests.",
        "No test should fail now. No test covers it. The tests fail to pass. Tests cannot pass.",
        "The suite has 12 tests. Test it, OK, and go on. I ran the tests: 3 failed.",
        "Nothing failed to parse. The function no longer fails. There is no test for it.",
        "`go` executes all tests and finishes without errors if they pass. Tests pass only if so.",
        "The test runner exits successfully when it is done. The `tests` folder holds the passed one.",
        "It raises if a test fails without a reason. Let us see that the tests will pass.",
        "Run the tests to see whether they pass. The tests should pass now. Tests do not pass.",
        "I will make sure that the tests pass.",
        "This is how the tests work. I show why the tests work. That is the way the tests work.",
        "The test works by calling `f`. The tests work on a copy. These tests work with jest only.",
        "`test_price` passes 3 to `price`. test_price passes it on. test_passes is one of the tests.",
        "test_a should pass. test_a does not pass. Once test_a passes, go on. Make `test_a` pass.",
        "test_a fails and test_b passes. test_a still fails, test_b and test_c pass.",
        "test_a is in src/app.py and works on a copy. test_works_now checks what passes.",
        "test_a would no longer fail. See whether test_two no longer fails. Is test_two green?",
        "pytest exits with 0 if all tests pass. pytest exits with 0 or 5. pytest exits with 5 then.",
        "pytest exits with 0 even if none ran. jest exits with code 0 when there are none.",
        "CI is green only if it is. Wait until CI is green. CI passes --strict to it. CI should pass.",
        "Nothing fails if it is missing. Nothing fails when it is empty. Nothing breaks. Nothing failed.",
        "The tests are good at finding it. Your tests are good. The tests are all good examples.",
        "The test suite is clean code. The tests are clean and short. The tests run clean-up first.",
        "It is verified by the tests in src. It can be verified by running the tests with -x.",
        "This was not verified with pytest. I could not confirm it by running the tests.",
        "It has to be verified with pytest. The token is verified with the test key.",
        "Tests: 2/3. Test results: 11/12. Tests: 3 of 3 files. It can be tested successfully.",
        "Every test is good for something. Look at how each test is fine-grained.",
        "`src/app.py` line 4, src/app.py, lines 4-5, and lines 4 and 5 of `src/app.py`.",
        "src/app.py:4:7, src/app.py#L4-L5, src/app.py(5), src/app.py:L4 and **src/app.py**: 4.",
        "src/app.py: 3 functions, src/app.py (12 lines), src/app.py: 100%, line 9 of the file",
        "Node.js: 18. Use Next.js line 14. Call history.go(1), range(3), np.r(2) and printf(3).",
        "Images: ghcr.io/owner/tool/name:7, library/python:3, @scope/a/b:3; 1/2/3:4; owner/name#3.",
        "https://host.dev/a/b/c:99 and http://localhost:8080/x/y:3; line 3 of main, port: 8080.",
        "At 12:30:45 src/app.py::test_x ran; src/app.py has 999 lines, 3 of src/app.py are blank.",
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
        ("nosuch.py:999:1", "there is no such file"),
        ("src/app.py:2:5", "these lines were not read in this run"),
        ("src/app.py:4:1-6:2", "the file has 5 lines"),
        ("src/app.py:4,2", "these lines were not read in this run"),
        ("src/app.py:4–6", "the file has 5 lines"),
        ("nosuch.py:L3", "there is no such file"),
        ("nosuch.py#L3", "there is no such file"),
        ("src/app.py#L4-L9", "the file has 5 lines"),
        ("nosuch.py: 3", "there is no such file"),
        ("nosuch.py(3)", "there is no such file"),
        ("nosuch.ts(3,14)", "there is no such file"),
        ("nosuch.py:12345678", "there is no such file"),
        ("src/app.py:12345678", "the file has 5 lines"),
        (f"src/app.py:{'9' * 5000}", "the file has 5 lines"),
        ("nosuch.py line 3", "there is no such file"),
        ("nosuch.py, lines 3-5", "there is no such file"),
        ("nosuch.py (line 3", "there is no such file"),
        ("nosuch.py at line 3", "there is no such file"),
        ("src/app.py, lines 4 and 2", "these lines were not read in this run"),
        ("src/app.py lines 4 to 9", "the file has 5 lines"),
        ("line 3 of nosuch.py", "there is no such file"),
        ("Lines 3–4 in src/app.py", "these lines were not read in this run"),
        ("a/b/c:99", "there is no such file"),
        ("src/gone:3", "there is no such file"),
        ("./gone:3", "there is no such file"),
        ("notes.txt:3", "there is no such file"),
        ("src/[id].tsx:3", "there is no such file"),
        ("src\\app.py:1", "these lines were not read in this run"),
    ],
)
def test_a_citation_that_does_not_hold_is_named(context: ToolContext, claim: str, why: str) -> None:
    context.reads.add("src/app.py", 4, 5)
    ((found, reason),) = problems(context, f"See {claim}.")
    assert found == claim
    assert why in reason


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("It is in `nosuch.py` line 3 alone.", "nosuch.py line 3"),
        ("It is in **nosuch.py**, lines 3-5.", "nosuch.py, lines 3-5"),
        ("It is in `nosuch.py`:3", "nosuch.py:3"),
        ("It is on line 3 of `nosuch.py`.", "line 3 of nosuch.py"),
        ("See [the code](nosuch.py#L3).", "nosuch.py#L3"),
        ("nosuch.py: 3\nother", "nosuch.py: 3"),
    ],
)
def test_marks_of_markdown_do_not_hide_a_citation(
    context: ToolContext, text: str, claim: str
) -> None:
    assert problems(context, text) == [(claim, "there is no such file")]


@pytest.mark.parametrize(
    "text",
    [
        "All tests pass.",
        "The tests now pass",
        "42 tests passed",
        "It passes all tests.",
        "Tests pass and cannot fail.",
        "The tests pass, no failures.",
        "No errors are left, and the tests pass.",
        "I could not find more to do; all tests pass.",
        "12 passed, 0 failed.",
        "pytest: 12 passed",
        "12/12 passed.",
        "12 passed in 0.3s",
        "Test suite: OK",
        "Tests: OK",
        "**Tests**: ✅",
        "Tests: ✅ all 12",
        "✅ All tests",
        "No test fails any more.",
        "No tests failed.",
        "None of the tests fail.",
        "There are no failing tests.",
        "0 failures",
        "The tests no longer fail.",
        "The tests don't fail now.",
        "The test suite now runs without errors.",
        "All tests ran successfully.",
        "The tests completed without any failures.",
        "The tests are successful.",
        "`pytest` passes now.",
        "The whole suite is green.",
        "Everything passes.",
        "All specs pass.",
        "After the failing case was fixed, all tests pass.",
        "I made the change, so the tests will not surprise you: all tests pass.",
        "I verified that all tests pass.",
        "When I was done, all tests passed.",
        "All 12 tests in tests/test_app.py pass.",
        "The tests exit with code 0.",
        "test_a and test_b pass.",
        "`test_a`, `test_b` and `test_c` now pass.",
        "tests/test_app.py::test_a passes now.",
        "test_two is passing.",
        "All good: test_two_cost_twenty passes.",
        "test_two no longer fails.",
        "The failing test now works.",
        "The tests work now.",
        "I verified that the tests work.",
        "pytest exits with 0.",
        "pytest exited with a status of 0.",
        "Nothing fails any more.",
        "CI is green.",
        "CI passes again.",
        "Test results: 12/12.",
        "Tests: 12 of 12 passed",
        "The tests are all good.",
        "Every test is fine.",
        "The test suite is clean.",
        "Verified: the suite runs clean.",
        "Confirmed by running the tests.",
        "I confirmed this by running the whole suite.",
        "The fix was verified with pytest.",
        "Everything is tested successfully.",
        "The whole thing is tested and working.",
        "✓ tests",
        "all tests: ✓",
    ],
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
        ("python -c pass -m pytest", False),
        ("python -V -m pytest", False),
        ("python x.py -m pytest", False),
        ("python - -m pytest", False),
        ("python -W ignore -Bm pytest -x", True),
        ("python3 -X dev -mpytest", True),
        ("coverage run --source src -m pytest -q", True),
        ("coverage run true -m pytest", False),
        ("coverage report -m pytest", False),
        ("python -m coverage run -m unittest discover", True),
        ("pytest -V", False),
        ("pytest -qh", False),
        ("pytest -k h -n4 -rV", True),
        ("pytest -kVh", True),
        ("pytest --setup-only", False),
        ("pytest --cache-show", False),
        ("pytest --cache-show='*'", False),
        ("pytest --fixtures-per-test", False),
        ("pytest -o addopts=--co", False),
        ("pytest -oaddopts=--co", False),
        ("pytest -o log_cli=true tests", True),
        ("pytest @arguments", False),
        ("pytest $OPTIONS", False),
        ("pytest --$OPTION", False),
        ("pytest tests/*_test.py *.py --maxfail=$MAX", True),
        ("make -j$(nproc) test", True),
        ("./pytest", False),
        ("bin/pytest", False),
        ("tests/pytest -q", False),
        ("../api/.venv/bin/python -m pytest", True),
        ("/usr/bin/python3 -m pytest", True),
        ("node_modules/.bin/vitest run", True),
        ("./node_modules/.bin/jest --listTests", False),
        ("vendor/bin/phpunit", True),
        ("./gradlew :app:test", True),
        ("./gradlew test --dry-run", False),
        ("./gradlew build -x test", False),
        ("mvn -q -pl api clean test", True),
        ("mvn -DskipTests test", False),
        ("make -nk test", False),
        ("make -kn test", False),
        ("make -C test build", False),
        ("make -C api clean test", True),
        ("make -i test", False),
        ("make test PYTEST=true", False),
        ("make test SHELL=/bin/true", False),
        ("make test PYTHON=python3", True),
        ("make test-deps", False),
        ("npm install test", False),
        ("npm view test", False),
        ("npm t", True),
        ("npm --prefix web run test", True),
        ("npm test --if-present", False),
        ("npm test -- --help", False),
        ("npm run test:unit:watch", True),
        ("pnpm --filter api test", True),
        ("yarn workspace api test", True),
        ("yarn jest -t name", True),
        ("npx --yes jest", True),
        ("uv run --with pytest true", False),
        ("uv run --unknown pytest true", False),
        ("uv run -m pytest", True),
        ("poetry run python -m pytest", True),
        ("go run test", False),
        ("go test -c ./...", False),
        ("go test -run TestA ./...", True),
        ("cargo build test", False),
        ("cargo +nightly test", True),
        ("cargo nextest run", True),
        ("cargo nextest list", False),
        ("command -v pytest", False),
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
        ("exit 0; pytest", False),
        ("X=exit; $X; pytest", False),
        ("(exit 0); pytest", False),
        ("{ exit 0; }; pytest", False),
        ("set -n; pytest", False),
        ("set -o noexec; pytest", False),
        ("set -euo pipefail; pytest", True),
        ("set -e\npytest", True),
        ("exec true; pytest", False),
        ("command exec true; pytest", False),
        ("pytest() { true; }; pytest", False),
        ("function pytest { true; }\npytest", False),
        ("hash -p /bin/true pytest; pytest", False),
        ("alias pytest=true; pytest", False),
        ("enable -n test; pytest", False),
        ("eval 'pytest() { :; }'; pytest", False),
        (". ./functions.sh; pytest", False),
        ("source .venv/bin/activate && pytest", True),
        (". venv/bin/activate; pytest -q", True),
        ("PATH=.:$PATH pytest", False),
        ("PATH=fake; pytest", False),
        ("export PATH=fake && pytest", False),
        ("env PATH=fake pytest", False),
        ("PYTEST_ADDOPTS=--co pytest", False),
        ("export CI=1; pytest", True),
        ("export CI=1 && pytest", True),
        ("DEBUG=1; pytest", True),
        ("env PYTHONPATH=src pytest", True),
        ("pip install -e . && pytest", True),
        ("npm ci && npm test", True),
        ("command -v pytest && pytest", True),
        ("mkdir -p out; pytest --junitxml=out/a.xml", True),
        ("echo start; pytest", True),
        ("xargs -r pytest < files", False),
        ("setsid -f pytest", False),
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


GO_NONE = "testing: warning: no tests to run\nPASS\nok  \texample.com/a\t0.002s [no tests to run]\n"
CARGO_NONE = (
    "\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 12 filtered out; "
    "finished in 0.00s\n"
)


@pytest.mark.parametrize(
    ("output", "none"),
    [
        (GO_NONE, True),
        ("?   \texample.com/b\t[no test files]\n", True),
        (GO_NONE + "ok  \texample.com/b\t0.013s\n", False),
        (GO_NONE + "ok  \texample.com/b\t(cached)\n", False),
        ("?   \texample.com/b\t[no test files]\n--- PASS: TestA (0.00s)\nPASS\n", False),
        (CARGO_NONE * 2, True),
        (
            "running 1 test\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed\n" + CARGO_NONE,
            False,
        ),
        (
            "running 1 test\ntest a ... ignored\n\ntest result: ok. 0 passed; 0 failed; 1 ignored\n",
            True,
        ),
        ("error: no tests to run\n", True),
        ("===== no tests ran in 0.01s =====\n", True),
        ("no tests ran in 0.01s\n", True),
        ("===== 3 deselected in 0.01s =====\n", True),
        ("2 skipped, 1 warning in 0.12s\n", True),
        ("===== 1 passed, 2 skipped in 0.12s =====\n", False),
        ("a test said: no tests found\n10 passed in 0.12s\n", False),
        ("1 xfailed in 0.01s\n", False),
        ("Ran 0 tests in 0.000s\n\nOK\n", True),
        ("Ran 0 tests in 0.000s\n\nNO TESTS RAN\n", True),
        ("Ran 10 tests in 0.000s\n\nOK\n", False),
        ("No tests found, exiting with code 0\n", True),
        ("Tests:       3 skipped, 3 total\n", True),
        ("Tests:       1 skipped, 2 passed, 3 total\n", False),
        ("No test files found, exiting with code 0\n", True),
        ("      Tests  2 passed (2)\n", False),
        ("  0 passing (1ms)\n", True),
        ("  10 passing (1ms)\n", False),
        ("ℹ tests 0\nℹ pass 0\n", True),
        ("1..0\n", True),
        ("1..1\nok 1 adds\n", False),
        ("No examples found.\n\n0 examples, 0 failures\n", True),
        ("10 examples, 0 failures\n", False),
        ("0 runs, 0 assertions, 0 failures\n", True),
        ("No tests executed!\n", True),
        ("OK (3 tests, 3 assertions)\n", False),
        ("No tests were found!!!\n", True),
        ("100% tests passed, 0 tests failed out of 4\n", False),
        ("[INFO] No tests to run.\n[INFO] Tests run: 4, Failures: 0\n", False),
        ("[INFO] No tests to run.\n", True),
        ("> Task :app:test NO-SOURCE\n", True),
        ("> Task :app:test NO-SOURCE\n> Task :core:test\n", False),
        ("Executed 0 tests, with 0 failures\n", True),
        ("Executed 0 tests, with 0 failures\nTest run with 5 tests passed after 0.1 s.\n", False),
        ("All is well.\n", False),
        ("", False),
    ],
)
def test_knows_an_output_that_says_that_no_test_ran(output: str, none: bool) -> None:
    assert ran_no_test(output) is none


def test_a_command_that_ran_no_test_does_not_prove_that_tests_pass(context: ToolContext) -> None:
    context.ledger.ran(CommandRun("go test -run XX ./...", 0, ran_none=True))
    (problem,) = problems(context, "All tests pass.")
    assert problem[1] == "no test command has passed since the last edit"
    context.ledger.ran(CommandRun("go test ./...", 0))
    assert problems(context, "All tests pass.") == []
    context.ledger.ran(CommandRun("pytest", 5, ran_none=True))
    assert problems(context, "All tests pass.")


@pytest.mark.parametrize("part", ["1-", "1,", "a[a]", "a/", "line 1 and ", "`*", "9"])
def test_a_long_text_is_looked_through_at_once(context: ToolContext, part: str) -> None:
    """Minutes, if it were read again from each of its places."""
    assert len(problems(context, "nosuch.py:" + part * (60_000 // len(part)))) <= 1
