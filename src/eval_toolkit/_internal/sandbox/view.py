"""What a sandbox shows of the file system: the interpreter, its libraries, three devices, a folder."""

import os
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["BUBBLEWRAP", "DEVICES", "LANDLOCK", "NAMESPACES", "Sandbox", "View", "shown"]

BUBBLEWRAP, NAMESPACES, LANDLOCK = "bubblewrap", "namespaces", "Landlock"
"""Ways to show no more than a view."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/urandom")
_LIBRARIES = ("/lib", "/lib64", "/lib32", "/usr/lib", "/usr/lib64", "/usr/lib32")
_FILES = ("/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo")
_STORES = ("/nix/store", "/gnu/store")
"""Where some distributions keep every library."""


@dataclass(frozen=True, slots=True)
class View:
    """What can be read, and where the modules are.

    Parameters
    ----------
    readable : tuple of str
        Files and folders, by the names under which they are shown.
    modules : tuple of str
        Where a program imports from.
    """

    readable: tuple[str, ...]
    modules: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Sandbox:
    """How a worker is kept apart.

    Parameters
    ----------
    way : {"bubblewrap", "namespaces", "Landlock"}
        What keeps it.
    view : View
        What it is shown.
    forks : bool, default False
        Whether its forks are restrained, each by itself, and not the worker.
    """

    way: str
    view: View
    forks: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return asdict(self)


def shown(ours: str, *, packages: bool) -> View:
    """Return what programs are shown: the standard library, and other packages where asked for.

    Parameters
    ----------
    ours : str
        The folder of this package, from which the worker imports.
    packages : bool
        Whether installed packages are shown too.
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
    """Return those that exist, without those that lie in another one."""
    kept: list[str] = []
    for path in sorted({os.path.normpath(path) for path in paths if path and Path(path).exists()}):
        if path != "/" and not (kept and path.startswith(f"{kept[-1]}/")):
            kept.append(path)
    return tuple(kept)
