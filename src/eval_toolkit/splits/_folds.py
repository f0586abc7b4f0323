"""Shared code of splitters: folds from row numbers, groups, and validation."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eval_toolkit._internal import frames, validation
from eval_toolkit._internal.validation import IntArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.seeds import derive_seed
from eval_toolkit.slices import EvalSlice

Fold = dict[str, EvalSlice]


def checked_slice(slice_: Any) -> EvalSlice:
    """Return the slice; raise if it is not an `EvalSlice` or has no rows."""
    if not isinstance(slice_, EvalSlice):
        raise InvalidTypeError(f"`slice_` is a {type(slice_).__name__}; it must be an EvalSlice")
    if not slice_.n:
        raise InvalidInputError(f"slice {slice_.name!r} has no rows; there is nothing to split")
    return slice_


def fold_of(slice_: EvalSlice, train: ArrayLike, test: ArrayLike) -> Fold:
    """Return the train and test parts of a fold."""
    return {"train": slice_.take(train, name="train"), "test": slice_.take(test, name="test")}


def column_of(slice_: EvalSlice, column: str) -> NDArray[Any]:
    """Return a column of the slice's frame; raise with the slice's name if it is missing."""
    try:
        return frames.column(slice_.df, column)
    except MissingColumnError as error:
        raise MissingColumnError(f"slice {slice_.name!r}: {error}") from None


def group_codes(
    slice_: EvalSlice, groups: ArrayLike | None, group_col: str | None, splitter: str
) -> tuple[IntArray, int]:
    """Return each row's group code and the number of groups.

    The argument takes precedence over the splitter's column, which takes precedence over the
    slice's.
    """
    name = group_col if group_col is not None else slice_.group_col
    if groups is None:
        if name is None:
            raise InvalidInputError(
                f"{splitter} needs groups, but slice {slice_.name!r} has no group_col; give the "
                "slice or the splitter a group_col, or pass groups=…"
            )
        groups = column_of(slice_, name)
    return validation.group_codes(groups, slice_.n)


def refuse_groups(
    slice_: EvalSlice, groups: ArrayLike | None, ignore: bool, splitter: str, instead: str
) -> None:
    """Raise if a splitter would ignore groups that are passed or defined by the slice."""
    if ignore or (groups is None and slice_.group_col is None):
        return
    given = (
        f"slice {slice_.name!r} has group_col={slice_.group_col!r}"
        if groups is None
        else "`groups` was given"
    )
    raise InvalidInputError(
        f"{splitter} does not keep groups together, but {given}; use {instead}, or "
        f"{splitter}(…, ignore_groups=True) if rows of one group may be in both train and test"
    )


def enough_per_class(slice_: EvalSlice, k: int) -> None:
    """Raise unless each label has at least as many rows as there are folds."""
    counts = np.bincount(slice_.y_true, minlength=2)
    for label, count in enumerate(counts.tolist()):
        if 0 < count < k:
            fix = f"use k <= {count}" if count > 1 else "add rows or use another splitter"
            raise InvalidInputError(
                f"slice {slice_.name!r} has {count} row(s) of label {label} for k={k} folds; "
                f"every fold needs one: {fix}"
            )


def enough_groups(slice_: EvalSlice, n_groups: int, k: int) -> None:
    """Raise unless there are at least as many groups as folds."""
    if n_groups < k:
        fix = f"use k <= {n_groups}" if n_groups > 1 else "one group cannot be split"
        raise InvalidInputError(
            f"slice {slice_.name!r} has {n_groups} group(s) for k={k} folds; "
            f"every fold needs one: {fix}"
        )


def sklearn_seed(seed: int) -> int:
    """Return a seed valid for scikit-learn: unchanged below 2**32, otherwise derived."""
    return seed if seed < 1 << 32 else derive_seed(seed, "scikit-learn") >> 32
