"""Benchmarks against other packages: ``python -m benchmarks`` (method and results: RESULTS.md)."""

import os

# One thread each, said before numpy, BLAS or polars can start a pool.
for _variable in (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS",
):
    os.environ[_variable] = "1"
