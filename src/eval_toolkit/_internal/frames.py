"""In-memory tables: pandas, polars or pyarrow through narwhals, or a dict of columns.

No dataframe library is imported; a frame's library is already loaded.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal.optional import require
from eval_toolkit._internal.plain import objects
from eval_toolkit._internal.validation import IntArray, is_missing
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError

BACKENDS = ("pandas", "polars", "pyarrow", "columns")


def _wrapped(frame: Any) -> Any:
    """Return a narwhals frame, or None for a dict of columns."""
    if isinstance(frame, Mapping):
        return None
    import narwhals as nw

    try:
        return nw.from_native(frame, eager_only=True)
    except nw.exceptions.DuplicateError as error:
        raise InvalidInputError(
            f"`df` has two columns with the same name: {' '.join(str(error).split())}"
        ) from None
    except TypeError:
        raise InvalidTypeError(
            f"`df` is a {type(frame).__name__}; it must be a pandas or polars DataFrame, "
            "a pyarrow Table or a dict of columns"
        ) from None


def names(frame: Any) -> list[str]:
    """Return the column names."""
    wrapped = _wrapped(frame)
    return list(frame) if wrapped is None else list(wrapped.columns)


def n_rows(frame: Any) -> int:
    """Return the number of rows; raise if the columns of a dict differ in length."""
    wrapped = _wrapped(frame)
    if wrapped is not None:
        return len(wrapped)
    lengths = {name: len(values) for name, values in frame.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidInputError(f"`df` has columns of different lengths: {lengths}")
    return next(iter(lengths.values()), 0)


def column(frame: Any, name: str) -> NDArray[Any]:
    """Return a column as an array; strings become objects, with None or NaN for missing values.

    Integers stay integers; they become objects if some are missing or too large for numpy.
    """
    have = names(frame)
    if name not in have:
        raise MissingColumnError(
            f"there is no column {name!r}; the columns are {', '.join(map(repr, have))}"
        )
    wrapped = _wrapped(frame)
    if wrapped is not None:
        return _series(wrapped.get_column(name))
    values = frame[name]
    if isinstance(values, np.ndarray):
        return values
    if str in set(map(type, values)):  # numpy would first copy strings into an array of its own
        return objects(values)
    try:
        array = np.asarray(values)
    except ValueError:  # lists of different lengths
        return objects(values)
    if (
        array.ndim != 1
        or array.dtype.kind in "US"
        or (array.dtype.kind == "f" and _rounded(values))
    ):
        return objects(values)
    return array


def _series(series: Any) -> NDArray[Any]:
    import narwhals as nw

    if series.dtype.is_integer() and (
        series.null_count() or series.dtype in (nw.Int128, nw.UInt128)
    ):
        # Floats would lose digits above 2**53, and numpy has no 128-bit integers.
        return objects([None if is_missing(value) else value for value in series.to_list()])
    array = np.asarray(series.to_numpy())
    return array.astype(object) if array.dtype.kind in "US" else array


def _rounded(values: Sequence[Any]) -> bool:
    """Return whether integers were rounded to floats (e.g. 2**63 and -1 in one column)."""
    return isinstance(values, (list, tuple)) and any(
        isinstance(value, (int, np.integer)) and int(float(value)) != value for value in values
    )


def take(frame: Any, rows: Any) -> Any:
    """Return the rows selected by positions or a mask, as a frame of the same type."""
    at = _positions(rows, n_rows(frame))
    wrapped = _wrapped(frame)
    if wrapped is None:
        return {name: column(frame, name)[at] for name in frame}
    import narwhals as nw

    return nw.maybe_reset_index(wrapped[at.tolist(), :]).to_native()


def _positions(rows: Any, n: int) -> IntArray:
    at = np.asarray(rows)
    if at.ndim != 1:
        raise InvalidInputError(f"`rows` must be 1-D, got shape {at.shape}")
    if at.dtype == np.bool_:
        if len(at) != n:
            raise InvalidInputError(
                f"`rows` is a mask with {len(at)} entries for a frame with {n} rows"
            )
        return np.flatnonzero(at).astype(np.int64)
    if at.size and at.dtype.kind not in "iu":
        raise InvalidTypeError(f"`rows` contains {at.dtype} values; it must contain row numbers")
    outside = (at < 0) | (at >= n)
    if outside.any():
        raise InvalidInputError(
            f"`rows` contains row {at[np.argmax(outside)]}; the frame has rows 0 to {n - 1}"
        )
    return at.astype(np.int64)


def select(frame: Any, columns: Sequence[str]) -> Any:
    """Return the selected columns as a frame of the same type."""
    wrapped = _wrapped(frame)
    if wrapped is None:
        return {name: frame[name] for name in columns}
    return wrapped.select(list(columns)).to_native()


def with_column(frame: Any, name: str, values: NDArray[Any]) -> Any:
    """Return the frame with a column added or replaced; the input is not changed."""
    wrapped = _wrapped(frame)
    if wrapped is None:
        return {**frame, name: values}
    import narwhals as nw

    native = wrapped.implementation.to_native_namespace()
    column = nw.new_series(name, values, backend=native)
    if nw.maybe_get_index(wrapped) is not None:  # pandas would join on the index
        column = nw.maybe_set_index(column, index=nw.maybe_get_index(wrapped))
    return wrapped.with_columns(column).to_native()


def concat(frames: Sequence[Any]) -> Any:
    """Concatenate frames of the same type with equal columns."""
    if isinstance(frames[0], Mapping):
        return {
            name: np.concatenate([column(frame, name) for frame in frames]) for name in frames[0]
        }
    import narwhals as nw

    return nw.maybe_reset_index(nw.concat([_wrapped(frame) for frame in frames])).to_native()


def from_columns(columns: Mapping[str, Any], backend: str | None = None) -> Any:
    """Create a frame with the named library, or the first installed library.

    "columns" returns the dict, which is the default if no library is installed.
    """
    if backend is not None and backend not in BACKENDS:
        raise InvalidInputError(f"`backend` is {backend!r}; it must be one of {BACKENDS}")
    chosen = backend or next(name for name in BACKENDS if name == "columns" or _installed(name))
    if chosen == "columns":
        return dict(columns)
    library = require(chosen, extra="dataframe", feature=f"a {chosen} frame")
    if chosen == "pandas":
        try:
            return library.DataFrame(dict(columns))
        except UnicodeEncodeError as error:
            raise InvalidInputError(
                f"{error.object[:60]!a} contains a lone surrogate, which pandas does not "
                "support; use backend='columns'"
            ) from None
    typed = {}
    for name, values in columns.items():
        try:
            typed[name] = (
                library.Series(name, values) if chosen == "polars" else library.array(values)
            )
        except OverflowError:
            raise InvalidInputError(
                f"column {name!r} contains integers too large for a {chosen} frame; "
                "use backend='pandas' or backend='columns'"
            ) from None
        except (TypeError, ValueError) as error:  # the errors of both libraries derive from these
            raise InvalidInputError(
                f"column {name!r} contains values of several types, which {chosen} does not support; "
                "use backend='pandas' or backend='columns'"
            ) from error
    return library.DataFrame(typed) if chosen == "polars" else library.table(typed)


def _installed(name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(name) is not None
