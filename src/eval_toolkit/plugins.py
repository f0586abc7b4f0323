"""Names to objects, for the command line and for configuration files.

A name is one of ours, one that an installed package offers as an entry point of the group
``eval_toolkit.<kind>``, or ``package.module:object``. Python callers pass objects instead.
"""

import difflib
from collections.abc import Iterable, Mapping
from functools import reduce
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from eval_toolkit.errors import MissingExtraError, PluginError

__all__ = ["available_plugins", "load_plugin"]


def available_plugins(kind: str, ours: Mapping[str, str]) -> dict[str, str]:
    """Return the names of one kind and where each comes from.

    Parameters
    ----------
    kind : str
        "models", "tasks", "graders" …
    ours : mapping of name to "module:object"
        What comes with the package; wins over an entry point of the same name.

    Returns
    -------
    dict of str to str
        Sorted by name.

    Examples
    --------
    >>> available_plugins("examples", {"json": "json:loads"})
    {'json': 'json:loads'}
    """
    found = {point.name: point.value for point in entry_points(group=f"eval_toolkit.{kind}")}
    return dict(sorted({**found, **ours}.items()))


def load_plugin(kind: str, name: str, ours: Mapping[str, str]) -> Any:
    """Return the object a name stands for.

    Parameters
    ----------
    kind : str
        As in `available_plugins`.
    name : str
        A known name, whatever its case, spaces, ``-`` and ``_``; or ``package.module:object``.
    ours : mapping of name to "module:object"
        What comes with the package.

    Returns
    -------
    object
        Imported, not called.

    Raises
    ------
    PluginError
        If the name is not known (the nearest is suggested), or importing it fails.
    MissingExtraError
        If it needs an optional dependency.

    Examples
    --------
    >>> load_plugin("examples", "json:loads", {})("[1]")
    [1]
    """
    plain = _plain(name)
    place = _by_plain(ours).get(plain)
    if place is not None:  # without a look at every package that is installed
        return _imported(kind, name, ours[place])
    known = available_plugins(kind, ours)
    by_plain = _by_plain(known)
    if plain in by_plain:
        return _imported(kind, name, known[by_plain[plain]])
    if ":" in name:
        return _imported(kind, name, name)
    near = difflib.get_close_matches(plain, by_plain, n=1, cutoff=0.5)
    hint = f"did you mean {by_plain[near[0]]!r}?" if near else f"there are {', '.join(known)}"
    raise PluginError(f"there is no {kind.removesuffix('s')} {name!r}; {hint}")


def _by_plain(names: Iterable[str]) -> dict[str, str]:
    return {_plain(name): name for name in names}


def _plain(name: str) -> str:
    return "".join(sign for sign in name.lower() if sign not in " -_")


def _imported(kind: str, name: str, place: str) -> Any:
    what = f"{kind.removesuffix('s')} {name!r}"
    match = EntryPoint.pattern.match(place)
    if match is None or not match["attr"]:
        raise PluginError(f"{what}: {place!r} is not package.module:object")
    try:
        return reduce(getattr, match["attr"].split("."), import_module(match["module"]))
    except MissingExtraError:
        raise
    except ModuleNotFoundError as error:
        raise PluginError(f"{what}: there is no module {error.name!r}") from error
    except AttributeError as error:
        raise PluginError(f"{what}: {error}") from error
    except Exception as error:  # a plugin may fail in any way while it is imported
        raise PluginError(
            f"{what}: importing it failed: {type(error).__name__}: {error}"
        ) from error
