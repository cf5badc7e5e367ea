"""`python -m composer_lsp` is `composer-lsp`."""

import sys

from composer_lsp.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
