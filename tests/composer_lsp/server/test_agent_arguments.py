import json

import pytest
from pygls.exceptions import JsonRpcInvalidParams

from composer_lsp.server.agent.arguments import read_options

START = {"line": 0, "character": 0}


@pytest.mark.parametrize("line", ["1e999", "-1e999", "NaN", "-1", "null", '"x"', "[]"])
def test_a_range_of_what_is_no_line_is_refused(line: str) -> None:
    given = json.loads(f'{{"line": {line}, "character": 0}}')
    with pytest.raises(JsonRpcInvalidParams, match="range is an LSP range"):
        read_options("x", ["y", {"range": {"start": START, "end": given}}])
