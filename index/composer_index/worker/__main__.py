"""`python -m composer_index.worker`: one thread for numpy, then the worker."""

import os

# More would spin while they wait for each other and take the cores from the editor and the model;
# numpy reads these when it is imported.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

from composer_index.worker.main import main  # noqa: E402

main()
