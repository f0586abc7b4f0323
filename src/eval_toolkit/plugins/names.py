"""Resolution of names: built-in objects, entry points, ``package.module:object``."""

import contextlib
import difflib
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from importlib import import_module
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path, PurePath
from typing import Any

from eval_toolkit.errors import MissingExtraError, PluginError
from eval_toolkit.plugins.kinds import described, singular
from eval_toolkit.plugins.origins import Origin


def available_plugins(kind: str, ours: Mapping[str, str]) -> dict[str, str]:
    """Return the names of a kind with their locations.

    Parameters
    ----------
    kind : str
        "models", "tasks", "graders" …; see `PLUGIN_KINDS` for all kinds.
    ours : mapping of name to "module:object"
        Built-in objects; they take precedence over entry points of the same name.

    Returns
    -------
    dict of str to str
        Locations by name, sorted.

    Examples
    --------
    >>> available_plugins("examples", {"json": "json:loads"})
    {'json': 'json:loads'}
    """
    found = {point.name: point.value for point in offered(kind)}
    return dict(sorted({**found, **ours}.items()))


def known_name(kind: str, text: str, ours: Iterable[str]) -> str | None:
    """Return the known name that matches a string up to case, spaces, ``-`` and ``_``.

    Parameters
    ----------
    kind : str
        As in `available_plugins`.
    text : str
        Text to match.
    ours : iterable of str
        Built-in names; they take precedence.

    Returns
    -------
    str or None
        Name as registered; None if there is no match.

    Examples
    --------
    >>> known_name("examples", "Max-F1", ["max_f1"])
    'max_f1'
    """
    plain = plain_name(text)
    own = _by_plain(ours).get(plain)
    if own is not None:  # without searching the installed packages
        return own
    points = offered(kind)
    return _by_plain(point.name for point in points).get(plain)


def load_plugin(kind: str, name: str, ours: Mapping[str, str], *, origin: Origin) -> Any:
    """Return the object with a given name.

    Parameters
    ----------
    kind : str
        As in `available_plugins`.
    name : str
        Known name, ignoring case, spaces, ``-`` and ``_``; or ``package.module:object``.
    ours : mapping of name to "module:object"
        Built-in objects.
    origin : Origin
        Origin of the name: `TYPED`, or a file, as returned by `read_from`.

    Returns
    -------
    object
        Imported object, not called.

    Raises
    ------
    PluginError
        If the name is unknown (the closest name is suggested), two packages provide it, or
        importing it fails.
    InvalidInputError
        If a file names ``package.module:object`` and the user did not allow its code.
    MissingExtraError
        If the object needs an optional dependency that is not installed.

    Examples
    --------
    >>> from eval_toolkit.plugins import TYPED
    >>> load_plugin("examples", "json:loads", {}, origin=TYPED)("[1]")
    [1]
    """
    plain = plain_name(name)
    place = _by_plain(ours).get(plain)
    if place is not None:  # without searching the installed packages
        return imported(kind, name, ours[place])
    points = [point for point in offered(kind) if point.name]
    meant = [point for point in points if plain_name(point.name) == plain]
    if len({point.value for point in meant}) > 1:
        raise PluginError(f"{described(kind, name)}: {offered_twice(meant)}")
    if meant:
        return imported(kind, name, meant[0].value)
    by_plain = _by_plain(sorted({*ours, *(point.name for point in points)}))
    if ":" in name:
        origin.refuse_import(name, f"the module {name.partition(':')[0]}")
        try:
            return imported(kind, name, name)
        except PluginError as error:
            head = plain_name(name.partition(":")[0])
            near = difflib.get_close_matches(head, by_plain, n=1, cutoff=0.6)
            if not near or "." in head:
                raise
            raise PluginError(f"{error}; did you mean {by_plain[near[0]]!r}?") from error.__cause__
    near = difflib.get_close_matches(plain, by_plain, n=1, cutoff=0.5)
    if near:
        hint = f"did you mean {by_plain[near[0]]!r}?"
    elif by_plain:
        hint = f"the names are {', '.join(by_plain.values())}; write module:object for your own"
    else:
        hint = "no installed package provides one; use package.module:object"
    raise PluginError(f"there is no {singular(kind)} {name!r}; {hint}")


def offered(kind: str) -> EntryPoints:
    """Return the entry points of a plugin kind in all packages."""
    return entry_points(group=f"eval_toolkit.{kind}")


def offered_twice(points: Iterable[EntryPoint]) -> str:
    """Return a message if several packages provide the same name."""
    who = sorted(
        f"{point.dist.name if point.dist is not None else 'a package'} ({point.value})"
        for point in points
    )
    return f"{' and '.join(dict.fromkeys(who))} provide this name; use package.module:object"


def _by_plain(names: Iterable[str]) -> dict[str, str]:
    return {plain_name(name): name for name in names}


def plain_name(name: str) -> str:
    """Return a name normalised for comparison: case, spaces, ``-`` and ``_``."""
    return "".join(sign for sign in name.lower() if sign not in " -_")


def imported(kind: str, name: str, place: str) -> Any:
    """Return the object at ``package.module:object``; errors include the name of the plugin."""
    what = described(kind, name)
    file, dot, attribute = place.rpartition(".py:")
    if dot:
        importable = f"{PurePath(file).name}:{attribute}"
        how = "" if {"", str(Path.cwd())} & {*sys.path} else " with PYTHONPATH=."
        raise PluginError(
            f"{what}: write {importable}, the module without .py, from its folder{how}"
        )
    match = EntryPoint.pattern.match(place)
    if match is None or not match["attr"]:
        raise PluginError(f"{what}: {place!r} is not package.module:object")
    try:
        with quietly():
            module = import_module(match["module"])
    except MissingExtraError:
        raise
    except ModuleNotFoundError as error:
        here = PurePath(f"{error.name}.py")
        hint = f"; to find {here} in this folder, set PYTHONPATH=." if Path(here).is_file() else ""
        raise PluginError(f"{what}: there is no module {error.name!r}{hint}") from error
    except (Exception, SystemExit) as error:  # importing a plugin may raise any exception
        raise PluginError(
            f"{what}: importing it failed: {type(error).__name__}: {error}"
        ) from error
    try:
        return reduce(getattr, match["attr"].split("."), module)
    except AttributeError as error:
        raise PluginError(f"{what}: {error}") from error


_quiet_lock = threading.Lock()
_redirected: list[Any] = []
"""Standard output, once for each thread in which a plugin runs."""


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Redirect standard output to standard error, since it is reserved for results.

    Threads share standard output: the first one redirects it, and the last one restores it.
    """
    with _quiet_lock:
        _redirected.append(_redirected[0] if _redirected else sys.stdout)
        sys.stdout = sys.stderr
    try:
        yield
    finally:
        with _quiet_lock:
            output = _redirected.pop()
            if not _redirected:
                sys.stdout = output
