"""Graders defined by plain functions."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from eval_toolkit._internal.hashing import object_digest
from eval_toolkit.errors import InvalidTypeError
from eval_toolkit.graders.base import COMPLETIONS, RATE, ColumnInfo, Grade
from eval_toolkit.metrics.directions import known_direction
from eval_toolkit.models.responses import Completion

_DIGITS = 12


class FunctionGrader:
    """Grader that calls a function with the answer, or with the answer and the reference.

    Parameters
    ----------
    function : callable
        Function of (answer) or (answer, reference) that returns a number, a bool, a `Grade`, or
        None to skip the answer. ``reference`` is a list if there are several.

    Examples
    --------
    >>> def short(answer, reference):
    ...     return len(answer) <= len(reference)
    >>> FunctionGrader(short).grade(Completion("Rome", ground_truth="Rome"))
    {'short': 1.0}
    """

    response_types = COMPLETIONS

    def __init__(self, function: Callable[..., Any]) -> None:
        name = getattr(function, "__name__", type(function).__name__)
        self.name = "function" if name == "<lambda>" else name
        self._function = function
        self._n = _n_arguments(function, self.name)
        code = getattr(function, "__code__", None)
        self.version = (object_digest([function, code]) or "1")[:_DIGITS]

    def columns(self) -> Mapping[str, ColumnInfo]:
        """Return the column, which is binary if the return annotation is bool."""
        note = getattr(self._function, "__annotations__", {}).get("return")
        if note in (bool, "bool"):
            return {self.name: RATE}
        return {self.name: ColumnInfo(higher_is_better=known_direction(self.name) is not False)}

    def grade(self, response: Completion) -> Mapping[str, float | Grade]:
        """Return the result of the function."""
        truths = response.ground_truth_list
        arguments = (response.completion, truths[0] if len(truths) == 1 else truths)
        value = self._function(*arguments[: self._n])
        if value is None:
            return {self.name: Grade.skipped(f"{self.name} returned None")}
        if isinstance(value, Grade):
            return {self.name: value}
        try:
            return {self.name: float(value)}
        except (TypeError, ValueError):
            raise InvalidTypeError(
                f"the grader {self.name} returned {type(value).__name__} {value!r:.60}; it must "
                "return a number, True or False"
            ) from None


def _n_arguments(function: Any, name: str) -> int:
    """Return 2 if a function takes the answer and the reference, 1 if it takes only the answer."""
    try:
        listed = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature, such as len
        return 1
    kinds = inspect.Parameter
    if any(one.kind is kinds.VAR_POSITIONAL for one in listed):
        return 2
    places = [
        one for one in listed if one.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    ]
    needed = [one.name for one in places[2:] if one.default is kinds.empty]
    needed += [
        one.name for one in listed if one.kind is kinds.KEYWORD_ONLY and one.default is kinds.empty
    ]
    if not places or needed:
        what = f"also needs `{needed[0]}`" if needed else "takes no answer"
        raise InvalidTypeError(
            f"the grader {name} {what}; it must be a function of (answer) or (answer, reference)"
        )
    second = places[1] if len(places) > 1 else None
    takes = second is not None and (
        second.default is kinds.empty or second.name in ("reference", "target", "expected", "truth")
    )
    return 2 if takes else 1
