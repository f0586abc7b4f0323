"""Access to the context of a sample."""

import operator
from collections.abc import Callable, Mapping
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit.errors import InvalidInputError

COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "less than": operator.lt,
    "at most": operator.le,
    "exactly": operator.eq,
    "at least": operator.ge,
    "more than": operator.gt,
}
"""Comparison operators by name."""


def context_value(response: Any, key: str) -> Any:
    """Return the value of a key in the sample's context, or None.

    Examples
    --------
    >>> from eval_toolkit.models.responses import Completion
    >>> context_value(Completion("Hallo", context={"language": "de"}), "language")
    'de'
    """
    context = response.context
    return context.get(key) if isinstance(context, Mapping) else None


def required_context_value(response: Any, key: str) -> Any:
    """Return the value of a key in the sample's context; raise if it is missing.

    Examples
    --------
    >>> from eval_toolkit.models.responses import Completion
    >>> required_context_value(Completion("Hallo", context={"language": "de"}), "language")
    'de'
    """
    found = context_value(response, key)
    if found is None:
        raise InvalidInputError(f"the sample's context has no {key!r}; the grader needs it")
    return found


def comparison(response: Any) -> Callable[[float], bool]:
    """Return a predicate built from ``comparison`` and ``n`` in the sample's context.

    For example, ``{"comparison": "at least", "n": 100}`` accepts numbers from 100.

    Examples
    --------
    >>> from eval_toolkit.models.responses import Completion
    >>> comparison(Completion("", context={"comparison": "less than", "n": 3}))(3)
    False
    """
    name = str(required_context_value(response, "comparison"))
    compare = COMPARISONS[validation.choice(name, "comparison", tuple(COMPARISONS))]
    n = validation.number(required_context_value(response, "n"), "n")
    return lambda value: compare(value, n)
