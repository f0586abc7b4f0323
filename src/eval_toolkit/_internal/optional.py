"""Lazy imports of optional dependencies and package names."""

import shlex
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from eval_toolkit._internal.moved import elsewhere
from eval_toolkit.errors import MissingExtraError


def require(module: str, *, feature: str, extra: str | None = None) -> ModuleType:
    """Import a module; if it is missing, raise an error that names the extra to install.

    ``feature`` is the user-facing name of the feature that needs the module. Without ``extra``, the
    error names the package.

    Examples
    --------
    >>> require("json", feature="an example").__name__
    'json'
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        install = how_to_install(extra) if extra else f"pip install '{package}'"
        raise MissingExtraError(f"{feature} requires {package}. Install with: {install}") from error


def how_to_install(extra: str) -> str:
    """Return the command that installs an extra.

    If the package is installed, the command names it; in a source checkout that is not installed,
    the command names the folder of the checkout.

    Examples
    --------
    >>> how_to_install("report").startswith("pip install '")
    True
    """
    from importlib import metadata

    root = Path(__file__).parents[3]
    try:
        metadata.distribution("eval-toolkit")
    except metadata.PackageNotFoundError:
        if (root / "pyproject.toml").is_file():
            return f"pip install {shlex.quote(f'{root}[{extra}]')}"
    return f"pip install 'eval-toolkit[{extra}]'"


def names_on_use(package: str, homes: Mapping[str, str]) -> tuple[list[str], Callable[[str], Any]]:
    """Return an ``__all__`` of names and a module ``__getattr__`` that imports them on first use.

    ``homes`` maps a submodule, or a full module name, to the names it provides, separated by
    spaces; the package repeats them as ``from module import *`` under ``TYPE_CHECKING``. Old names
    of moved objects are also resolved.

    Examples
    --------
    >>> names, find = names_on_use("json", {"decoder": "JSONDecoder JSONDecodeError"})
    >>> names, find("JSONDecoder").__name__
    (['JSONDecodeError', 'JSONDecoder'], 'JSONDecoder')
    """
    home = {name: module for module, names in homes.items() for name in names.split()}

    def find(name: str) -> Any:
        if name not in home:
            return elsewhere(package, name)
        module = home[name]
        other = module.startswith("eval_toolkit.")
        return getattr(import_module(module if other else f"{package}.{module}"), name)

    if (module := sys.modules.get(package)) is not None and package.startswith("eval_toolkit"):
        vars(module).setdefault("__dir__", lambda: sorted({*vars(module), *home}))
    return sorted(home), find
