from pathlib import Path

import pytest

from composer_lsp.agent.tools.context import ToolContext
from tests.composer_lsp.agent.mcp.bench import Bench


@pytest.fixture
def bench(root: Path, context: ToolContext, tmp_path: Path) -> Bench:
    return Bench(root=root, context=context, grants=tmp_path / "state" / "mcp.json")
