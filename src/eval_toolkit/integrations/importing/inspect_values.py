"""Convert Inspect scores to numbers, and reduce them over epochs."""

import math
import re
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eval_toolkit.graders.base import Grade
from eval_toolkit.integrations.importing.logs import LoggedSample, Value

_MARKS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""Values of the grades correct, incorrect, partially correct and no answer."""
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_COUNTED = re.compile(r"(at_least|pass_at|pass_k)_([1-9][0-9]{0,5})")
_RIGHT = 1.0
"""Smallest value that reducers such as "at_least_2" count as correct."""
UNSCORED = "unscored"
NO_NUMBER = "no number"
NOT_FINITE = "not finite"


def as_value(value: Any) -> Value:
    """Return a score as a number, as in Inspect's accuracy, or the reason why it has none.

    Inspect counts non-numeric text as 0; here it is skipped.

    Examples
    --------
    >>> as_value("C"), as_value("P"), as_value(True), as_value("0.75"), as_value(3)
    (1.0, 0.5, 1.0, 0.75, 3.0)
    >>> as_value(float("nan")).reason, as_value("blue").reason
    ('unscored', "no number: 'blue'")
    """
    if isinstance(value, str):
        if value in _MARKS:
            return _MARKS[value]
        word = value.lower()
        return _WORDS[word] if word in _WORDS else _number(value)
    if isinstance(value, (bool, int, float)):
        return _number(value)
    said = "None" if value is None else f"a {type(value).__name__}"
    return Grade.skipped(f"{NO_NUMBER}: {said}")


def _number(value: str | float) -> Value:
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return Grade.skipped(f"{NO_NUMBER}: {value!r:.60}")
    if math.isfinite(number):
        return number
    if isinstance(value, float) and math.isnan(value):
        return Grade.skipped(UNSCORED)
    return Grade.skipped(f"{NOT_FINITE}: {value!r:.60}")


def is_right_or_wrong(value: Any) -> bool:
    """Return whether a score is correct or incorrect, rather than graded.

    Examples
    --------
    >>> is_right_or_wrong("I"), is_right_or_wrong("P"), is_right_or_wrong(1)
    (True, False, False)
    """
    return isinstance(value, bool) or value in ("C", "I", "N")


def columns_of(scorer: str, value: Any) -> dict[str, Any]:
    """Return the columns of a score: one for a scalar, else one per dict key or list index.

    Examples
    --------
    >>> columns_of("match", "C"), columns_of("judge", {"style": 3, "facts": 5})
    ({'match': 'C'}, {'judge.style': 3, 'judge.facts': 5})
    """
    if isinstance(value, Mapping):
        return {f"{scorer}.{key}": one for key, one in value.items()}
    if isinstance(value, list):
        return {f"{scorer}.{place}": one for place, one in enumerate(value)}
    return {scorer: value}


def reduced(values: Sequence[float], reducer: str) -> float | None:
    """Return one value for all epochs of an item, or None if the reducer is undefined.

    ``values`` are those of the scored epochs, in order. Reducers are "mean", "median", "mode",
    "max", and for example "at_least_2", "pass_at_2" and "pass_k_2". The result is also None if
    there are fewer values than the reducer draws, and for unknown reducers; use `is_known` to
    distinguish them.

    Examples
    --------
    >>> values = [1.0, 0.0, 1.0, 0.0]
    >>> [reduced(values, name) for name in ("mean", "max", "at_least_3", "pass_k_2")]
    [0.5, 1.0, 0.0, 0.16666666666666666]
    """
    if reducer == "mean":
        return math.fsum(values) / len(values)
    if reducer == "median":
        return statistics.median(values)
    if reducer == "mode":
        return Counter(values).most_common(1)[0][0]
    if reducer == "max":
        return max(values)
    counted = _COUNTED.fullmatch(reducer)
    return None if counted is None else _counted(values, counted[1], int(counted[2]))


def is_known(reducer: str) -> bool:
    """Return whether `reduced` supports a reducer.

    Examples
    --------
    >>> is_known("pass_at_5"), is_known("majority")
    (True, False)
    """
    return reducer in ("mean", "median", "mode", "max") or bool(_COUNTED.fullmatch(reducer))


def _counted(values: Sequence[float], name: str, k: int) -> float | None:
    n, n_right = len(values), sum(value >= _RIGHT for value in values)
    if name == "at_least":
        return float(n_right >= k)
    if n < k:
        return None
    if name == "pass_k":
        return math.comb(n_right, k) / math.comb(n, k)
    return 1.0 - math.comb(n - n_right, k) / math.comb(n, k)


def mean_of(samples: Iterable[LoggedSample], column: str, reducer: str | None) -> float | None:
    """Return the mean over items of a column that is first reduced over epochs.

    Without a reducer, every epoch is a separate item. Samples without a value are excluded, as in
    Inspect. The result is None if there are no scores or the reducer is unknown.

    Examples
    --------
    >>> tries = [LoggedSample(unit_id="1", attempt=n, values={"a": n % 2 * 1.0}) for n in (1, 2)]
    >>> mean_of(tries, "a", "max"), mean_of(tries, "a", "mean")
    (1.0, 0.5)
    """
    items: dict[tuple[str, int], list[float]] = {}
    for sample in samples:
        value = sample.values.get(column)
        if isinstance(value, float):
            key = (sample.unit_id, sample.attempt if reducer is None else 0)
            items.setdefault(key, []).append(value)
    found = [reduced(values, reducer or "mean") for values in items.values()]
    numbers = [value for value in found if value is not None]
    return math.fsum(numbers) / len(numbers) if numbers else None
