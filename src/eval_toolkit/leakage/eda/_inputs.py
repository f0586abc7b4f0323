"""Validation of text lists, labels and feature tables."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import BoolArray, FloatArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError

_LARGEST = 1e100
"""Largest absolute feature value; sums of larger squares may overflow."""


def strings(texts: Sequence[str], name: str) -> list[str]:
    """Return the texts as a nonempty list of str."""
    if isinstance(texts, (str, bytes)):
        raise InvalidTypeError(f"`{name}` is a single string; pass a list of texts")
    try:
        listed = list(texts)
    except TypeError:
        raise InvalidTypeError(f"`{name}` must be a list of strings, got {texts!r:.80}") from None
    for row, text in enumerate(listed):
        if not isinstance(text, str):
            raise InvalidTypeError(f"{name}[{row}] is {text!r:.80}; it must be a string")
    if not listed:
        raise InvalidInputError(f"`{name}` is empty; at least one text is needed")
    return listed


def is_positive(
    labels: ArrayLike, positive_label: Any, n: int, names: tuple[str, str]
) -> BoolArray:
    """Return whether each label is positive; messages use the argument names in ``names``."""
    listed = validation.identifiers(labels, names[0]).tolist()
    if len(listed) != n:
        raise InvalidInputError(
            f"`{names[0]}` has {len(listed)} rows but `{names[1]}` has {n}; "
            "they must describe the same rows"
        )
    for row, label in enumerate(listed):
        if validation.is_missing(label):
            raise InvalidInputError(f"{names[0]}[{row}] is missing; every text needs a label")
    return np.array([bool(label == positive_label) for label in listed])


def features(x: ArrayLike, name: str) -> FloatArray:
    """Return a table of finite numbers, one row per item, with at least one row and column."""
    array = validation.as_array(x, name, shape="2-D")
    if array.ndim != 2 or 0 in array.shape:
        hint = "; for a single feature, pass x.reshape(-1, 1)" if array.ndim == 1 else ""
        raise InvalidInputError(
            f"`{name}` has shape {array.shape}; it must be 2-D, one row per item and one column "
            f"per feature{hint}"
        )
    if array.dtype.kind not in "biuf":
        array = _numbers(x, name)
    table: FloatArray = array.astype(np.float64, copy=False)
    usable = np.abs(table) <= _LARGEST  # False for NaN
    if not usable.all():
        row, column = (int(place) for place in np.argwhere(~usable)[0])
        rule = f"lie within ±{_LARGEST:g}" if np.isfinite(table[row, column]) else "be finite"
        raise InvalidInputError(
            f"{name}[{row}, {column}] is {table[row, column]}; features must {rule}"
        )
    return table


def _numbers(x: ArrayLike, name: str) -> FloatArray:
    array = np.asarray(x, dtype=object)
    table = np.empty(array.shape)
    for (row, column), value in np.ndenumerate(array):
        try:
            table[row, column] = np.nan if value is None else validation.as_float(value)
        except (TypeError, ValueError, OverflowError):
            raise InvalidInputError(
                f"{name}[{row}, {column}] is {value!r:.80}; features must be numbers"
            ) from None
    return table


def feature_pair(
    x_a: ArrayLike, x_b: ArrayLike, *, least: int = 1, why: str = ""
) -> tuple[FloatArray, FloatArray]:
    """Return two tables with equal numbers of columns, each with a minimum number of rows."""
    tables = features(x_a, "x_a"), features(x_b, "x_b")
    if tables[0].shape[1] != tables[1].shape[1]:
        raise InvalidInputError(
            f"`x_a` has {tables[0].shape[1]} columns but `x_b` has {tables[1].shape[1]}; they must "
            "have the same features"
        )
    for table, name in zip(tables, ("x_a", "x_b"), strict=True):
        if len(table) < least:
            raise InvalidInputError(
                f"`{name}` has too few rows ({len(table)}); {why} at least {least}"
            )
    return tables
