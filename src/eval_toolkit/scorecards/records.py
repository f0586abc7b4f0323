"""Records: one row per (unit, attempt), for tabular data, benchmark samples and rollouts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.hashing import content_hash, unit_ids
from eval_toolkit._internal.optional import require
from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError

Strings = NDArray[Any]
_STATUSES = ("ok", "skipped", "error")
LARGEST_VALUE = 1e75
"""Maximum absolute value; intervals use fourth powers, which must not overflow."""


@dataclass(frozen=True, eq=False, repr=False)
class Records(Displayed):
    """Table of records sorted by unit and attempt; see `from_columns` and `from_rows`.

    Examples
    --------
    >>> records = Records.from_columns({"correct": [1, 0, 1]}, unit_id=["q2", "q1", "q3"])
    >>> records.unit_id.tolist(), records.columns["correct"].tolist()
    (['q1', 'q2', 'q3'], [0.0, 1.0, 1.0])
    """

    unit_id: Strings
    content_hash: Strings
    """Hash of each unit's raw input and target; "" if unknown."""
    group: Strings
    """Group of each unit, by default the unit itself; units in the same group may be dependent."""
    attempt: IntArray
    slices: Mapping[str, Strings]
    columns: Mapping[str, NDArray[Any]]
    """Columns of numbers, or of strings and None; values are only valid if their status is "ok"."""
    status: Mapping[str, Strings]
    """Status of each value, by column: "ok", "skipped" or "error"."""
    reason: Mapping[str, Strings] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.unit_id)

    @property
    def numbers(self) -> dict[str, FloatArray]:
        """Numeric columns, which can be averaged."""
        return {name: one for name, one in self.columns.items() if not is_text(one)}

    @property
    def texts(self) -> dict[str, Strings]:
        """String columns, with None for missing values."""
        return {name: one for name, one in self.columns.items() if is_text(one)}

    @classmethod
    def from_columns(
        cls,
        columns: Mapping[str, Sequence[float | str | None] | ArrayLike],
        *,
        unit_id: Sequence[str] | ArrayLike | None = None,
        attempt: ArrayLike | None = None,
        group: Sequence[Any] | ArrayLike | None = None,
        slices: Mapping[str, Sequence[Any] | ArrayLike] | None = None,
        content_hash: Sequence[str] | ArrayLike | None = None,
        status: Mapping[str, Sequence[str]] | None = None,
        reason: Mapping[str, Sequence[str | None]] | None = None,
    ) -> "Records":
        """Build records from columns of values.

        Parameters
        ----------
        columns : mapping of name to array-like of shape (n,)
            Numbers or strings. None denotes a missing value, with status "skipped" unless
            ``status`` is given.
        unit_id : array-like of str, optional
            Identifier of the unit of each record; consecutive numbers by default.
        attempt : array-like of int, optional
            Attempt number within the unit; counted in input order by default.
        group : array-like, optional
            Group of each unit; the unit itself by default.
        slices : mapping of name to array-like, optional
            Named groupings of the data for which results are reported.
        content_hash : array-like of str, optional
            Hash of each unit's raw input and target.
        status, reason : mapping of column to sequence of str, optional
            Status of each record, "ok", "skipped" or "error", and the reason.

        Returns
        -------
        Records
            Records sorted by unit and attempt. The input order matters only for numbering units if
            there is no ``unit_id``, and attempts if there is no ``attempt``.

        Raises
        ------
        InvalidInputError
            If a column is not a sequence of numbers or strings, lengths differ, a (unit, attempt)
            pair occurs twice, a unit has two groups or content hashes, or an "ok" value is not
            finite.

        Examples
        --------
        >>> records = Records.from_columns(
        ...     {"reward": [0.5, None]}, unit_id=["a", "b"], status={"reward": ["ok", "error"]}
        ... )
        >>> records.status["reward"].tolist()
        ['ok', 'error']
        >>> records = Records.from_columns({"right": [1, 0], "answer": ["Rome", None]})
        >>> list(records.texts), records.status["answer"].tolist()
        (['answer'], ['ok', 'skipped'])
        """
        if not isinstance(columns, Mapping):
            raise InvalidInputError(f"`columns` is {columns!r}; it must map names to columns")
        if not columns:
            raise InvalidInputError("`columns` is empty; records need at least one column")
        n = _size(*next((column, name) for name, column in columns.items()))
        ids = _strings(unit_id, "unit_id", n) if unit_id is not None else _numbered(n)
        tries = _attempts(ids) if attempt is None else _whole_numbers(attempt, "attempt", n)
        _unique(ids, tries)
        _known(status, "status", columns)
        _known(reason, "reason", columns)
        values: dict[str, NDArray[Any]] = {}
        states: dict[str, Strings] = {}
        reasons: dict[str, Strings] = {}
        for name, column in columns.items():
            values[name], states[name] = _column(column, name, n, (status or {}).get(name))
            reasons[name] = _reasons((reason or {}).get(name), name, n)
        order = np.lexsort((tries, ids))
        groups = ids if group is None else _strings(group, "group", n)
        _one_per_unit(ids, groups, "group")
        hashes = (
            np.full(n, "", object)
            if content_hash is None
            else _strings(content_hash, "content_hash", n)
        )
        _one_per_unit(ids, hashes, "content_hash")
        parts = {name: _strings(part, name, n)[order] for name, part in (slices or {}).items()}
        sorted_ids = ids[order]
        return cls(
            unit_id=sorted_ids,
            content_hash=hashes[order],
            group=sorted_ids if groups is ids else groups[order],
            attempt=tries[order],
            slices=parts,
            columns={name: column[order] for name, column in values.items()},
            status={name: state[order] for name, state in states.items()},
            reason={name: why[order] for name, why in reasons.items()},
        )

    @classmethod
    def from_rows(
        cls,
        y_true: ArrayLike,
        y_score: ArrayLike,
        *,
        inputs: Sequence[Any] | None = None,
        unit_id: Sequence[str] | ArrayLike | None = None,
        group: Sequence[Any] | ArrayLike | None = None,
        slices: Mapping[str, Sequence[Any] | ArrayLike] | None = None,
    ) -> "Records":
        """Build records for a scored dataset, with columns ``label`` and ``score``.

        Parameters
        ----------
        y_true, y_score : array-like of shape (n,)
            Labels and scores.
        inputs : sequence, optional
            Inputs that were scored; they determine the content hashes and, by default, the unit
            ids. Equal inputs with equal labels are distinguished by score, group and slices, not by
            position.
        unit_id, group, slices
            As in `from_columns`.

        Returns
        -------
        Records
            Records with one attempt per unit.

        Raises
        ------
        InvalidInputError
            If the arrays are invalid.

        Examples
        --------
        >>> records = Records.from_rows([0, 1], [0.2, 0.9], inputs=["a text", "another"])
        >>> sorted(records.columns), len(records.unit_id[0])
        (['label', 'score'], 16)
        """
        labels, scores = validation.binary_pair(y_true, y_score)
        hashes = None
        if inputs is not None:
            _length(inputs, "inputs", len(labels))
            hashes = [
                content_hash(item, int(label)) for item, label in zip(inputs, labels, strict=True)
            ]
            if unit_id is None:
                apart = _distinguishing_columns(group, slices, len(labels))
                unit_id = unit_ids(hashes, scores.tolist(), *apart)
        return cls.from_columns(
            {"label": labels.astype(np.float64), "score": scores},
            unit_id=unit_id,
            group=group,
            slices=slices,
            content_hash=hashes,
        )

    def take(self, rows: ArrayLike) -> "Records":
        """Return the records at these positions or under this mask.

        Parameters
        ----------
        rows : array-like of int or of bool
            Positions in any order, without repetition, or a mask.

        Returns
        -------
        Records
            Records sorted by unit and attempt.

        Raises
        ------
        InvalidInputError
            If a position is out of range or repeated, or the mask has another length.

        Examples
        --------
        >>> records = Records.from_columns({"correct": [1, 0, 1]}, unit_id=["a", "b", "c"])
        >>> records.take([2, 0]).unit_id.tolist()
        ['a', 'c']
        """
        at = _positions(rows, len(self))
        if at.dtype != np.bool_ and not (at[1:] > at[:-1]).all():
            at = at[np.lexsort((self.attempt[at], self.unit_id[at]))]
        ids = self.unit_id[at]
        return Records(
            ids,
            _at(self.content_hash, at),
            ids if self.group is self.unit_id else self.group[at],
            self.attempt[at],
            {name: part[at] for name, part in self.slices.items()},
            {name: column[at] for name, column in self.columns.items()},
            {name: _at(state, at) for name, state in self.status.items()},
            {name: _at(why, at) for name, why in self.reason.items()},
        )

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with one row per record; requires the ``dataframe`` extra.

        The columns are named as in ``records.parquet``: ``correct``, ``correct.status``,
        ``correct.reason``, and ``part:<name>`` for slices. Values without status "ok" are missing.
        """
        pandas = require("pandas", feature="Records.to_pandas", extra="dataframe")
        return pandas.DataFrame(self._columns())

    def to_polars(self) -> Any:
        """Return a polars DataFrame with the columns of `to_pandas`; requires polars."""
        polars = require("polars", feature="Records.to_polars")
        return polars.DataFrame(self._columns(), strict=False)

    def _columns(self) -> dict[str, list[Any]]:
        frame = {
            name: getattr(self, name).tolist() for name in ("unit_id", "content_hash", "group")
        }
        frame["attempt"] = self.attempt.tolist()
        frame |= {f"part:{name}": part.tolist() for name, part in self.slices.items()}
        for name, column in self.columns.items():
            states = self.status[name].tolist()
            values = zip(column.tolist(), states, strict=True)
            frame[name] = [value if state == "ok" else None for value, state in values]
            frame[f"{name}.status"] = states
            why = self.reason.get(name)
            frame[f"{name}.reason"] = [""] * len(self) if why is None else why.tolist()
        return frame


def is_text(column: NDArray[Any]) -> bool:
    """Return whether a column contains strings.

    Examples
    --------
    >>> is_text(np.array(["Rome", None], dtype=object)), is_text(np.array([1.0]))
    (True, False)
    """
    return column.dtype == object


def unit_starts(unit_id: NDArray[Any]) -> IntArray:
    """Return the start of each unit's records.

    Parameters
    ----------
    unit_id : ndarray of str
        Sorted unit ids of records.

    Returns
    -------
    ndarray of int
        Position of the first record of each unit.

    Raises
    ------
    InvalidInputError
        If the units are not sorted.

    Examples
    --------
    >>> records = Records.from_columns({"correct": [1, 0, 1]}, unit_id=["b", "a", "b"])
    >>> unit_starts(records.unit_id).tolist()
    [0, 1]
    """
    before, after = unit_id[:-1], unit_id[1:]
    if (after < before).any():
        raise InvalidInputError(
            "the records are not sorted by unit; create them with Records.from_columns"
        )
    starts = np.concatenate(([True], after != before))[: len(unit_id)]
    return np.flatnonzero(starts).astype(np.int64)


def _distinguishing_columns(
    group: Sequence[Any] | ArrayLike | None,
    slices: Mapping[str, Sequence[Any] | ArrayLike] | None,
    n: int,
) -> list[Strings]:
    """Return the columns that distinguish rows with equal inputs and scores."""
    given = {} if group is None else {"group": group}
    return [_strings(part, name, n) for name, part in {**given, **(slices or {})}.items()]


def repeated(text: str, n: int) -> Strings:
    """Return an array that repeats a string n times but stores it once.

    Examples
    --------
    >>> repeated("ok", 3).tolist()
    ['ok', 'ok', 'ok']
    """
    return np.broadcast_to(np.array(text, dtype=object), n)


def where_is(texts: Strings, text: str) -> BoolArray:
    """Return a mask of the entries equal to a string; constant time for a `repeated` array.

    Examples
    --------
    >>> where_is(repeated("ok", 2), "error").tolist()
    [False, False]
    """
    if _is_repeated(texts):
        return np.full(len(texts), texts[0] == text)
    return np.asarray(texts == text, dtype=np.bool_)


def _is_repeated(texts: Strings) -> bool:
    return len(texts) > 1 and texts.strides == (0,)


def _at(texts: Strings, at: NDArray[Any]) -> Strings:
    """Return the strings at the positions; a `repeated` array stays compact."""
    if _is_repeated(texts):
        n = int(np.count_nonzero(at)) if at.dtype == np.bool_ else len(at)
        return np.broadcast_to(texts[0], n)
    found: Strings = texts[at]
    return found


def _positions(rows: ArrayLike, n: int) -> NDArray[Any]:
    at = np.asarray(rows)
    if at.dtype == np.bool_:
        if at.shape != (n,):
            raise InvalidInputError(f"`rows` is a mask of shape {at.shape}; there are {n} records")
        return at
    if at.size == 0:
        return at.reshape(-1).astype(np.int64)
    if at.ndim != 1 or at.dtype.kind not in "iu":
        raise InvalidInputError(f"`rows` must contain positions or be a mask, got {rows!r}")
    outside = (at < -n) | (at >= n)
    if outside.any():
        row = int(np.argmax(outside))
        raise InvalidInputError(f"rows[{row}] is {at[row]}; there are {n} records")
    at = np.where(at < 0, at + n, at)
    if (at[1:] > at[:-1]).all():
        return at
    again = np.setdiff1d(np.arange(len(at)), np.unique(at, return_index=True)[1])
    if len(again):
        raise InvalidInputError(
            f"rows[{again[0]}] is {at[again[0]]} again; each record may be selected only once"
        )
    return at


def _numbered(n: int) -> Strings:
    width = len(str(max(n - 1, 0)))
    return np.array([f"{i:0{width}d}" for i in range(n)], dtype=object)  # sorts like numbers


def _size(values: Any, name: str) -> int:
    try:
        if not isinstance(values, (str, bytes, Mapping)):
            return len(values)
    except TypeError:  # a number or a 0-D array
        pass
    raise InvalidInputError(f"`{name}` is {values!r}; it must be a sequence, one entry per record")


def _length(values: Any, name: str, n: int) -> None:
    if _size(values, name) != n:
        raise InvalidInputError(f"`{name}` has {len(values)} entries but there are {n} records")


def _strings(values: Any, name: str, n: int) -> Strings:
    _length(values, name, n)
    missing = [i for i, value in enumerate(values) if validation.is_missing(value)]
    if missing:
        raise InvalidInputError(f"{name}[{missing[0]}] is missing; every record needs one")
    return np.array([str(value) for value in values], dtype=object)


def _attempts(ids: Strings) -> IntArray:
    seen: dict[str, int] = {}
    attempts = np.empty(len(ids), dtype=np.int64)
    for row, unit in enumerate(ids):
        attempts[row] = seen[unit] = seen.get(unit, 0) + 1
    return attempts


def _unique(ids: Strings, attempts: IntArray) -> None:
    seen: set[tuple[str, int]] = set()
    for row, key in enumerate(zip(ids.tolist(), attempts.tolist(), strict=True)):
        if key in seen:
            raise InvalidInputError(
                f"unit_id[{row}] is {key[0]!r} with attempt {key[1]} twice; "
                "each pair of unit and attempt may occur only once"
            )
        seen.add(key)


def _one_per_unit(ids: Strings, values: Strings, name: str) -> None:
    if values is ids:
        return
    first: dict[str, str] = {}
    for row, (unit, value) in enumerate(zip(ids.tolist(), values.tolist(), strict=True)):
        if first.setdefault(unit, value) != value:
            raise InvalidInputError(
                f"{name}[{row}] is {value!r} but unit {unit!r} also has {first[unit]!r}; "
                f"each unit must have a single {name}"
            )


def _known(given: Mapping[str, Any] | None, name: str, columns: Mapping[str, Any]) -> None:
    unknown = sorted(set(given or {}) - set(columns))
    if unknown:
        raise InvalidInputError(
            f"`{name}` names the column {unknown[0]!r}; the columns are {sorted(columns)}"
        )


def _whole_numbers(values: ArrayLike, name: str, n: int) -> IntArray:
    numbers = np.asarray(values)
    _length(numbers, name, n)
    if n and numbers.dtype.kind not in "iu":
        raise InvalidInputError(f"`{name}` must contain integers, got {numbers.dtype}")
    return numbers.astype(np.int64)


def _reasons(given: Sequence[str | None] | None, name: str, n: int) -> Strings:
    if given is None:
        return np.full(n, "", object)
    return _strings([why or "" for why in given], f"reason[{name!r}]", n)


def _number(value: Any, name: str, row: int) -> float:
    try:
        return 0.0 if value is None else validation.as_float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInputError(
            f"{name}[{row}] is {value!r}; a column must contain only numbers or only strings, or None"
        ) from None


def _column(
    values: Any, name: str, n: int, status: Sequence[str] | None
) -> tuple[NDArray[Any], Strings]:
    """Return the values and their status; None becomes "skipped" unless a status is given."""
    _length(values, name, n)
    absent = np.array([value is None for value in values], dtype=np.bool_)
    states = _states(absent, name, n, status)
    numeric = isinstance(values, np.ndarray) and values.dtype.kind in "biuf"
    texts = [] if numeric else [isinstance(value, str) for value in values]
    if any(texts) and bool(np.all(absent | texts)):
        return _texts(values, name, absent, states), states
    return _numbers(values, name, absent, states), states


def _states(absent: BoolArray, name: str, n: int, status: Sequence[str] | None) -> Strings:
    if status is None:
        return np.where(absent, "skipped", "ok").astype(object)
    states = _strings(status, f"status[{name!r}]", n)
    odd = [i for i, state in enumerate(states) if state not in _STATUSES]
    if odd:
        raise InvalidInputError(
            f"status[{name!r}][{odd[0]}] is {states[odd[0]]!r}; "
            "it must be 'ok', 'skipped' or 'error'"
        )
    return states


def _texts(values: Any, name: str, absent: BoolArray, states: Strings) -> Strings:
    bad = (states == "ok") & absent
    if bad.any():
        raise InvalidInputError(
            f"{name}[{int(np.argmax(bad))}] is None; an 'ok' value must be a string (use a status of "
            "'skipped' or 'error')"
        )
    pairs = zip(values, states.tolist(), strict=True)
    return np.array([str(one) if state == "ok" else None for one, state in pairs], dtype=object)


def _numbers(values: Any, name: str, absent: BoolArray, states: Strings) -> FloatArray:
    numbers = np.array([_number(value, name, row) for row, value in enumerate(values)])
    bad = (states == "ok") & (absent | ~np.isfinite(numbers))
    if bad.any():
        row = int(np.argmax(bad))
        raise InvalidInputError(
            f"{name}[{row}] is {None if absent[row] else numbers[row]}; an 'ok' value must be finite "
            "(use None with a status of 'skipped' or 'error')"
        )
    large = (states == "ok") & (np.abs(numbers) > LARGEST_VALUE)
    if large.any():
        row = int(np.argmax(large))
        raise InvalidInputError(
            f"{name}[{row}] is {numbers[row]:g}; values must lie within ±{LARGEST_VALUE:g}, so that "
            "sums of their squares do not overflow"
        )
    return np.where(states == "ok", numbers, 0.0)
