"""`python -m composer_index.worker`: one thread for numpy, no client for servers, then the worker."""

import os
import sys
from importlib.util import find_spec, module_from_spec

# More would spin while they wait for each other and take the cores from the editor and the model;
# numpy reads these when it is imported.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# lancedb imports a part of this client, and with it all of it: half of a second, for databases that
# are behind a server. Without running its `__init__`, each part imports what it needs.
_CLIENT = "lance_namespace_urllib3_client"
if _spec := find_spec(_CLIENT):
    sys.modules[_CLIENT] = module_from_spec(_spec)

from composer_index.worker.main import main  # noqa: E402

main()
