"""Construction of plugins with options, and their validation."""

import difflib
import inspect
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eval_toolkit import protocols
from eval_toolkit._internal.files import parse_toml
from eval_toolkit.errors import EvalToolkitError, InvalidInputError, PluginError
from eval_toolkit.plugins.kinds import described
from eval_toolkit.plugins.names import known_name, load_plugin, quietly
from eval_toolkit.plugins.origins import Origin, making


def make_plugin(
    kind: str,
    spec: str,
    ours: Mapping[str, str],
    *,
    protocol: type,
    origin: Origin,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Return the object with a given name; classes and functions are called.

    Parameters
    ----------
    kind, ours, origin
        As in `load_plugin`.
    spec : str
        Name or ``package.module:object``, optionally followed by options as a TOML table:
        ``length_outlier{factor=5}``.
    protocol : type
        Protocol that the object must satisfy.
    options : mapping, optional
        Additional options.

    Returns
    -------
    object
        Object that satisfies the protocol.

    Raises
    ------
    PluginError
        If the name is unknown, creating the object fails, or it does not satisfy the protocol.
    InvalidInputError
        If an option is unknown or missing.

    Examples
    --------
    >>> from eval_toolkit.plugins import TYPED
    >>> from eval_toolkit.protocols import TextTransform
    >>> decoder = "json:JSONDecoder{strict=false}"
    >>> make_plugin("examples", decoder, {}, protocol=TextTransform, origin=TYPED)
    Traceback (most recent call last):
    eval_toolkit.errors.PluginError: example 'json:JSONDecoder' is a JSONDecoder, which is not a
    valid TextTransform: it lacks `name` and `transform`
    """
    name, inline = name_and_options(spec)
    found = load_plugin(kind, name, ours, origin=origin)
    given = {**inline, **(options or {})}
    return finish_plugin(kind, name, found, given, protocol=protocol, origin=origin)


def finish_plugin(
    kind: str,
    name: str,
    found: Any,
    options: Mapping[str, Any],
    *,
    protocol: type,
    origin: Origin,
    arguments: Sequence[Any] = (),
) -> Any:
    """Return a loaded object; classes and functions are called.

    Parameters
    ----------
    kind, name : str
        Kind and name of the plugin, for messages.
    found : object
        Object as returned by `load_plugin`.
    options : mapping
        Options for the constructor.
    protocol : type
        Protocol that the object must satisfy.
    origin : Origin
        Origin of the name and the options, as in `load_plugin`; it also applies to names
        in the options.
    arguments : sequence
        Positional arguments before the options.

    Returns
    -------
    object
        Object that satisfies the protocol.

    Raises
    ------
    PluginError
        If creating the object fails, or it does not satisfy the protocol.
    InvalidInputError
        If an option is unknown or missing, or options are given for an existing object.

    Examples
    --------
    >>> from eval_toolkit.plugins import TYPED
    >>> finish_plugin("examples", "five", int, {}, protocol=int, arguments=["5"], origin=TYPED)
    5
    """
    if is_made(kind, name, found, protocol):
        if arguments or options:
            raise InvalidInputError(
                f"{described(kind, name)} is an existing object; it takes no options"
            )
        return found
    if not callable(found):
        raise PluginError(
            f"{described(kind, name)} is {lacking_members(found, protocol)}, and is not callable"
        )
    made = call_plugin(kind, name, found, options, origin=origin, arguments=arguments)
    if not is_made(kind, name, made, protocol):
        raise PluginError(f"{described(kind, name)} is {lacking_members(made, protocol)}")
    return made


def call_plugin(
    kind: str,
    name: str,
    found: Any,
    options: Mapping[str, Any],
    *,
    origin: Origin,
    arguments: Sequence[Any] = (),
) -> Any:
    """Call a class or a function, after checking its arguments.

    Parameters
    ----------
    kind, name, found, options, origin, arguments
        As in `finish_plugin`.

    Returns
    -------
    object
        Return value of the call.

    Raises
    ------
    PluginError
        If the call raises any exception.
    InvalidInputError
        If an option is unknown or missing, or an option from a file permits code execution.

    Examples
    --------
    >>> from eval_toolkit.plugins import TYPED
    >>> call_plugin("examples", "decoder", dict, {"a": 1}, origin=TYPED)
    {'a': 1}
    """
    origin.refuse_consent(options)
    _check_options(kind, name, found, options, arguments)
    try:
        with quietly(), making(origin):
            return found(*arguments, **options)
    except EvalToolkitError:
        raise
    except (Exception, SystemExit) as error:  # a plugin may raise any exception on construction
        raise PluginError(
            f"{described(kind, name)}: creating it failed: {type(error).__name__}: {error}"
        ) from error


def read_spec(kind: str, text: str, ours: Iterable[str]) -> tuple[str, str | None, dict[str, Any]]:
    """Split ``NAME:ARGUMENT{…}`` into the name, the argument and the options.

    Parameters
    ----------
    kind, ours
        As in `known_name`.
    text : str
        ``NAME``, ``NAME:ARGUMENT``, ``NAME{option=…}`` or ``package.module:object{option=…}``.
        Braces after the colon of a known name are part of the argument.

    Returns
    -------
    tuple of str, str or None, and dict
        The name as registered (or as written if it is unknown), the argument, and the options.

    Raises
    ------
    InvalidInputError
        If the part in braces is not a TOML table.

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
    """Split a string into a name and its options.

    Parameters
    ----------
    text : str
        Name, optionally followed by a TOML table, in which words need no quotes.

    Returns
    -------
    tuple of str and dict
        The name and the options.

    Raises
    ------
    InvalidInputError
        If the part after the name is not a TOML table.

    Examples
    --------
    >>> name_and_options("number_match{where='boxed'}")
    ('number_match', {'where': 'boxed'})
    >>> name_and_options("judge{model=openai:m, votes=3}")
    ('judge', {'model': 'openai:m', 'votes': 3})
    """
    name, brace, rest = text.partition("{")
    if not brace:
        return text, {}
    place = f"{text!r:.200}: the options are not a TOML table such as {{ignore_case=true}}"
    try:
        options = parse_toml(f"options = {{{rest}", place)["options"]
    except InvalidInputError:
        # Shells remove quotes, so a word without them is text.
        options = parse_toml(f"options = {{{_BARE_WORD.sub(_quoted, rest)}", place)["options"]
    return name.strip(), options


_BARE_WORD = re.compile(r"""(?<==)\s*([^\s,{}\[\]"'=][^,{}\[\]"'=]*(?:\{[^{}]*\})?)(?=\s*[,}])""")
_TOML_WORD = re.compile(r"true|false|[+-]?(?:inf|nan|[\d_.]+(?:e[+-]?\d+)?)", re.IGNORECASE)


def _quoted(found: re.Match[str]) -> str:
    word = found[1].rstrip()
    return found[0] if _TOML_WORD.fullmatch(word) else json.dumps(word)


def _check_options(
    kind: str, name: str, made: Any, options: Mapping[str, Any], arguments: Sequence[Any]
) -> None:
    """Raise if a constructor does not accept these options."""
    try:
        signature = inspect.signature(made)
    except (TypeError, ValueError):  # without a signature to check
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
            raise InvalidInputError(f"{described(kind, name)} has no option {option!r}; {hint}")
    if len(arguments) > len(filled) and not any(p.kind is kinds.VAR_POSITIONAL for p in listed):
        raise InvalidInputError(f"{described(kind, name)} accepts nothing after a colon")
    lacking = [
        option
        for option in known
        if option not in options and signature.parameters[option].default is kinds.empty
    ]
    if lacking:
        example = ", ".join(f"{option}=…" for option in lacking)
        raise InvalidInputError(
            f"{described(kind, name)}: needs {' and '.join(lacking)}, as in {name}{{{example}}}"
        )


def is_made(kind: str, name: str, found: Any, protocol: type) -> bool:
    """Return whether an object satisfies a protocol and is not a class."""
    try:
        return isinstance(found, protocol) and not isinstance(found, type)
    except Exception as error:  # a property may raise any exception
        raise PluginError(
            f"{described(kind, name)}: inspection failed: {type(error).__name__}: {error}"
        ) from error


def lacking_members(found: Any, protocol: type) -> str:
    """Describe what an object lacks to satisfy a protocol."""
    lacking = [f"`{name}`" for name in members_of(protocol) if not _has(found, name)]
    name = type(found).__name__
    article = "an" if name[0] in "aeiouAEIOU" else "a"
    kind = f"the class {found.__name__}" if isinstance(found, type) else f"{article} {name}"
    problem = f": it lacks {' and '.join(lacking)}" if lacking else ""
    return f"{kind}, which is not a valid {protocol.__name__}{problem}"


def members_of(protocol: type) -> list[str]:
    """Return the sorted names of a protocol's members."""
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
    except Exception:  # a property that raises exists
        return True
