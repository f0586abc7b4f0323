"""Build the optional C kernels; everything else is declared in pyproject.toml."""

import sys

from setuptools import Extension, setup

SOURCE_DIR = "src/eval_toolkit/_kernel"
WINDOWS = sys.platform == "win32"


def kernel(name: str, source: str, headers: tuple[str, ...]) -> Extension:
    """Describe one extension module of the limited API."""
    return Extension(
        f"eval_toolkit._kernel.{name}",
        sources=[f"{SOURCE_DIR}/{source}"],
        depends=[f"{SOURCE_DIR}/{header}" for header in headers],
        define_macros=[("Py_LIMITED_API", "0x030B0000")],
        # No contraction: a fused multiply-add would make results depend on the machine.
        extra_compile_args=["/O2"] if WINDOWS else ["-O3", "-std=c11", "-ffp-contract=off", "-g0"],
        py_limited_api=True,
        optional=True,  # without a compiler the numpy fallback serves
    )


setup(
    ext_modules=[
        kernel("_native", "native.c", ("dispatch.h", "lanes.h", "draws.h")),
        kernel("_neardup", "neardup.c", ("dispatch.h", "sketches.h", "draws.h")),
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
