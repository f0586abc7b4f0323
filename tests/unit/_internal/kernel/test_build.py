"""How the C kernels are built: what the linker and the compiler put into the libraries."""

import runpy
import shutil
import struct
import sys
from pathlib import Path

import pytest
from setuptools import Distribution

from eval_toolkit._internal import kernel as _kernel
from eval_toolkit._internal.kernel import neardup

ROOT = Path(__file__).resolve().parents[4]

# Numbers of the ELF format, as in elf.h.
PT_DYNAMIC, PT_GNU_STACK, PT_GNU_RELRO = 2, 0x6474E551, 0x6474E552
PF_X = 1
DT_STRTAB, DT_STRSZ, DT_RPATH, DT_RUNPATH = 5, 10, 15, 29
DT_FLAGS, DF_BIND_NOW = 30, 8

built = pytest.mark.skipif(
    _kernel.native is None or not sys.platform.startswith("linux") or struct.calcsize("P") != 8,
    reason="needs kernels built for 64-bit Linux",
)


def read(library: bytes) -> tuple[dict[int, int], dict[int, int], list[bytes]]:
    """Return the segments' flags, the entries of the dynamic section and its strings."""
    assert library[:6] == b"\x7fELF\x02\x01"  # 64 bits, little-endian
    (table,) = struct.unpack_from("<Q", library, 32)
    size, number = struct.unpack_from("<HH", library, 54)
    rows = [struct.unpack_from("<IIQQQQ", library, table + size * i) for i in range(number)]
    flags = {kind: flag for kind, flag, *_ in rows}
    start, length = next((row[2], row[5]) for row in rows if row[0] == PT_DYNAMIC)
    dynamic = dict(struct.iter_unpack("<qQ", library[start : start + length]))
    # The strings lie in the first segment, whose addresses are places in the file.
    strings = library[dynamic[DT_STRTAB] : dynamic[DT_STRTAB] + dynamic[DT_STRSZ]].split(b"\0")
    return flags, dynamic, strings


@built
@pytest.mark.parametrize("kernel", [_kernel.native, neardup.native], ids=["native", "neardup"])
def test_the_libraries_are_hardened(kernel):
    flags, dynamic, strings = read(Path(kernel.__file__).read_bytes())
    if any(name.startswith(b"__asan") for name in strings):
        pytest.skip("built for the sanitizers")
    assert PT_GNU_RELRO in flags
    assert dynamic[DT_FLAGS] & DF_BIND_NOW  # with RELRO: no table of addresses stays writable
    assert not flags[PT_GNU_STACK] & PF_X
    assert DT_RPATH not in dynamic
    assert DT_RUNPATH not in dynamic
    assert b"__stack_chk_fail" in strings
    assert b"__vsnprintf_chk" in strings  # _FORTIFY_SOURCE


@pytest.fixture
def build(monkeypatch):
    """The build of setup.py, with the compiler of this machine."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["setup.py", "--name"])
    from setuptools._distutils.ccompiler import new_compiler

    made = runpy.run_path("setup.py")["HardenedBuild"](Distribution())
    made.compiler = new_compiler(compiler="unix")
    made.compiler.linker_so = ["gcc", "-shared"]
    return made


def test_flags_that_a_compiler_does_not_know_are_left_out(build):
    known, unknown = ["-fstack-protector"], ["-fno-such-protection"]
    assert build._first_known((unknown, known)) == known
    assert build._first_known((unknown,)) == []
    build.compiler.linker_so = ["no-such-compiler"]
    assert build._first_known((known,)) == []
