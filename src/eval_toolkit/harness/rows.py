"""Internal view of slices: labels, features and ids of rows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit._internal import frames, validation
from eval_toolkit._internal.hashing import content_hash, unit_ids
from eval_toolkit._internal.validation import FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, MissingColumnError
from eval_toolkit.protocols import EvalSliceLike
from eval_toolkit.scorecards import Records


@dataclass(frozen=True, eq=False)
class Rows:
    """Slice, with the name used in results."""

    name: str
    source: Any

    @cached_property
    def labels(self) -> IntArray:
        """Labels, 0 or 1."""
        given = self.source.y_true
        if not len(given):
            return np.zeros(0, dtype=np.int64)
        try:
            return validation.binary_labels(given, "y_true").astype(np.int64)
        except InvalidInputError as error:
            raise InvalidInputError(f"slice {self.name!r}: {error}") from None

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.labels)

    @property
    def n_positive(self) -> int:
        """Number of rows with label 1."""
        return int(self.labels.sum())

    @property
    def counts(self) -> dict[str, int]:
        """Counts that every result entry includes."""
        return {"n": self.n, "n_positive": self.n_positive}

    @property
    def features(self) -> Any:
        """Features passed to the scorers."""
        return self.source.features

    def features_at(self, rows: IntArray) -> Any:
        """Return the features of the selected rows, preserving the container type."""
        features = self.features
        if _is_frame(features):
            return frames.take(features, rows)
        if isinstance(features, np.ndarray):
            return features[rows]
        return [self._listed[row] for row in rows.tolist()]

    @cached_property
    def _listed(self) -> Sequence[Any]:
        return self.features if isinstance(self.features, (list, tuple)) else list(self.features)

    @cached_property
    def columns(self) -> list[str]:
        """Feature names in order; empty if scorers receive a list."""
        return frames.names(self.features) if _is_frame(self.features) else []

    @cached_property
    def inputs(self) -> list[Any]:
        """Input of each row, as a plain value or a list."""
        given = getattr(self.source, "inputs", None)
        values = self.features if given is None else given
        if _is_frame(values):
            columns = [frames.column(values, name).tolist() for name in frames.names(values)]
            listed = [list(row) for row in zip(*columns, strict=True)]
        else:
            listed = values.tolist() if hasattr(values, "tolist") else list(values)
        if len(listed) != self.n:
            raise InvalidInputError(
                f"slice {self.name!r} has {self.n} labels but {len(listed)} features"
            )
        return listed

    @cached_property
    def hashes(self) -> list[str]:
        """Content hash of each row's input and label."""
        given = getattr(self.source, "content_hashes", None)
        if given is not None:
            return list(given)
        pairs = zip(self.inputs, self.labels.tolist(), strict=True)
        return [content_hash(item, label) for item, label in pairs]

    @property
    def groups(self) -> NDArray[Any] | None:
        """Group of each row; rows of the same group may be dependent."""
        return self._column("groups")

    @cached_property
    def strata(self) -> NDArray[Any] | None:
        """Stratum of each row as a string; "unlabeled" for rows without one."""
        values = self._column("strata")
        if values is None:
            return None
        names = [
            validation.UNLABELED if validation.is_missing(value) else str(value) for value in values
        ]
        return np.array(names, dtype=object)

    @property
    def part_name(self) -> str:
        """Name of the records column that contains the strata."""
        return getattr(self.source, "strata_col", None) or "stratum"

    def check(self) -> None:
        """Raise an error if groups or strata are invalid, before any row is scored."""
        group_col = getattr(self.source, "group_col", None) or "groups"
        for name, values in ((group_col, self.groups), (self.part_name, self.strata)):
            if values is not None and len(values) != self.n:
                raise InvalidInputError(
                    f"slice {self.name!r} has {self.n} labels but {len(values)} values in {name!r}"
                )
        for row, group in enumerate(() if self.groups is None else self.groups):
            if validation.is_missing(group):
                raise InvalidInputError(
                    f"slice {self.name!r}: {group_col}[{row}] is missing; every row needs a group "
                    "(give independent rows unique groups)"
                )

    def _column(self, name: str) -> NDArray[Any] | None:
        values = getattr(self.source, name, None)
        return None if values is None else np.asarray(values)

    @property
    def ids(self) -> list[str] | None:
        """Unique row ids from the data, or None if the data contain none."""
        given = self._column("ids")
        return None if given is None else [str(value) for value in given.tolist()]

    def unit_ids(self, scores: Iterable[FloatArray] = ()) -> list[str]:
        """Return the id of each row, from the data if possible, else derived from its content.

        Rows that agree in every column are numbered in the order of their scores, so ids do not
        depend on row order.
        """
        if self.ids is not None:
            return self.ids
        known = getattr(self.source, "unit_ids", None)
        if known is None:
            parts = [part.astype(str) for part in (self.groups, self.strata) if part is not None]
            return unit_ids(self.hashes, *(values.tolist() for values in (*scores, *parts)))
        return unit_ids(
            self.hashes, *(values.tolist() for values in scores), map(len, known), known
        )

    def records(
        self, scores: FloatArray | None, unit_ids: Sequence[str], failure: str = ""
    ) -> Records:
        """Convert the rows to records; rows without scores become error records."""
        strata = self.strata
        failed = scores is None
        try:
            return Records.from_columns(
                {"label": self.labels, "score": [None] * self.n if scores is None else scores},
                unit_id=unit_ids,
                group=self.groups,
                slices={} if strata is None else {self.part_name: strata},
                content_hash=self.hashes,
                status={"score": ["error"] * self.n} if failed else None,
                reason={"score": [failure] * self.n} if failed else None,
            )
        except InvalidInputError as error:
            raise InvalidInputError(f"slice {self.name!r}: {error}") from None


def _is_frame(features: Any) -> bool:
    return isinstance(features, Mapping) or hasattr(features, "columns")


def named_slices(slices: Any) -> dict[str, Any]:
    """Convert a list of slices, or a fold's dict, to a dict keyed by name.

    Raises an error if there are no slices, an entry is not a slice, or names are not unique.
    """
    if isinstance(slices, EvalSliceLike):
        raise InvalidTypeError(
            f"`slices` is a single slice, {slices.name!r}; pass a list: [slice_]"
        )
    if not isinstance(slices, (Mapping, Iterable)) or isinstance(slices, str):
        raise InvalidTypeError(f"`slices` is {slices!r}; it must be a list or a dict of slices")
    pairs = list(slices.items()) if isinstance(slices, Mapping) else None
    listed = [slice_ for _, slice_ in pairs] if pairs is not None else list(slices)
    if not listed:
        raise InvalidInputError("`slices` is empty; at least one slice is needed")
    named: dict[str, Any] = {}
    for index, slice_ in enumerate(listed):
        if not isinstance(slice_, EvalSliceLike):
            raise InvalidTypeError(
                f"slices[{(pairs[index][0] if pairs else index)!r}] is a {type(slice_).__name__}; "
                "a slice must have name, y_true, features and strata (see EvalSlice)"
            )
        name = pairs[index][0] if pairs is not None else slice_.name
        if not isinstance(name, str) or not name:
            raise InvalidInputError(
                f"a slice has the name {name!r}; names must be non-empty strings"
            )
        if name in named:
            raise InvalidInputError(f"two slices have the name {name!r}; names must be unique")
        rename = getattr(slice_, "renamed", None)
        named[name] = slice_ if name == slice_.name or rename is None else rename(name)
    return named


def chosen_slices(
    slices: Mapping[str, Any], names: Sequence[str] | None, argument: str
) -> dict[str, Any]:
    """Return the slices with the given names, or all slices if None; raise for unknown names."""
    selected = list(slices) if names is None else [names] if isinstance(names, str) else list(names)
    if not selected:
        raise InvalidInputError(f"`{argument}` is empty; at least one name is needed")
    for name in selected:
        if name not in slices:
            raise MissingColumnError(
                f"`{argument}`: no slice {name!r}; the slices are {', '.join(map(repr, slices))}"
            )
    return {name: slices[name] for name in selected}
