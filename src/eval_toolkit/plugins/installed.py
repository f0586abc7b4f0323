"""Plugins of installed packages, including unusable plugins."""

import inspect
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import Any

from eval_toolkit import protocols
from eval_toolkit.errors import EvalToolkitError, PluginError
from eval_toolkit.plugins.construction import is_made, lacking_members, members_of
from eval_toolkit.plugins.kinds import PLUGIN_KINDS, described
from eval_toolkit.plugins.names import imported, offered, offered_twice, plain_name


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """Description of a plugin of an installed package.

    Examples
    --------
    >>> PluginInfo(kind="graders", name="rude", place="rude:Rude", state="ok").usable
    True
    """

    kind: str
    name: str
    place: str
    """Location as ``module:object``, as declared by the package."""
    distribution: str = ""
    version: str = ""
    state: str
    """"ok", "broken", "hidden" (by a built-in name) or "ambiguous" (provided by two packages)."""
    problem: str = ""
    """One-line description of the problem; empty if there is none."""

    @property
    def usable(self) -> bool:
        """Whether the name can be used."""
        return self.state == "ok"

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {name: getattr(self, name) for name in self.__slots__}


def installed_plugins(
    ours: Mapping[str, Collection[str]] | None = None, *, kinds: Iterable[str] = PLUGIN_KINDS
) -> list[PluginInfo]:
    """Return the plugins of installed packages, each imported to check that it is usable.

    Parameters
    ----------
    ours : mapping of kind to names, optional
        Built-in names; plugins of the same name are hidden.
    kinds : iterable of str
        Kinds of plugins; by default all.

    Returns
    -------
    list of PluginInfo
        Plugins sorted by kind, name and place. A plugin that fails to import is included,
        with the reason.

    Examples
    --------
    >>> [info.name for info in installed_plugins(kinds=["examples"])]
    []
    """
    found = []
    for kind in kinds:
        own = {plain_name(name) for name in (ours or {}).get(kind, ())}
        points = list(offered(kind))
        places = {(plain_name(point.name), point.value) for point in points}
        many = Counter(plain for plain, _ in places)
        for point in points:
            plain = plain_name(point.name)
            state, problem = "ok", _problem(kind, point)
            if problem:
                state = "broken"
            elif plain in own:
                state, problem = (
                    "hidden",
                    f"eval-toolkit has a built-in {described(kind, point.name)}",
                )
            elif many[plain] > 1:
                meant = [other for other in points if plain_name(other.name) == plain]
                state, problem = "ambiguous", offered_twice(meant)
            dist = point.dist
            found.append(
                PluginInfo(
                    kind=kind,
                    name=point.name,
                    place=point.value,
                    distribution="" if dist is None else dist.name,
                    version="" if dist is None else dist.version,
                    state=state,
                    problem=" ".join(problem.split()),
                )
            )
    return sorted(found, key=lambda info: (info.kind, info.name, info.place))


def _problem(kind: str, point: EntryPoint) -> str:
    """Return why an entry point is unusable; "" if it seems usable."""
    try:
        found = imported(kind, point.name, point.value)
    except EvalToolkitError as error:
        return str(error)
    protocol = _protocol(kind)
    if protocol is None:
        return ""
    if kind == "kinds":  # the class itself is the plugin
        fits = isinstance(found, type) and protocol in found.__mro__
    elif isinstance(found, type):  # attributes set on construction are unknown yet
        fits = _can_make(found, protocol)
    elif callable(found):  # the result is checked when it is used
        return ""
    else:
        try:
            fits = is_made(kind, point.name, found, protocol)
        except PluginError as error:
            return str(error)
    if fits:
        return ""
    if kind == "kinds":
        return f"{described(kind, point.name)} is not a subclass of Kind; inherit from eval_toolkit.runs.Kind"
    return f"{described(kind, point.name)} is {lacking_members(found, protocol)}"


def _protocol(kind: str) -> Any:
    """Return the protocol of a kind; None for unknown kinds."""
    if kind not in PLUGIN_KINDS:
        return None
    if kind == "tasks":  # a base class of a higher layer
        return import_module("eval_toolkit.tasks.base").BaseTask
    if kind == "kinds":
        return import_module("eval_toolkit.runs.kinds").Kind
    return getattr(protocols, PLUGIN_KINDS[kind].protocol)


def _can_make(found: type, protocol: type) -> bool:
    """Return whether a class has the methods of a protocol."""
    if protocol.__module__ != protocols.__name__:
        return issubclass(found, protocol)
    return all(
        callable(getattr(found, name, None))
        for name in members_of(protocol)
        if inspect.isfunction(getattr(protocol, name, None))
    )
