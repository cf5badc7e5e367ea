"""Records `composer-lsp try` on the bundled sample as docs/images/try.svg, the README's picture.

usage: python scripts/record_demo.py          (needs the default model: composer-lsp model pull)
"""

import io
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 88
PICTURE = Path(__file__).resolve().parent.parent / "docs" / "images" / "try.svg"


def main() -> None:
    command = [sys.executable, "-m", "composer_lsp", "try"]
    env = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(WIDTH)}
    output = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print("$ composer-lsp try", style="bold")
    console.print(Text.from_ansi(output))
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    console.save_svg(str(PICTURE), title="composer-lsp try", unique_id="composer-try")
    print(PICTURE)


if __name__ == "__main__":
    main()
