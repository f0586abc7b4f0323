"""Contracts as lists of named rules, and the error raised for violations."""

import copy
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from eval_toolkit import protocols
from eval_toolkit._internal import frames
from eval_toolkit._internal.hashing import canonical_json
from eval_toolkit.errors import InvalidInputError

__all__ = ["ContractError", "Suite"]

_LONGEST = 160
Rule = Callable[[Any, Any], None]
"""Function that takes an object and the inputs, and raises if the object violates the rule."""


class ContractError(AssertionError):
    """Violation of a contract; the message contains the rule, the input and the output.

    Parameters
    ----------
    message : str
        One-line message.
    rule : str
        Name of the rule, as listed by `contract_checks`.

    Examples
    --------
    >>> from eval_toolkit.testing import check_scorer
    >>> class Logits:
    ...     version = "1"
    ...     def predict_proba(self, X):
    ...         return [float(len(x)) for x in X]
    >>> try:
    ...     check_scorer(Logits())
    ... except ContractError as error:
    ...     print(error.rule)
    probabilities
    """

    def __init__(self, message: str, *, rule: str = "") -> None:
        super().__init__(message)
        self.rule = rule


class Broken(Exception):  # noqa: N818 - becomes a ContractError, which knows the rule
    """Raised by a rule that an object violates."""

    def __init__(self, given: object, got: object) -> None:
        super().__init__(given, got)
        self.given = given
        self.got = got


def expect(holds: object, given: object, got: object) -> None:
    """Raise `Broken`, with the input and the output, unless a condition holds."""
    if not holds:
        raise Broken(given, got)


@dataclass(frozen=True)
class Suite:
    """Contract for one type of object.

    Examples
    --------
    >>> from eval_toolkit.testing import CONTRACTS
    >>> [rule for rule, _ in CONTRACTS["text_transform"].checks()][:2]
    ['has_every_member', 'is_named']
    """

    kind: str
    rules: tuple[Rule, ...]
    given: Callable[..., Any]
    """Function that creates the inputs of the rules from the caller's arguments."""
    copies: bool = True
    """Whether each rule runs on its own copy, so that rules cannot affect each other."""

    def checks(self, **given: Any) -> list[tuple[str, Callable[[Any], None]]]:
        """Return (name, function) pairs; each function checks an object against one rule."""
        try:
            trial = self.given(**given)
        except TypeError as error:
            known = [item.name for item in fields(self.given)]  # type: ignore[arg-type]
            odd = [name for name in given if name not in known]
            why = f"unknown input {odd[0]!r}" if odd else str(error).partition("() ")[2]
            raise InvalidInputError(
                f"contract for a {self.kind}: {why}; its inputs are {', '.join(known) or 'none'}"
            ) from None
        return [(rule.__name__, _Check(self.kind, rule, trial, self.copies)) for rule in self.rules]

    def check(self, given_object: Any, **given: Any) -> list[str]:
        """Run every rule on an object and return their names; raise at the first violation."""
        names = []
        for name, check in self.checks(**given):
            check(given_object)
            names.append(name)
        return names


@dataclass(frozen=True)
class _Check:
    """Callable that checks an object against one rule with fixed inputs."""

    kind: str
    rule: Rule
    trial: Any
    copies: bool

    @property
    def __name__(self) -> str:
        return self.rule.__name__

    def __call__(self, given_object: Any) -> None:
        try:
            it = fresh(given_object) if self.copies else given_object
            ready = getattr(self.trial, "ready", None)
            self.rule(it if ready is None else ready(it), self.trial)
        except Broken as broken:
            self._raise(given_object, broken.given, _short(broken.got), broken)
        except Exception as error:  # any exception of the object violates the rule
            self._raise(given_object, "", f"{type(error).__name__}: {error}", error)

    def _raise(self, it: Any, given: object, got: str, cause: Exception) -> None:
        sentence = (self.rule.__doc__ or "").strip().partition("\n")[0].rstrip(".")
        inputs = f" given {_short(given)}," if given != "" else ""
        name = it.__name__ if isinstance(it, type) else type(it).__name__
        raise ContractError(
            f"{self.kind} {name} violates {self.rule.__name__!r} ({sentence}):{inputs} got {got}",
            rule=self.rule.__name__,
        ) from cause


def _short(value: object) -> str:
    text = " ".join((value if isinstance(value, str) else repr(value)).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def without_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that are not None, where None means the default."""
    return {name: value for name, value in given.items() if value is not None}


def fresh(it: Any) -> Any:
    """Return a copy of an object, or the object itself if it cannot be copied."""
    try:
        return copy.deepcopy(it)
    except Exception:  # copying may fail in any way
        return it


# --- shared rules -------------------------------------------------------------------------------


def has_members(protocol: type) -> Rule:
    """Return a rule that checks whether an object has all members of a protocol."""
    members = sorted(
        name
        for base in protocol.__mro__
        if base.__module__ == protocols.__name__
        for name in vars(base)
        if not name.startswith("_")
    )

    def has_every_member(it: Any, given: Any) -> None:
        expect(not isinstance(it, type), "an object", f"the class {it!r}; pass an instance")
        lacking = [name for name in members if not hasattr(it, name)]
        expect(not lacking, f"the members {', '.join(members)}", f"no {', '.join(lacking)}")

    has_every_member.__doc__ = f"The object has every member of {protocol.__name__}."
    return has_every_member


def is_named(it: Any, given: Any) -> None:
    """The name is a single-line string, the same on every access."""
    expect(_is_line(it.name), "`name`", it.name)
    expect(it.name == it.name, "`name` twice", it.name)


def has_a_version(it: Any, given: Any) -> None:
    """The version is a single-line string, the same on every access."""
    version = getattr(it, "version", None)
    expect(_is_line(version), "`version`", version)
    expect(it.version == version, "`version` twice", (version, it.version))


def version_if_any(it: Any, given: Any) -> None:
    """The version, if defined, is a single-line string that does not change."""
    if hasattr(it, "version"):
        has_a_version(it, given)


def describes_itself(it: Any, given: Any) -> None:
    """The description is JSON with string keys and does not change between calls."""
    told = it.describe()
    expect(isinstance(told, Mapping), "`describe()`", told)
    check_json(told, "`describe()`")
    again = canonical_json(dict(it.describe()))
    expect(again == canonical_json(dict(told)), "`describe()` twice", again)


def describes_itself_if_at_all(it: Any, given: Any) -> None:
    """The description, if defined, is JSON with string keys and does not change between calls."""
    if callable(getattr(it, "describe", None)):
        describes_itself(it, given)


def check_json(value: Any, what: str) -> None:
    """Raise unless a value is strict JSON."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise Broken(what, f"{value!r:.80}, which is not strict JSON: {error}") from None
    check_keys(value, what)


def check_keys(value: Any, what: str) -> None:
    """Raise unless every key is a string; other keys become strings when stored and may collide."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            expect(isinstance(key, str), what, f"the key {key!r}, which is not a string")
            check_keys(inner, what)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            check_keys(inner, what)


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip()) and value.isprintable()


def same_numbers(one: Iterable[float], other: Iterable[float], tolerance: float) -> bool:
    """Return whether two lists of numbers are equal up to rounding."""
    left, right = list(one), list(other)
    return len(left) == len(right) and all(
        math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)
        for a, b in zip(left, right, strict=True)
    )


def unchanged(value: Any, use: Callable[[Any], object]) -> None:
    """Raise if a function modifies the value that it is called with."""
    before = copy.deepcopy(value)
    use(value)
    expect(same_values(value, before), before, value)


def is_frame(value: Any) -> bool:
    """Return whether a value is a pandas or polars frame, or a dict of columns."""
    return isinstance(value, Mapping) or hasattr(value, "columns")


def same_values(one: Any, other: Any) -> bool:
    """Return whether two values are equal: numbers, strings, arrays, frames, or lists of them."""
    if is_frame(one):
        names = frames.names(one)
        return names == frames.names(other) and all(
            same_values(frames.column(one, name), frames.column(other, name)) for name in names
        )
    if isinstance(one, np.ndarray):
        return one.shape == np.shape(other) and same_values(one.tolist(), other.tolist())
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same_values, one, other))
    return bool(one == other) or (one != one and other != other)
