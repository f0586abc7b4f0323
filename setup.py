"""Build the optional C kernels; everything else is declared in pyproject.toml."""

import subprocess
import sys
import tempfile
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SOURCE_DIR = "src/eval_toolkit/_internal/kernel"
WINDOWS = sys.platform == "win32"

# Each line: flags that are tried together, the first group that the compiler takes is used.
HARDENING = (
    (["-fstack-protector-strong"], ["-fstack-protector"]),
    (["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3"], ["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]),
    (["-fstack-clash-protection"],),
    (["-fcf-protection"],),
)
HARDENING_LINK = (
    (["-Wl,-z,relro,-z,now"],),
    (["-Wl,-z,noexecstack"],),
)
PROBE = (
    "#include <string.h>\nint probe(char *to, const char *from) { strcpy(to, from); return 0; }\n"
)


class HardenedBuild(build_ext):
    """Add the hardening flags that the compiler supports."""

    def build_extensions(self) -> None:
        if self.compiler.compiler_type == "unix":
            # Search paths of Python's own build: a kernel needs the C library alone.
            self.compiler.linker_so = [
                part
                for part in self.compiler.linker_so
                if not part.startswith(("-Wl,-rpath,", "-Wl,-rpath="))
            ]
            compile_args = [flag for groups in HARDENING for flag in self._first_known(groups)]
            link_args = [flag for groups in HARDENING_LINK for flag in self._first_known(groups)]
            for extension in self.extensions:
                extension.extra_compile_args += compile_args
                extension.extra_link_args += link_args
        super().build_extensions()

    def _first_known(self, groups: tuple[list[str], ...]) -> list[str]:
        return next((flags for flags in groups if self._knows(flags)), [])

    def _knows(self, flags: list[str]) -> bool:
        """Return whether the compiler accepts a flag without warnings."""
        with tempfile.TemporaryDirectory() as folder:
            source, library = Path(folder, "probe.c"), Path(folder, "probe.so")
            source.write_text(PROBE)
            options = ["-fPIC", "-O2", "-Werror", *flags]
            command = [*self.compiler.linker_so, *options, str(source), "-o", str(library)]
            try:
                return subprocess.run(command, capture_output=True, check=False).returncode == 0
            except OSError:  # no compiler
                return False


def kernel(name: str, source: str, headers: tuple[str, ...]) -> Extension:
    """Return an extension module that uses the limited API."""
    return Extension(
        f"eval_toolkit._internal.kernel.{name}",
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
        kernel("_native", "native.c", ("arrays.h", "dispatch.h", "lanes.h", "draws.h")),
        kernel("_neardup", "neardup.c", ("arrays.h", "dispatch.h", "sketches.h", "draws.h")),
    ],
    cmdclass={"build_ext": HardenedBuild},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
