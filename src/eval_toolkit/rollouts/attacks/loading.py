"""Creation of attacks from names, models or lists of probes."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.plugins import (
    TYPED,
    available_plugins,
    finish_plugin,
    load_plugin,
    name_and_options,
)
from eval_toolkit.protocols import Attack, Model
from eval_toolkit.rollouts.attacks.base import is_attack, is_wrapper

_HERE = "eval_toolkit.rollouts.attacks"
_OURS = {
    "base64": f"{_HERE}.encodings:Base64",
    "best_of_n": f"{_HERE}.best_of_n:BestOfN",
    "crescendo": f"{_HERE}.crescendo:Crescendo",
    "homoglyphs": f"{_HERE}.encodings:Homoglyphs",
    "leetspeak": f"{_HERE}.encodings:Leetspeak",
    "prefix_injection": f"{_HERE}.templates:PrefixInjection",
    "refinement": f"{_HERE}.refinement:Refinement",
    "refusal_suppression": f"{_HERE}.templates:RefusalSuppression",
    "reversed": f"{_HERE}.encodings:Reversed",
    "role_play": f"{_HERE}.templates:RolePlay",
    "rot13": f"{_HERE}.encodings:Rot13",
    "scripted": f"{_HERE}.static:Scripted",
    "static": f"{_HERE}.static:Static",
    "template": f"{_HERE}.templates:Template",
    "zero_width": f"{_HERE}.encodings:ZeroWidth",
}
_WHAT = {
    "base64": "the probe in Base64",
    "best_of_n": "random capitals, shuffled letters and noise, different on every branch",
    "crescendo": "escalates from a harmless question to the goal; probes are written by a model "
    "if given",
    "homoglyphs": "Cyrillic letters that look like Latin ones",
    "leetspeak": "letters replaced by digits that look similar",
    "prefix_injection": "asks the target to begin its answer as if it had agreed",
    "refinement": "a model reads the replies and writes improved probes; needs a model",
    "refusal_suppression": "asks the target to answer without words typical of refusals",
    "reversed": "the probe written backwards",
    "role_play": "addresses the probe to a character that the target plays",
    "rot13": "the probe with its letters rotated by 13 places",
    "scripted": "a list of probes, one per turn",
    "static": "the seed prompt itself",
    "template": "a custom template around the probe",
    "zero_width": "zero-width characters between the characters of the probe",
}


def available_attacks() -> dict[str, str]:
    """Return the available attacks with one-line descriptions.

    Returns
    -------
    dict of str to str
        Built-in attacks and those registered by installed packages as ``eval_toolkit.attacks``,
        sorted by name.

    Examples
    --------
    >>> available_attacks()["static"]
    'the seed prompt itself'
    """
    return {
        name: _WHAT.get(name, place) for name, place in available_plugins("attacks", _OURS).items()
    }


def load_attack(spec: str, **options: Any) -> Attack:
    """Create an attack from its name.

    Parameters
    ----------
    spec : str
        Name from `available_attacks` or ``package.module:object``; names joined by ``+`` are
        nested, each attack wrapping the next one: ``role_play+base64``. Each name may be followed
        by options in TOML syntax: ``best_of_n{n=4}+role_play``.
    **options
        Attack options, each passed to the one attack in the spec that accepts it.

    Returns
    -------
    Attack
        New attack.

    Raises
    ------
    PluginError
        If there is no attack with that name; the nearest name is suggested.
    InvalidInputError
        If an option is accepted by none or by several of the attacks, a required option is missing,
        or one of the attacks cannot wrap another.

    Examples
    --------
    >>> load_attack("role_play+base64").name
    'role_play+base64'
    >>> load_attack("best_of_n{share=0.2}", n=4).branches
    4
    """
    if not isinstance(spec, str):
        raise InvalidTypeError(f"`spec` is {spec!r:.60}; it must be the name of an attack")
    names, tables, found = [], [], []
    for part in _parts(spec):
        name, told = name_and_options(part)
        if not name:
            raise InvalidInputError(f"attack {spec!r}: a name is missing before or after '+'")
        names.append(name)
        tables.append(dict(told))
        found.append(load_plugin("attacks", name, _OURS, origin=TYPED))
    _deal(spec, names, tables, found, options)
    made: Attack | None = None
    for name, table, one in zip(names[::-1], tables[::-1], found[::-1], strict=True):
        if made is not None:
            if not is_wrapper(one):
                raise InvalidInputError(
                    f"attack {spec!r}: {name!r} cannot wrap {made.name!r}; write it last"
                )
            table["inner"] = made
        made = finish_plugin("attacks", name, one, table, protocol=Attack, origin=TYPED)
    if made is None:
        raise InvalidInputError("`spec` is empty; pass the name of an attack")
    return made


def named_attack(spec: str, **options: Any) -> Attack:
    """Create an attack from its name, with follow-ups that differ from turn to turn.

    See `load_attack`; ``static{follow_ups=[]}`` repeats the seed prompt.

    Examples
    --------
    >>> named_attack("role_play").inner.follow_ups[0]
    'Please go on.'
    """
    from eval_toolkit.rollouts.attacks.static import asking_further

    made = load_attack(spec, **options)
    return made if "follow_ups" in spec else asking_further(made)


def _parts(spec: str) -> list[str]:
    """Split a spec at every ``+`` outside of tables and quotes."""
    parts, depth, quote = [""], 0, ""
    for sign in spec:
        if quote:
            quote = "" if sign == quote else quote
        elif depth and sign in "\"'":
            quote = sign
        elif sign in "{}":
            depth += 1 if sign == "{" else -1
        if sign == "+" and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]


def _known(made: Any) -> list[str]:
    if not is_dataclass(made) or not isinstance(made, type):
        return []
    return [item.name for item in fields(made) if item.init]


def _deal(
    spec: str,
    names: Sequence[str],
    tables: Sequence[dict[str, Any]],
    found: Sequence[Any],
    options: Mapping[str, Any],
) -> None:
    """Assign every option to the attack that accepts it."""
    for option, value in options.items():
        if len(found) == 1:
            tables[0][option] = value
            continue
        takers = [at for at, made in enumerate(found) if option in _known(made)]
        if option in ("name", "inner"):  # common options: those of the outermost or innermost part
            takers = [0 if option == "name" else len(found) - 1]
        if not takers:
            there = sorted({known for made in found for known in _known(made)} - {"inner"})
            raise InvalidInputError(
                f"attack {spec!r} has no option {option!r}; {_nearest(option, there)}"
            )
        if len(takers) > 1:
            both = " and ".join(repr(names[at]) for at in takers)
            raise InvalidInputError(
                f"attack {spec!r}: {both} have an option {option!r}; set it for one of them, "
                f"as in {names[takers[0]]}{{{option}=…}}"
            )
        tables[takers[0]][option] = value


def _nearest(option: str, there: Sequence[str]) -> str:
    near = difflib.get_close_matches(option, there, n=1)
    return f"did you mean {near[0]!r}?" if near else f"it has {', '.join(there) or 'none'}"


def as_attack(given: Any) -> Attack:
    """Convert an attack, a model or a list of probes to an attack.

    Parameters
    ----------
    given : Attack, Model or sequence of str
        An attack is returned unchanged; a model becomes a `Refinement`; strings are sent one per
        turn (`Scripted`).

    Returns
    -------
    Attack
        The corresponding attack.

    Raises
    ------
    InvalidTypeError
        If the object is none of these.

    Examples
    --------
    >>> as_attack(["Hello.", "{goal}"]).name
    'scripted'
    """
    from eval_toolkit.rollouts.attacks.refinement import Refinement
    from eval_toolkit.rollouts.attacks.static import Scripted

    if is_attack(given):
        attack: Attack = given
        return attack
    if isinstance(given, Model) and not isinstance(given, type):
        return Refinement(given)
    if isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
        return Scripted(given)
    raise InvalidTypeError(
        f"{given!r:.60} is not an attack; pass an attack, a model, or a list of probes (for a "
        "name, use `load_attack`)"
    )
