"""Names to objects, for the command line and for configuration files.

A name is one of ours, one that an installed package offers as an entry point of the group
``eval_toolkit.<kind>``, or ``package.module:object``. Python callers pass objects instead.
`PLUGIN_KINDS` lists the kinds there are.
"""

import contextlib
import difflib
import inspect
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from eval_toolkit import protocols
from eval_toolkit.errors import (
    EvalToolkitError,
    InvalidInputError,
    MissingExtraError,
    PluginError,
)

__all__ = [
    "PLUGIN_KINDS",
    "PluginInfo",
    "PluginKind",
    "available_plugins",
    "call_plugin",
    "finish_plugin",
    "installed_plugins",
    "known_name",
    "load_plugin",
    "make_plugin",
    "name_and_options",
    "read_spec",
]


@dataclass(frozen=True, slots=True)
class PluginKind:
    """A kind of objects that packages can offer by name.

    Examples
    --------
    >>> PLUGIN_KINDS["checks"].group, PLUGIN_KINDS["checks"].protocol
    ('eval_toolkit.checks', 'LeakageCheck')
    """

    name: str
    protocol: str
    """What the object must be, by its name in `protocols`; of tasks, their base class."""
    used_by: str
    """Where the command line takes such a name."""

    @property
    def group(self) -> str:
        """The group of entry points."""
        return f"eval_toolkit.{self.name}"


PLUGIN_KINDS: Mapping[str, PluginKind] = {
    kind.name: kind
    for kind in (
        PluginKind("attacks", "Attack", "rollout --tester NAME"),
        PluginKind("checks", "LeakageCheck", "check --check NAME, evaluate --check NAME"),
        PluginKind("graders", "Grader", "run --grader NAME, graders show NAME"),
        PluginKind("loaders", "DatasetLoader", "check --loader NAME, evaluate --loader NAME"),
        PluginKind("models", "Model", "run --model NAME, rollout --target NAME"),
        PluginKind("scorers", "Scorer", "evaluate --scorer NAME"),
        PluginKind("selectors", "ThresholdSelector", "evaluate --select NAME, score --select NAME"),
        PluginKind("splitters", "Splitter", "evaluate --splitter NAME"),
        PluginKind("tasks", "BaseTask", "run NAME, tasks show NAME"),
        PluginKind("text_scorers", "TextScorer", "rollout --scorer NAME, rescore --scorer NAME"),
    )
}
"""Every kind, in one place; the group of entry points is ``eval_toolkit.<kind>``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """What is known about one name that an installed package offers.

    Examples
    --------
    >>> PluginInfo(kind="graders", name="rude", place="rude:Rude", state="ok").usable
    True
    """

    kind: str
    name: str
    place: str
    """``module:object``, as the package says it."""
    distribution: str = ""
    version: str = ""
    state: str
    """"ok"; "broken", "hidden" (we have that name ourselves) or "ambiguous" (two packages have)."""
    problem: str = ""
    """One line, empty where there is none."""

    @property
    def usable(self) -> bool:
        """Whether the name can be used."""
        return self.state == "ok"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {name: getattr(self, name) for name in self.__slots__}


def available_plugins(kind: str, ours: Mapping[str, str]) -> dict[str, str]:
    """Return the names of one kind and where each comes from.

    Parameters
    ----------
    kind : str
        "models", "tasks", "graders" …; `PLUGIN_KINDS` has them all.
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


def known_name(kind: str, text: str, ours: Iterable[str]) -> str | None:
    """Return the known name that a text means, whatever its case, spaces, ``-`` and ``_``.

    Parameters
    ----------
    kind : str
        As in `available_plugins`.
    text : str
        What somebody wrote.
    ours : iterable of str
        The names that come with the package; they win.

    Returns
    -------
    str or None
        The name as it is offered; None where there is none.

    Examples
    --------
    >>> known_name("examples", "Max-F1", ["max_f1"])
    'max_f1'
    """
    plain = _plain(text)
    own = _by_plain(ours).get(plain)
    if own is not None:  # without a look at every package that is installed
        return own
    points = entry_points(group=f"eval_toolkit.{kind}")
    return _by_plain(point.name for point in points).get(plain)


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
        If the name is not known (the nearest is suggested), two packages offer it, or importing it
        fails.
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
    offered = [point for point in entry_points(group=f"eval_toolkit.{kind}") if point.name]
    meant = [point for point in offered if _plain(point.name) == plain]
    if len({point.value for point in meant}) > 1:
        raise PluginError(f"{_what(kind, name)}: {_offered_twice(meant)}")
    if meant:
        return _imported(kind, name, meant[0].value)
    by_plain = _by_plain(sorted({*ours, *(point.name for point in offered)}))
    if ":" in name:
        try:
            return _imported(kind, name, name)
        except PluginError as error:
            head = _plain(name.partition(":")[0])
            near = difflib.get_close_matches(head, by_plain, n=1, cutoff=0.6)
            if not near or "." in head:
                raise
            raise PluginError(f"{error}; did you mean {by_plain[near[0]]!r}?") from error.__cause__
    near = difflib.get_close_matches(plain, by_plain, n=1, cutoff=0.5)
    if near:
        hint = f"did you mean {by_plain[near[0]]!r}?"
    elif by_plain:
        hint = f"there are {', '.join(by_plain.values())}"
    else:
        hint = "no installed package offers one; write package.module:object"
    raise PluginError(f"there is no {_one(kind)} {name!r}; {hint}")


def make_plugin(
    kind: str,
    spec: str,
    ours: Mapping[str, str],
    *,
    protocol: type,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Return the object that a name stands for, made where it is a class or a function.

    Parameters
    ----------
    kind, ours
        As in `load_plugin`.
    spec : str
        A name or ``package.module:object``; behind it may stand options as a TOML table:
        ``length_outlier{factor=5}``.
    protocol : type
        What the object must be.
    options : mapping, optional
        More of them.

    Returns
    -------
    object
        Of the protocol.

    Raises
    ------
    PluginError
        If there is no such name, making the object fails, or it is not of the protocol.
    InvalidInputError
        If an option is unknown or missing.

    Examples
    --------
    >>> from eval_toolkit.protocols import TextTransform
    >>> make_plugin("examples", "json:JSONDecoder{strict=false}", {}, protocol=TextTransform)
    Traceback (most recent call last):
    eval_toolkit.errors.PluginError: example 'json:JSONDecoder' is a JSONDecoder, which is no
    TextTransform: it lacks `name` and `transform`
    """
    name, told = name_and_options(spec)
    found = load_plugin(kind, name, ours)
    return finish_plugin(kind, name, found, {**told, **(options or {})}, protocol=protocol)


def finish_plugin(
    kind: str,
    name: str,
    found: Any,
    options: Mapping[str, Any],
    *,
    protocol: type,
    arguments: Sequence[Any] = (),
) -> Any:
    """Return an object that was loaded, or what it makes where it is a class or a function.

    Parameters
    ----------
    kind, name : str
        For messages.
    found : object
        As `load_plugin` returns it.
    options : mapping
        Passed to what makes the object.
    protocol : type
        What the object must be.
    arguments : sequence
        Passed before the options.

    Returns
    -------
    object
        Of the protocol.

    Raises
    ------
    PluginError
        If making the object fails, or it is not of the protocol.
    InvalidInputError
        If an option is unknown or missing, or the object is made already and takes none.

    Examples
    --------
    >>> finish_plugin("examples", "five", int, {}, protocol=int, arguments=["5"])
    5
    """
    if _is_made(kind, name, found, protocol):
        if arguments or options:
            raise InvalidInputError(f"{_what(kind, name)} is ready made; it takes no options")
        return found
    if not callable(found):
        raise PluginError(f"{_what(kind, name)} is {_lacking(found, protocol)}, and makes none")
    made = call_plugin(kind, name, found, options, arguments=arguments)
    if not _is_made(kind, name, made, protocol):
        raise PluginError(f"{_what(kind, name)} is {_lacking(made, protocol)}")
    return made


def call_plugin(
    kind: str, name: str, found: Any, options: Mapping[str, Any], *, arguments: Sequence[Any] = ()
) -> Any:
    """Return what a class or a function makes, having checked what it can be called with.

    Parameters
    ----------
    kind, name, found, options, arguments
        As in `finish_plugin`.

    Returns
    -------
    object
        Whatever it makes.

    Raises
    ------
    PluginError
        If making it fails, in whatever way.
    InvalidInputError
        If an option is unknown or missing.

    Examples
    --------
    >>> call_plugin("examples", "decoder", dict, {"a": 1})
    {'a': 1}
    """
    _check_options(kind, name, found, options, arguments)
    try:
        with _quiet():
            return found(*arguments, **options)
    except EvalToolkitError:
        raise
    except (Exception, SystemExit) as error:  # a plugin may fail in any way while it is made
        raise PluginError(
            f"{_what(kind, name)}: making it failed: {type(error).__name__}: {error}"
        ) from error


def read_spec(kind: str, text: str, ours: Iterable[str]) -> tuple[str, str | None, dict[str, Any]]:
    """Return the name, what stands behind its colon, and its options, of ``NAME:WHICH``.

    Parameters
    ----------
    kind, ours
        As in `known_name`.
    text : str
        ``NAME``, ``NAME:WHICH``, ``NAME{option=…}`` or ``package.module:object{option=…}``. Braces
        behind the colon of a known name are part of what stands there.

    Returns
    -------
    tuple of str, str or None, and dict
        The name as it is offered, or as it was written where nobody offers it.

    Raises
    ------
    InvalidInputError
        If what stands in braces is no TOML table.

    Examples
    --------
    >>> read_spec("examples", r"Pattern:a{2}", ["pattern"])
    ('pattern', 'a{2}', {})
    >>> read_spec("examples", "pattern{flags=2}", ["pattern"])
    ('pattern', None, {'flags': 2})
    """
    known = list(ours)
    head = re.split("[:{]", text, maxsplit=1)[0]
    if text[len(head) : len(head) + 1] == ":":
        meant = known_name(kind, head, known)
        if meant is not None:
            return meant, text[len(head) + 1 :], {}
    name, options = name_and_options(text)
    return known_name(kind, name, known) or name, None, options


def name_and_options(text: str) -> tuple[str, dict[str, Any]]:
    """Return a name and the options behind it.

    Parameters
    ----------
    text : str
        A name, and perhaps a TOML table.

    Returns
    -------
    tuple of str and dict
        The name and the options.

    Raises
    ------
    InvalidInputError
        If what stands behind the name is no TOML table.

    Examples
    --------
    >>> name_and_options("number_match{where='boxed'}")
    ('number_match', {'where': 'boxed'})
    """
    name, brace, rest = text.partition("{")
    if not brace:
        return text, {}
    try:
        return name.strip(), tomllib.loads(f"options = {{{rest}")["options"]
    except tomllib.TOMLDecodeError as error:
        raise InvalidInputError(
            f"{text!r}: the options are no TOML table such as {{ignore_case=true}}: {error}"
        ) from None


def installed_plugins(
    ours: Mapping[str, Collection[str]] | None = None, *, kinds: Iterable[str] = PLUGIN_KINDS
) -> list[PluginInfo]:
    """Return what installed packages offer, each imported to see whether it can be.

    Parameters
    ----------
    ours : mapping of kind to names, optional
        What comes with the package; the same name of another package is hidden by it.
    kinds : iterable of str
        All by default.

    Returns
    -------
    list of PluginInfo
        By kind, name and place. One that fails to import says why and stops no other.

    Examples
    --------
    >>> [info.name for info in installed_plugins(kinds=["examples"])]
    []
    """
    found = []
    for kind in kinds:
        own = {_plain(name) for name in (ours or {}).get(kind, ())}
        points = list(entry_points(group=f"eval_toolkit.{kind}"))
        places = {(_plain(point.name), point.value) for point in points}
        many = Counter(plain for plain, _ in places)
        for point in points:
            plain = _plain(point.name)
            state, problem = "ok", _problem(kind, point)
            if problem:
                state = "broken"
            elif plain in own:
                state, problem = "hidden", f"eval-toolkit has {_what(kind, point.name)} itself"
            elif many[plain] > 1:
                meant = [other for other in points if _plain(other.name) == plain]
                state, problem = "ambiguous", _offered_twice(meant)
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
    """Return why an entry point cannot be used; empty when it seems that it can."""
    try:
        found = _imported(kind, point.name, point.value)
    except EvalToolkitError as error:
        return str(error)
    protocol = _protocol(kind)
    if protocol is None:
        return ""
    if isinstance(found, type):  # what it sets when it is made cannot be seen yet
        fits = _can_make(found, protocol)
    elif callable(found):  # what it makes, or is, is known when it is used
        return ""
    else:
        try:
            fits = _is_made(kind, point.name, found, protocol)
        except PluginError as error:
            return str(error)
    return "" if fits else f"{_what(kind, point.name)} is {_lacking(found, protocol)}"


def _protocol(kind: str) -> Any:
    """Return what objects of a kind must be; None for kinds that are not ours."""
    if kind not in PLUGIN_KINDS:
        return None
    if kind == "tasks":  # a base class, of a layer above this one
        return import_module("eval_toolkit.tasks.base").BaseTask
    return getattr(protocols, PLUGIN_KINDS[kind].protocol)


def _can_make(found: type, protocol: type) -> bool:
    """Return whether objects of a class can be of a protocol: its methods are there."""
    if protocol.__module__ != protocols.__name__:
        return issubclass(found, protocol)
    return all(
        callable(getattr(found, name, None))
        for name in _members(protocol)
        if inspect.isfunction(getattr(protocol, name, None))
    )


def _offered_twice(points: Iterable[EntryPoint]) -> str:
    who = sorted(
        f"{point.dist.name if point.dist is not None else 'a package'} ({point.value})"
        for point in points
    )
    return f"{' and '.join(dict.fromkeys(who))} offer that name; write package.module:object"


def _check_options(
    kind: str, name: str, made: Any, options: Mapping[str, Any], arguments: Sequence[Any]
) -> None:
    """Raise if what makes an object cannot be called with these options."""
    try:
        signature = inspect.signature(made)
    except (TypeError, ValueError):  # has none to check
        return
    kinds = inspect.Parameter
    places = (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    listed = list(signature.parameters.values())
    filled = [p for p in listed if p.kind in places][: len(arguments)]
    rest = [p for p in listed if p not in filled]
    known = [p.name for p in rest if p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)]
    anything = any(p.kind is kinds.VAR_KEYWORD for p in listed)
    for option in options:
        if option not in known and not anything:
            near = difflib.get_close_matches(option, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known) or 'none'}"
            raise InvalidInputError(f"{_what(kind, name)} has no option {option!r}; {hint}")
    if len(arguments) > len(filled) and not any(p.kind is kinds.VAR_POSITIONAL for p in listed):
        raise InvalidInputError(f"{_what(kind, name)} takes nothing after a colon")
    lacking = [
        option
        for option in known
        if option not in options and signature.parameters[option].default is kinds.empty
    ]
    if lacking:
        example = ", ".join(f"{option}=…" for option in lacking)
        raise InvalidInputError(
            f"{_what(kind, name)}: needs {' and '.join(lacking)}, as in {name}{{{example}}}"
        )


def _is_made(kind: str, name: str, found: Any, protocol: type) -> bool:
    """Return whether an object is of a protocol; a class has the members, too, and is not."""
    try:
        return isinstance(found, protocol) and not isinstance(found, type)
    except Exception as error:  # a property may fail in any way
        raise PluginError(
            f"{_what(kind, name)}: looking at it failed: {type(error).__name__}: {error}"
        ) from error


def _lacking(found: Any, protocol: type) -> str:
    """Return what an object is and what it lacks to be of a protocol, in words."""
    lacking = [f"`{name}`" for name in _members(protocol) if not _has(found, name)]
    name = type(found).__name__
    article = "an" if name[0] in "aeiouAEIOU" else "a"
    kind = f"the class {found.__name__}" if isinstance(found, type) else f"{article} {name}"
    told = f": it lacks {' and '.join(lacking)}" if lacking else ""
    return f"{kind}, which is no {protocol.__name__}{told}"


def _members(protocol: type) -> list[str]:
    """Return the names that an object of a protocol has, sorted."""
    found = {
        name
        for base in protocol.__mro__
        if base.__module__ == protocols.__name__
        for name in vars(base)
        if not name.startswith("_")
    }
    return sorted(found)


def _has(found: Any, name: str) -> bool:
    try:
        return hasattr(found, name)
    except Exception:  # a property that fails is there
        return True


def _one(kind: str) -> str:
    return kind.removesuffix("s").replace("_", " ")


def _what(kind: str, name: str) -> str:
    return f"{_one(kind)} {name!r}"


def _by_plain(names: Iterable[str]) -> dict[str, str]:
    return {_plain(name): name for name in names}


def _plain(name: str) -> str:
    return "".join(sign for sign in name.lower() if sign not in " -_")


def _imported(kind: str, name: str, place: str) -> Any:
    what = _what(kind, name)
    match = EntryPoint.pattern.match(place)
    if match is None or not match["attr"]:
        raise PluginError(f"{what}: {place!r} is not package.module:object")
    try:
        with _quiet():
            module = import_module(match["module"])
    except MissingExtraError:
        raise
    except ModuleNotFoundError as error:
        raise PluginError(f"{what}: there is no module {error.name!r}") from error
    except (Exception, SystemExit) as error:  # a plugin may fail in any way while it is imported
        raise PluginError(
            f"{what}: importing it failed: {type(error).__name__}: {error}"
        ) from error
    try:
        return reduce(getattr, match["attr"].split("."), module)
    except AttributeError as error:
        raise PluginError(f"{what}: {error}") from error


def _quiet() -> contextlib.AbstractContextManager[Any]:
    """Return where plugins are run that print: standard output belongs to what is asked for."""
    return contextlib.redirect_stdout(sys.stderr)
