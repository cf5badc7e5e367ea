"""What each linter prints, as its program of the version named printed it; for those that were not
at hand, as its documentation or its source shows it."""

import pytest

from composer_lsp.agent.checks.linters import LINTERS
from composer_lsp.agent.checks.parsers import OutputError

PARSERS = {linter.name: linter.parse for linter in LINTERS}

RUFF_0_17 = """\
{"cell":null,"code":"F401","end_location":{"column":10,"row":1},"filename":"/p/a.py","fix":{"applicability":"safe","edits":[],"message":"Remove unused import: `os`"},"location":{"column":8,"row":1},"message":"`os` imported but unused","name":"unused-import","noqa_row":1,"severity":"error","url":"https://docs.astral.sh/ruff/rules/unused-import"}
{"cell":null,"code":"invalid-syntax","end_location":{"column":8,"row":1},"filename":"/p/bad.py","fix":null,"location":{"column":7,"row":1},"message":"Expected a parameter or the end of the parameter list","name":"invalid-syntax","noqa_row":null,"severity":"error","url":null}
"""
FLAKE8_7_5 = """\
a.py:1:1: F401 'os' imported but unused
bad.py:1:8: E999 SyntaxError: invalid syntax
"""
PYLINT_4_1 = """\
************* Module a
a.py:9: error: undefined-variable: Undefined variable 'undefined_name'
a.py:1: warning: unused-import: Unused import os
"""
MYPY_2_4 = """\
a.py:5: error: Incompatible return value type (got "int", expected "str")  [return-value]
a.py:6: note: See https://mypy.readthedocs.io
bad.py:1: error: Expected a parameter or the end of the parameter list  [syntax]
"""
PYRIGHT_1_1_414 = """\
{
    "version": "1.1.414",
    "time": "1796049469313",
    "generalDiagnostics": [
        {
            "file": "/p/a.py",
            "severity": "error",
            "message": "Type \\"int\\" is not assignable to return type \\"str\\"\\n  \\"int\\" is not assignable to \\"str\\"",
            "range": {"start": {"line": 4, "character": 11}, "end": {"line": 4, "character": 12}},
            "rule": "reportReturnType"
        }
    ],
    "summary": {"filesAnalyzed": 1, "errorCount": 1, "warningCount": 0, "informationCount": 0, "timeInSec": 0.782}
}
"""
ESLINT_9_39 = """\
[{"filePath":"/p/src/a.js","messages":[{"ruleId":"no-unused-vars","severity":2,"message":"'unused' is assigned a value but never used.","line":1,"column":7,"nodeType":"Identifier","messageId":"unusedVar","endLine":1,"endColumn":13},{"ruleId":"no-undef","severity":1,"message":"'nope' is not defined.","line":2,"column":30,"nodeType":"Identifier","messageId":"undef","endLine":2,"endColumn":34}],"suppressedMessages":[],"errorCount":1,"fatalErrorCount":0,"warningCount":1,"fixableErrorCount":0,"fixableWarningCount":0,"source":"const unused = 1;","usedDeprecatedRules":[]},{"filePath":"/p/src/bad.js","messages":[{"ruleId":null,"nodeType":null,"fatal":true,"severity":2,"message":"Parsing error: Unexpected token","line":2,"column":1}],"suppressedMessages":[],"errorCount":1,"fatalErrorCount":1,"warningCount":0,"usedDeprecatedRules":[]},{"filePath":"/p/src/a.ts","messages":[{"ruleId":null,"fatal":false,"severity":1,"message":"File ignored because no matching configuration was supplied.","nodeType":null}],"suppressedMessages":[],"errorCount":0,"warningCount":1}]
"""
BIOME_2_6 = """\
::warning title=lint/correctness/noUnusedVariables,file=/p/src/a.js,line=1,endLine=1,col=7,endColumn=13::This variable unused is unused.
::error title=parse,file=/p/src/bad.js,line=2,endLine=2,col=1,endColumn=1::Expected an identifier, a member name, or a rest pattern but instead found the end of the file.
lint ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
  × Some errors were emitted while running checks.
"""
TSC_5_9 = """\
src/a.ts(1,14): error TS2322: Type 'string' is not assignable to type 'number'.
src/a.ts(2,41): error TS2339: Property 'foo' does not exist on type 'string'.
  'foo' is declared here.
"""
CARGO_1_95 = """\
src/main.rs:2:18: error[E0308]: mismatched types: expected `i32`, found `&str`
src/main.rs:3:9: warning: unused variable: `unused`: help: if this is intentional, prefix it with an underscore
error: could not compile `p` (bin "p") due to 1 previous error
"""
GO_VET_1_22 = """\
# example.com/p
# [example.com/p]
./main.go:8:2: fmt.Printf format %d has arg "x" of wrong type string
vet: ./other.go:3:6: undefined: nope
"""
"""As cmd/vet and go/analysis print a diagnostic: position and message, on standard error."""
RUBOCOP_1_30 = """\
{"metadata":{"rubocop_version":"1.30.0","ruby_engine":"ruby"},"files":[{"path":"lib/bar.rb","offenses":[{"severity":"convention","message":"Layout/LineLength: Line is too long. [81/80]","cop_name":"Layout/LineLength","corrected":true,"location":{"line":546,"column":80,"length":4}},{"severity":"warning","message":"Unreachable code detected.","cop_name":"Lint/UnreachableCode","corrected":false,"location":{"line":15,"column":9,"length":10}}]}],"summary":{"offense_count":2,"target_file_count":1,"inspected_file_count":1}}
"""
"""As "Formatters" of docs.rubocop.org shows it."""
PHPSTAN_2 = """\
Note: Using configuration file /p/phpstan.neon.
{"totals":{"errors":0,"file_errors":1},"files":{"/p/src/a.php":{"errors":1,"messages":[{"message":"Undefined variable: $x","line":5,"ignorable":true,"identifier":"variable.undefined"}]}},"errors":[]}
"""
"""As its JsonErrorFormatter writes it."""


@pytest.mark.parametrize(
    ("name", "output", "problems"),
    [
        (
            "ruff",
            RUFF_0_17,
            [
                ("/p/a.py", 1, "F401", "`os` imported but unused", "error"),
                (
                    "/p/bad.py",
                    1,
                    "invalid-syntax",
                    "Expected a parameter or the end of the parameter list",
                    "error",
                ),
            ],
        ),
        (
            "flake8",
            FLAKE8_7_5,
            [
                ("a.py", 1, "F401", "'os' imported but unused", "error"),
                ("bad.py", 1, "E999", "SyntaxError: invalid syntax", "error"),
            ],
        ),
        (
            "pylint",
            PYLINT_4_1,
            [
                ("a.py", 9, "undefined-variable", "Undefined variable 'undefined_name'", "error"),
                ("a.py", 1, "unused-import", "Unused import os", "warning"),
            ],
        ),
        (
            "mypy",
            MYPY_2_4,
            [
                (
                    "a.py",
                    5,
                    "return-value",
                    'Incompatible return value type (got "int", expected "str")',
                    "error",
                ),
                (
                    "bad.py",
                    1,
                    "syntax",
                    "Expected a parameter or the end of the parameter list",
                    "error",
                ),
            ],
        ),
        (
            "pyright",
            PYRIGHT_1_1_414,
            [
                (
                    "/p/a.py",
                    5,
                    "reportReturnType",
                    'Type "int" is not assignable to return type "str"\n'
                    '  "int" is not assignable to "str"',
                    "error",
                )
            ],
        ),
        (
            "eslint",
            ESLINT_9_39,
            [
                (
                    "/p/src/a.js",
                    1,
                    "no-unused-vars",
                    "'unused' is assigned a value but never used.",
                    "error",
                ),
                ("/p/src/a.js", 2, "no-undef", "'nope' is not defined.", "warning"),
                ("/p/src/bad.js", 2, "", "Parsing error: Unexpected token", "error"),
            ],
        ),
        (
            "biome",
            BIOME_2_6,
            [
                (
                    "/p/src/a.js",
                    1,
                    "lint/correctness/noUnusedVariables",
                    "This variable unused is unused.",
                    "warning",
                ),
                (
                    "/p/src/bad.js",
                    2,
                    "parse",
                    "Expected an identifier, a member name, or a rest pattern but instead found the "
                    "end of the file.",
                    "error",
                ),
            ],
        ),
        (
            "tsc",
            TSC_5_9,
            [
                (
                    "src/a.ts",
                    1,
                    "TS2322",
                    "Type 'string' is not assignable to type 'number'.",
                    "error",
                ),
                (
                    "src/a.ts",
                    2,
                    "TS2339",
                    "Property 'foo' does not exist on type 'string'.",
                    "error",
                ),
            ],
        ),
        (
            "cargo check",
            CARGO_1_95,
            [
                (
                    "src/main.rs",
                    2,
                    "E0308",
                    "mismatched types: expected `i32`, found `&str`",
                    "error",
                ),
                (
                    "src/main.rs",
                    3,
                    "",
                    "unused variable: `unused`: help: if this is intentional, prefix it with an "
                    "underscore",
                    "warning",
                ),
            ],
        ),
        (
            "go vet",
            GO_VET_1_22,
            [
                (
                    "./main.go",
                    8,
                    "",
                    'fmt.Printf format %d has arg "x" of wrong type string',
                    "error",
                ),
                ("./other.go", 3, "", "undefined: nope", "error"),
            ],
        ),
        (
            "rubocop",
            RUBOCOP_1_30,
            [
                (
                    "lib/bar.rb",
                    546,
                    "Layout/LineLength",
                    "Line is too long. [81/80]",
                    "warning",
                ),
                (
                    "lib/bar.rb",
                    15,
                    "Lint/UnreachableCode",
                    "Unreachable code detected.",
                    "warning",
                ),
            ],
        ),
        (
            "phpstan",
            PHPSTAN_2,
            [("/p/src/a.php", 5, "variable.undefined", "Undefined variable: $x", "error")],
        ),
    ],
)
def test_reads_what_it_prints(
    name: str, output: str, problems: list[tuple[str, int, str, str, str]]
) -> None:
    found = PARSERS[name](output)
    assert [(e.path, e.line, e.code, e.message, e.severity) for e in found] == problems


def test_every_linter_is_read_from_what_it_prints() -> None:
    (mark,) = (each for each in test_reads_what_it_prints.pytestmark if each.name == "parametrize")  # type: ignore[attr-defined]
    assert {case[0] for case in mark.args[1]} == set(PARSERS)


@pytest.mark.parametrize("name", ["pyright", "eslint", "rubocop", "phpstan"])
@pytest.mark.parametrize("output", ["", "Oops! Something went wrong! :(", '[{"filePath"'])
def test_refuses_what_is_no_result(name: str, output: str) -> None:
    with pytest.raises(OutputError):
        list(PARSERS[name](output))
