"""What has to stand before anything imports Triton or `composer_kernels`, as tests of the decoder do too:
kernels run by the interpreter, and every public function's shapes and dtypes are checked on each call.
"""

import os
from importlib.util import find_spec
from pathlib import Path

# `@triton.jit` asks for it when it decorates.
os.environ["TRITON_INTERPRET"] = "1"


def _checked_modules() -> list[str]:
    """All of the package but `*_details`, which Triton compiles from their source."""
    spec = find_spec("composer_kernels")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    (folder,) = map(Path, spec.submodule_search_locations)
    names = [path.stem for path in folder.glob("*.py") if path.stem != "__init__"]
    return [f"composer_kernels.{name}" for name in [*names, "reference"]]


# Tests that need no torch also run where there is none.
if find_spec("jaxtyping") is not None and find_spec("beartype") is not None:
    import jaxtyping

    jaxtyping.install_import_hook(_checked_modules(), "beartype.beartype")
