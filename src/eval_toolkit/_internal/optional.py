"""Lazy imports: optional dependencies, and rarely used names."""

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
    """Import and return ``module``, or raise an error that names the extra which provides it.

    ``feature`` is the user-facing name of the feature that needs the module. Without an ``extra``,
    the error names the package itself.

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

    pip adds the extra to the installed package, whatever its source. A clone that runs without
    being installed is installed by its path, since no index may have the package.

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
    """Return an ``__all__`` of names and a ``__getattr__`` that imports them on first use.

    Type checkers read the same names in imports for them alone, ``from module import *``.
    ``homes`` maps a module of the package, or the dotted name of another one, to the names that it
    provides, separated by spaces. Old names of moved objects are resolved as well.

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
