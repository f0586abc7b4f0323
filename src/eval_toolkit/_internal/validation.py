"""Input validation with messages that name the argument, the row, the rule and the value.

Public functions that take arrays call these functions first. They return canonical arrays, so no
further checks are needed.
"""

import math
import operator
import os
from numbers import Real
from types import NoneType
from typing import Any, SupportsFloat, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError

FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]
IntArray: TypeAlias = NDArray[np.int64]

MAX_BINS = 1_000_000

_NOT_NUMBERS = (
    str,
    bytes,
    np.datetime64,
    np.timedelta64,
    np.complexfloating,
    type(np.ma.masked),
)
"""Types that ``float`` would parse, truncate or convert to NaN."""


def as_float(value: Any) -> float:
    """Return ``float(value)``; raise TypeError for strings, dates and complex numbers."""
    if isinstance(value, _NOT_NUMBERS):
        raise TypeError(f"{value!r} is not a real number")
    return float(value)


def as_array(
    values: ArrayLike, name: str, *, shape: str = "1-D", dtype: type | None = None
) -> NDArray[Any]:
    """Return ``values`` as an array; reject rows of different lengths and masked entries."""
    try:
        array = np.asarray(values, dtype=dtype)
    except ValueError:
        raise InvalidInputError(
            f"`{name}` must be {shape}, got rows of different lengths"
        ) from None
    if isinstance(values, np.ma.MaskedArray) and values.mask.any():
        where = ", ".join(str(index) for index in np.argwhere(values.mask)[0])
        raise InvalidInputError(f"{name}[{where}] is masked; every entry needs a value")
    return array


def _one_dimensional(values: ArrayLike, name: str, dtype: type | None = None) -> NDArray[Any]:
    array = as_array(values, name, dtype=dtype)
    if array.ndim != 1:
        is_score = "score" in name and array.ndim == 2
        hint = "; pass the positive-class column, e.g. proba[:, 1]" if is_score else ""
        raise InvalidInputError(f"`{name}` must be 1-D, got shape {array.shape}{hint}")
    if array.size == 0:
        raise InvalidInputError(f"`{name}` is empty; at least one row is needed")
    return array


def vector(values: ArrayLike, name: str) -> FloatArray:
    """Return ``values`` as a non-empty 1-D array of finite float64."""
    array = _one_dimensional(values, name)
    if array.dtype.kind in "biuf":
        floats: FloatArray = array.astype(np.float64, copy=False)
    else:
        # Inspect the values themselves: numpy converts all numbers in [0.1, "x"] to text.
        floats = _floats(
            array if array.dtype.kind not in "US" else np.asarray(values, object), name
        )
    finite = np.isfinite(floats)
    if not finite.all():
        row = int(np.argmin(finite))
        raise InvalidInputError(f"{name}[{row}] is {floats[row]}; `{name}` must be finite")
    return floats


def _floats(array: NDArray[Any], name: str) -> FloatArray:
    floats = np.empty(len(array))
    for row, value in enumerate(array):
        try:
            floats[row] = math.nan if value is None else as_float(value)
        except (TypeError, ValueError, OverflowError):
            raise InvalidInputError(
                f"{name}[{row}] is {value!r}; `{name}` must contain numbers"
            ) from None
    return floats


def binary_labels(values: ArrayLike, name: str = "y_true") -> BoolArray:
    """Return 0/1 labels as a non-empty 1-D boolean array."""
    array = _one_dimensional(values, name)
    if array.dtype == np.bool_:
        return array
    if array.dtype.kind in "iu":
        if array.min() < 0 or array.max() > 1:
            row = int(np.argmax((array != 0) & (array != 1)))
            raise InvalidInputError(f"{name}[{row}] is {array[row]}; labels must be 0 or 1")
        return array.astype(np.bool_)
    comparable = array
    if array.dtype.kind == "O":  # comparing pandas.NA raises
        comparable = np.array([None if is_missing(value) else value for value in array], object)
    positive = comparable == 1
    allowed = positive | (comparable == 0)
    if not isinstance(allowed, np.ndarray) or allowed.shape != array.shape:
        raise InvalidInputError(f"{name}[0] is {array[0]!r}; labels must be 0 or 1")
    if not allowed.all():
        row = int(np.argmin(allowed))
        raise InvalidInputError(
            f"{name}[{row}] is {array[row : row + 1].tolist()[0]!r}; labels must be 0 or 1"
        )
    return np.asarray(positive, dtype=np.bool_)


def same_length(first: NDArray[Any], second: NDArray[Any], names: tuple[str, str]) -> None:
    """Raise unless both arrays have the same length."""
    if len(first) != len(second):
        raise InvalidInputError(
            f"`{names[0]}` has {len(first)} rows but `{names[1]}` has {len(second)}; "
            "they must describe the same rows"
        )


def binary_pair(
    y_true: ArrayLike, y_score: ArrayLike, *, score_name: str = "y_score"
) -> tuple[BoolArray, FloatArray]:
    """Return labels and finite scores of equal length."""
    labels = binary_labels(y_true)
    scores = vector(y_score, score_name)
    same_length(labels, scores, ("y_true", score_name))
    return labels, scores


def probability_pair(
    y_true: ArrayLike, y_score: ArrayLike, *, score_name: str = "y_score"
) -> tuple[BoolArray, FloatArray]:
    """Return labels and scores that are probabilities in [0, 1]."""
    labels, scores = binary_pair(y_true, y_score, score_name=score_name)
    if scores.min() < 0.0 or scores.max() > 1.0:
        row = int(np.argmax((scores < 0.0) | (scores > 1.0)))
        raise InvalidInputError(
            f"{score_name}[{row}] is {scores[row]}; `{score_name}` must be a probability "
            "in [0, 1] (apply a sigmoid or a calibrator to raw scores first)"
        )
    return labels, scores


def sample_weights(sample_weight: ArrayLike | None, n: int) -> FloatArray | None:
    """Return non-negative weights with a positive sum, or None."""
    if sample_weight is None:
        return None
    weights = vector(sample_weight, "sample_weight")
    if len(weights) != n:
        raise InvalidInputError(f"`sample_weight` has {len(weights)} rows but `y_true` has {n}")
    if weights.min() < 0.0:
        row = int(np.argmax(weights < 0.0))
        raise InvalidInputError(
            f"sample_weight[{row}] is {weights[row]}; weights must not be negative"
        )
    if not weights.any():
        raise InvalidInputError("`sample_weight` is all zero; at least one weight must be positive")
    return weights


def both_classes(labels: BoolArray, metric: str, weights: FloatArray | None = None) -> None:
    """Raise `UndefinedMetricError` unless both classes are present (with positive weight)."""
    counted = labels if weights is None else labels[weights > 0]
    if counted.all() or not counted.any():
        which = "positive" if counted.all() else "negative"
        raise UndefinedMetricError(
            f"{metric} is undefined: all {len(counted)} rows are {which}; it needs both classes"
        )


def group_codes(groups: ArrayLike, n: int, name: str = "groups") -> tuple[IntArray, int]:
    """Return group codes 0..k-1 in sorted order of the group ids, and the number of groups."""
    array = identifiers(groups, name)
    if len(array) != n:
        raise InvalidInputError(f"`{name}` has {len(array)} rows but the data has {n}")
    if array.dtype.kind == "O":
        distinct, first_seen = object_codes(array, name)
        missing = np.array([is_missing(value) for value in distinct])[first_seen]
    else:
        missing = np.isnan(array) if array.dtype.kind in "fmM" else np.zeros(0, dtype=bool)
    if missing.any():
        row = int(np.argmax(missing))
        raise InvalidInputError(f"{name}[{row}] is missing; every row needs a group id")
    if array.dtype.kind == "O":
        return _ranks(distinct)[first_seen], len(distinct)
    unique, codes = np.unique(array, return_inverse=True)
    return codes.astype(np.int64), len(unique)


def identifiers(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return ids as a 1-D array, of a plain numpy type if possible."""
    # Convert lists to object arrays: numpy would turn 1 and NaN into text next to a string.
    array = _one_dimensional(values, name, None if hasattr(values, "__array__") else object)
    return array if array.dtype.kind in "biufmMUS" else array.astype(object)


def object_codes(values: NDArray[Any], name: str) -> tuple[list[Any], IntArray]:
    """Return the distinct values in order of first appearance, and each row's index into them."""
    seen: dict[Any, int] = {}
    codes = np.empty(len(values), dtype=np.int64)
    for row, value in enumerate(values.tolist()):
        try:
            codes[row] = seen.setdefault(value, len(seen))
        except TypeError:
            raise InvalidInputError(
                f"{name}[{row}] is {value!r}; `{name}` must contain strings, numbers or other "
                "hashable values"
            ) from None
    return list(seen), codes


def _ranks(values: list[Any]) -> IntArray:
    """Return the ranks of distinct values: numbers first, then other types by name."""
    by_kind: dict[str, list[int]] = {}
    for index, value in enumerate(values):
        by_kind.setdefault(_kind(value), []).append(index)
    order: list[int] = []
    for kind in sorted(by_kind):
        try:
            order += sorted(by_kind[kind], key=values.__getitem__)
        except TypeError:  # values without a natural order
            order += sorted(by_kind[kind], key=lambda index: str(values[index]))
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[order] = np.arange(len(values))
    return ranks


def _kind(value: Any) -> str:
    # 1 equals 1.0 and numpy's str equals Python's, so equal values must have the same kind.
    if isinstance(value, (Real, np.bool_)):
        return ""
    return "str" if isinstance(value, str) else type(value).__qualname__


UNLABELED = "unlabeled"
"""Label for rows without a slice value."""


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT or pandas.NA."""
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # pandas.NA or an array: ambiguous truth value
        return not isinstance(value, np.ndarray)


def number(
    value: SupportsFloat,
    name: str,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    include_low: bool = True,
    include_high: bool = True,
) -> float:
    """Return a finite float within an interval."""
    try:
        result = as_float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidTypeError(f"`{name}` must be a number, got {value!r}") from None
    above = result >= low if include_low else result > low
    below = result <= high if include_high else result < high
    if not (math.isfinite(result) and above and below):
        if low == -math.inf and high == math.inf:
            rule = "be finite"
        else:
            left = "[" if include_low and math.isfinite(low) else "("
            right = "]" if include_high and math.isfinite(high) else ")"
            rule = f"lie in {left}{low:g}, {high:g}{right}"
        raise InvalidInputError(f"`{name}` is {value}; it must {rule}")
    return result


def fraction(value: SupportsFloat, name: str) -> float:
    """Return a float strictly between 0 and 1 (a confidence level, a power, a prior)."""
    return number(value, name, low=0.0, high=1.0, include_low=False, include_high=False)


def integer(value: SupportsIndex, name: str, *, low: int = 0) -> int:
    """Return an integer of at least ``low``; reject booleans and floats."""
    if isinstance(value, (bool, np.bool_)):
        raise InvalidTypeError(f"`{name}` must be an integer, got {value!r}")
    try:
        result = operator.index(value)
    except TypeError:
        raise InvalidTypeError(f"`{name}` must be an integer, got {value!r}") from None
    if result < low:
        raise InvalidInputError(f"`{name}` is {result}; it must be at least {low}")
    return result


def bin_count(value: SupportsIndex, name: str = "n_bins", *, low: int = 2) -> int:
    """Return a number of bins, at most `MAX_BINS` (even empty bins use memory)."""
    result = integer(value, name, low=low)
    if result > MAX_BINS:
        shown = f"{result:.3g}" if result.bit_length() < 1_000 else "larger than any float"
        raise InvalidInputError(f"`{name}` is {shown}; it must be at most {MAX_BINS:,}")
    return result


def choice(value: str, name: str, allowed: tuple[str, ...]) -> str:
    """Return ``value`` if it is one of ``allowed``."""
    if value not in allowed:
        options = ", ".join(repr(option) for option in allowed)
        raise InvalidInputError(f"`{name}` is {value!r}; choose one of {options}")
    return value


def place(given: Any, name: str, *other: type) -> None:
    """Raise unless the argument is a path or has another accepted type."""
    if not isinstance(given, (str, os.PathLike, *other)):
        wanted = [*(f"a {kind.__name__}" for kind in other if kind is not NoneType), "a path"]
        raise InvalidTypeError(f"`{name}` is {given!r:.80}; it must be {' or '.join(wanted)}")
