"""Conversion of labels to 0 and 1, shared by all readers of files and frames.

A label is 0 or 1 as a number, a boolean, or a string such as ``1``, ``1.00`` or ``TRUE``;
surrounding spaces are ignored. Other strings need a `LabelMap`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal import validation
from eval_toolkit._internal.tables.numbers import also_in, decimal_of, numbers_in
from eval_toolkit._internal.validation import BoolArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError

_TRUTHS = {"0": 0, "1": 1, "false": 0, "true": 1}
_POSITIVE = (
    "yes",
    "y",
    "t",
    "on",
    "positive",
    "pos",
    "spam",
    "unsafe",
    "harmful",
    "toxic",
    "attack",
)
"""Words suggested as the positive class in error messages."""
_PAIRS = frozenset(
    {
        *(("no", "yes"), ("n", "y"), ("f", "t"), ("off", "on"), ("negative", "positive")),
        *(("neg", "pos"), ("-", "+"), ("-1", "1"), ("-1.0", "1.0"), ("-1", "+1")),
        *(("ham", "spam"), ("not spam", "spam"), ("safe", "unsafe"), ("harmless", "harmful")),
        *(("benign", "harmful"), ("benign", "malicious"), ("benign", "malignant")),
        *(("benign", "attack"), ("normal", "attack"), ("normal", "anomaly"), ("legit", "fraud")),
        *(("legitimate", "fraud"), ("genuine", "fraud"), ("non-toxic", "toxic")),
        *(("not toxic", "toxic"), ("nontoxic", "toxic"), ("negative class", "positive class")),
    }
)
"""Pairs of lower-case words: the negative and the positive class."""
_SHOWN = 6

Place = Callable[[int], tuple[str, str]]
"""Returns the location of a row: the source, and the row within it."""


@dataclass(frozen=True)
class LabelMap:
    """Mapping from labels to classes 0 and 1.

    Labels are compared as stripped strings or as numbers. ``others`` is the class of all other
    labels (invalid by default); ``must_occur`` is a label that must occur at least once.

    Examples
    --------
    >>> LabelMap.of("spam", None).class_of("ham")
    0
    >>> LabelMap.of_mapping({0: 0, 2: 1}).class_of("2.0")
    1
    """

    classes: Mapping[str, int]
    others: int | None = None
    must_occur: str | None = None

    @classmethod
    def of(cls, positive: str | None, labels: str | None) -> "LabelMap | None":
        """Parse the options ``--positive`` and ``--labels``; None if neither is given."""
        if labels is None:
            return None if positive is None else cls({positive.strip(): 1}, 0, positive)
        names = [name.strip() for name in labels.split(",")]
        if len(names) != 2 or not all(names) or names[0] == names[1]:
            raise InvalidInputError(
                f"--labels is {labels!r}; it must be the negative and the positive label, "
                "as in --labels ham,spam"
            )
        if positive is not None and positive != names[1]:
            raise InvalidInputError(
                f"--positive is {positive!r} but --labels {labels} has the positive label {names[1]!r}; pass only one"
            )
        return cls({names[0]: 0, names[1]: 1}, must_occur=names[1])

    @classmethod
    def of_mapping(cls, label_map: Mapping[Any, int] | None) -> "LabelMap | None":
        """Return a validated label map from a mapping of values to 0 and 1; None for None."""
        if label_map is None:
            return None
        if not isinstance(label_map, Mapping) or not label_map:
            raise InvalidTypeError(
                f"`label_map` is {label_map!r}; it must be a dict like {{'ham': 0, 'spam': 1}}"
            )
        for key, value in label_map.items():
            if isinstance(value, (bool, np.bool_)) or value not in (0, 1):
                raise InvalidInputError(f"label_map[{key!r}] is {value!r}; labels must be 0 or 1")
        return cls({_text(key): int(value) for key, value in label_map.items()})

    def class_of(self, value: Any) -> int | None:
        """Return the class of a label, or None if it has none."""
        text = _text(value)
        for spelling in (text, text.strip()):
            if spelling in self.classes:
                return self.classes[spelling]
        number = _number(text)
        if number is not None:
            for known, found in self.classes.items():
                if _number(known) == number:
                    return found
        return self.others


def usual_labels(values: NDArray[Any]) -> LabelMap | None:
    """Return the label map for a column of two words if one is clearly the positive class.

    Examples
    --------
    >>> usual_labels(np.array(["ham", "spam", "ham"], dtype=object)).classes
    {'ham': 0, 'spam': 1}
    >>> usual_labels(np.array(["cat", "dog"], dtype=object)) is None
    True
    """
    found = _spellings(values)
    for negative, positive in (found, found[::-1]) if len(found) == 2 else ():
        if (negative.lower(), positive.lower()) in _PAIRS:
            return LabelMap({negative: 0, positive: 1})
    return None


def label_class(value: Any, labels: LabelMap | None = None) -> int | None:
    """Return the class of a label: 0, 1, or None if it is missing or invalid.

    ``labels`` maps string labels to classes.

    Examples
    --------
    >>> [label_class(label) for label in (True, 0.0, "1.00", " TRUE ", "yes", None)]
    [1, 0, 1, 1, None, None]
    """
    if validation.is_missing(value) or isinstance(value, (list, tuple, dict, np.ndarray)):
        return None
    if isinstance(value, str):
        word = value.strip().lower()
        if word in ("", "nan"):
            return None
        if labels is None:
            return _TRUTHS[word] if word in _TRUTHS else _binary(_number(word))
    if labels is not None:
        return labels.class_of(value)
    return _binary(value) if isinstance(value, (Real, Decimal, np.bool_)) else None


def _binary(number: Any) -> int | None:
    return int(number) if number is not None and number in (0, 1) else None


def _number(text: str) -> float | None:
    """Parse a number; a comma that may separate thousands is not accepted."""
    mark = decimal_of([text])
    if mark is None:
        return None
    (found,) = numbers_in([text], mark).tolist()
    return found if found == found else None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, np.bool_)):
        return str(value).lower()
    return str(value)


def classes_of(
    values: NDArray[Any],
    *,
    place: Place,
    column: str | None = None,
    labels: LabelMap | None = None,
    remedy: str = "",
) -> BoolArray:
    """Convert a column of labels to classes.

    ``place`` returns the location of a row for messages, such as ``("p.csv", "row 7")``; ``column``
    is None if ``place`` includes it. ``remedy`` is advice for missing labels. Messages list the
    first five invalid labels.

    Examples
    --------
    >>> column = np.array(["TRUE ", "0.0"], dtype=object)
    >>> classes_of(column, place=lambda row: ("p.csv", f"row {row + 1}"), column="label").tolist()
    [True, False]
    """
    if labels is None and values.dtype.kind in "biuf":
        positive: BoolArray = values == 1
        bad = ~(positive | (values == 0))
    else:
        distinct, codes = _coded(values.tolist())
        known = [label_class(value, labels) for value in distinct] + [None]
        bad = np.array([one is None for one in known])[codes]
        positive = np.array([one == 1 for one in known])[codes]
    if bad.any():
        raise InvalidInputError(
            _refusal(values, np.flatnonzero(bad), place, column, labels, remedy)
        )
    if labels is not None and labels.must_occur is not None and not positive.any() and len(values):
        source, _ = place(0)
        raise InvalidInputError(
            f"{source}: {column!r} is never {labels.must_occur!r}; the labels are "
            f"{_listed(_spellings(values))}"
        )
    return positive


def _coded(values: Sequence[Any]) -> tuple[list[Any], NDArray[np.int64]]:
    """Return the distinct values and the index of each row's value (-1 if unhashable)."""
    seen: dict[Any, int] = {}
    codes = np.empty(len(values), dtype=np.int64)
    for row, value in enumerate(values):
        try:
            codes[row] = seen.setdefault(value, len(seen))
        except TypeError:
            codes[row] = -1
    return list(seen), codes


def _refusal(
    values: NDArray[Any],
    rows: NDArray[np.int64],
    place: Place,
    column: str | None,
    labels: LabelMap | None,
    remedy: str,
) -> str:
    first = int(rows[0])
    source, at = place(first)

    def describe(row: int) -> str:
        other, here = place(row)
        return f"{here if other == source else f'{other}: {here}'} {_shown(values[row])}"

    also = also_in(rows.tolist(), describe)
    where = f"{source}: {at}" if column is None else f"{source}: {at}: {column!r}"
    if _is_gap(values[first]):
        return f"{where} is missing; every row needs a label{also}{remedy}"
    if labels is not None:
        return (
            f"{where} is {_shown(values[first])}, which is not in label_map "
            f"({_listed(labels.classes)}); add it there{also}"
        )
    return f"{where} is {_shown(values[first])}; labels must be 0 or 1{also}: {_advice(values)}"


def _is_gap(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in ("", "nan")
    return validation.is_missing(value)


def _shown(value: Any) -> str:
    if _is_gap(value):
        return "missing"
    plain = value.item() if isinstance(value, np.generic) else value
    is_number = isinstance(plain, str) and _number(plain) is not None
    return plain.strip() if is_number else f"{plain!r:.60}"


def _advice(values: NDArray[Any]) -> str:
    found = _spellings(values)
    if len(found) != 2:
        return f"pass a `label_map` from label to 0 or 1; the labels are {_listed(found)}"
    negative, positive = sorted(found, key=lambda word: (word.strip().lower() in _POSITIVE, word))
    return f"pass label_map={{{negative!r}: 0, {positive!r}: 1}} with 1 for positive"


def _spellings(values: NDArray[Any]) -> list[str]:
    distinct, _ = _coded(values.tolist())
    return sorted({_text(value).strip() for value in distinct if not _is_gap(value)})


def _listed(words: Iterable[str]) -> str:
    found = list(words)
    return ", ".join(map(repr, found[:_SHOWN])) + (", …" if len(found) > _SHOWN else "")
