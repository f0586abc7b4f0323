"""Files visible in a sandbox: the interpreter, its libraries, three devices and one folder."""

import os
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

BUBBLEWRAP, NAMESPACES, LANDLOCK = "bubblewrap", "namespaces", "Landlock"
"""Isolation mechanisms."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")
_LIBRARIES = ("/lib", "/lib64", "/lib32", "/usr/lib", "/usr/lib64", "/usr/lib32")
_FILES = ("/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo")
_STORES = ("/nix/store", "/gnu/store")
"""Folders in which some distributions install all libraries."""


@dataclass(frozen=True, slots=True)
class View:
    """Visible files and the import path.

    Paths are those inside the sandbox; ``modules`` is the import path of a program.
    """

    readable: tuple[str, ...]
    modules: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Sandbox:
    """Isolation of a worker.

    With ``forks``, each fork of the worker is restricted instead of the worker.
    """

    way: str
    view: View
    forks: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return asdict(self)


def shown(ours: str, *, packages: bool) -> View:
    """Return the files visible to programs: the standard library, and packages if requested.

    ``ours`` is the folder of this package, imported by the worker.
    """
    base = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    library = sysconfig.get_path("stdlib", vars=base)
    modules = [library, sysconfig.get_path("platstdlib", vars=base), f"{library}/lib-dynload"]
    if packages:
        modules += [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
        modules += [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    modules = [path for path in dict.fromkeys(modules) if Path(path).is_dir()]
    libraries = [sysconfig.get_config_var("LIBDIR") or ""]
    others = (*_LIBRARIES, *_FILES, *(store for store in _STORES if library.startswith(store)))
    if packages:
        others = (*others, "/etc/alternatives")
    readable = _outermost([*modules, *libraries, *others, ours, os.path.realpath(sys.executable)])
    importing = dict.fromkeys([*modules, *([str(Path(ours).parent)] if packages else [])])
    return View(readable, tuple(importing))


def _outermost(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the existing paths that are not inside another path."""
    kept: list[str] = []
    for path in sorted({os.path.normpath(path) for path in paths if path and Path(path).exists()}):
        if path != "/" and not (kept and path.startswith(f"{kept[-1]}/")):
            kept.append(path)
    return tuple(kept)
