"""Build the optional C kernel; everything else is declared in pyproject.toml."""

import sys

from setuptools import Extension, setup

SOURCE_DIR = "src/eval_toolkit/_kernel"
WINDOWS = sys.platform == "win32"

setup(
    ext_modules=[
        Extension(
            "eval_toolkit._kernel._native",
            sources=[f"{SOURCE_DIR}/native.c"],
            depends=[f"{SOURCE_DIR}/lanes.h", f"{SOURCE_DIR}/draws.h"],
            define_macros=[("Py_LIMITED_API", "0x030B0000")],
            # No contraction: a fused multiply-add would make results depend on the machine.
            extra_compile_args=["/O2"]
            if WINDOWS
            else ["-O3", "-std=c11", "-ffp-contract=off", "-g0"],
            py_limited_api=True,
            optional=True,  # without a compiler the numpy fallback serves
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
