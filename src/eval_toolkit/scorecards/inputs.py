"""Input handling for `scorecard`: string labels, parts, and weights under either of two names."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eval_toolkit._internal import validation
from eval_toolkit._internal.tables import LabelMap, label_class
from eval_toolkit._internal.validation import BoolArray, IntArray
from eval_toolkit.errors import InvalidInputError


def row_labels(y_true: ArrayLike, positive: object = None) -> BoolArray:
    """Return the labels as booleans; labels other than 0 and 1 require ``positive``.

    Examples
    --------
    >>> row_labels(["ham", "spam"], "spam").tolist()
    [False, True]
    >>> row_labels(["ham", "spam"])
    Traceback (most recent call last):
        ...
    eval_toolkit.errors.InvalidInputError: y_true[0] is 'ham'; labels must be 0 or 1: pass the \
positive label, such as positive='spam' (labels: 'ham', 'spam')
    """
    array = validation.as_array(y_true, "y_true")
    if array.dtype.kind not in "OUST" and positive is None:
        return validation.binary_labels(array)
    values = np.asarray(array, dtype=object)
    missing = [validation.is_missing(value) for value in values]
    if any(missing):
        raise InvalidInputError(
            f"y_true[{missing.index(True)}] is missing; every row needs a label"
        )
    word = str(positive).lower() if isinstance(positive, bool) else str(positive)
    known = None if positive is None else LabelMap.of(word, None)
    classes = [label_class(value, known) for value in values.tolist()]
    if positive is None and None in classes:
        raise InvalidInputError(_words(array, values.tolist(), classes.index(None)))
    if positive is not None and 1 not in classes:
        raise InvalidInputError(
            f"`positive` is {positive!r}, but no row has this label; the labels are {_listed(values.tolist())}"
        )
    return validation.binary_labels(np.array(classes, dtype=np.int64))


def _words(array: NDArray[Any], values: list[object], row: int) -> str:
    found = _distinct(values)
    message = f"y_true[{row}] is {array[row : row + 1].tolist()[0]!r}; labels must be 0 or 1"
    if len(found) > 20 or array.ndim != 1:
        return message
    return f"{message}: pass the positive label, such as positive={found[-1]!r} (labels: {_listed(values)})"


def _distinct(values: list[object]) -> list[object]:
    found = list(dict.fromkeys(value for value in values if label_class(value) is None))
    return sorted(found, key=str)


def _listed(values: list[object]) -> str:
    found = sorted({repr(value) for value in values})
    return ", ".join(found[:6]) + (", …" if len(found) > 6 else "")


def part_rows(by: ArrayLike, n: int) -> tuple[str, dict[str, IntArray]]:
    """Return the name of an array of parts, and each part's rows, in sorted order.

    Examples
    --------
    >>> part_rows(["en", "de", "en"], 3)
    ('part', {'de': array([1]), 'en': array([0, 2])})
    """
    values = validation.as_array(by, "by", dtype=object)
    if values.ndim == 0:
        raise InvalidInputError(
            f"`by` is {by!r:.60}; pass its values, such as by=df[{str(by)[:60]!r}], or name the column "
            "in score_predictions(df, by=…)"
        )
    if values.shape != (n,):
        raise InvalidInputError(f"`by` has {len(values)} rows but `y_true` has {n}")
    distinct, codes = validation.object_codes(values, "by")
    names = ["(missing)" if validation.is_missing(one) else str(one) for one in distinct]
    rows = {name: np.flatnonzero(codes == code) for code, name in enumerate(names)}
    return str(getattr(by, "name", None) or "part"), dict(sorted(rows.items()))


def one_of(weights: ArrayLike | None, sample_weight: ArrayLike | None) -> ArrayLike | None:
    """Return the weights passed under either of their two names.

    Examples
    --------
    >>> one_of([1, 2], None)
    [1, 2]
    """
    if weights is not None and sample_weight is not None:
        raise InvalidInputError("`weights` and `sample_weight` are synonyms; pass only one of them")
    return sample_weight if weights is None else weights
