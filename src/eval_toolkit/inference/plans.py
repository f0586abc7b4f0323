"""Resampling plans: which units are drawn, and which rows belong to them.

Every plan draws *units* with replacement within *strata* of fixed size; a row's count is that of
its unit. This covers rows, label-stratified rows, groups, and groups in strata; the two-level plan
also resamples the members of each drawn group.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from eval_toolkit._internal import kernel
from eval_toolkit._internal.validation import BoolArray, IntArray, group_codes
from eval_toolkit.errors import InvalidInputError

MIN_UNITS = 10
"""Minimum number of independent units for a bootstrap interval."""


@dataclass(frozen=True)
class Plan:
    """Units to draw with replacement, and the unit to which each row belongs.

    Examples
    --------
    >>> plan = groups_plan(["b", "a", "b"])
    >>> plan.n_units, plan.unit_of_row.tolist()
    (2, [1, 0, 1])
    """

    kind: str
    n_rows: int
    strata: IntArray
    """Boundaries of the strata of units: ``[0, …, n]``."""
    unit_of_row: IntArray | None = None
    """Unit of each row; None if every row is its own unit."""
    n_fixed: int = 0
    """Number of fixed units, which follow the last stratum and occur once in every resample."""
    members: IntArray | None = None
    """Two-level plan only: boundaries of the groups in the sorted rows."""
    group_of_row: IntArray | None = None
    """Group of each drawn row (−1 for fixed rows), if units are subsets of groups."""

    @property
    def n_units(self) -> int:
        """Length of a count vector, including fixed units."""
        return int(self.strata[-1]) + self.n_fixed

    @property
    def n_groups(self) -> int:
        """Number of independent groups of drawn rows."""
        if self.group_of_row is None:
            return int(self.strata[-1])
        return len(np.unique(self.group_of_row[self.group_of_row >= 0]))

    def n_groups_among(self, rows: BoolArray) -> int:
        """Return the number of independent groups of the rows in a mask."""
        groups = self.unit_of_row if self.group_of_row is None else self.group_of_row
        return int(np.count_nonzero(rows)) if groups is None else len(np.unique(groups[rows]))

    def effective_among(self, rows: BoolArray) -> float:
        """Return the effective number of independent groups of the rows in a mask.

        (Σ n_g)² / Σ n_g² for groups with n_g such rows; equal to the number of groups if all n_g
        are equal.
        """
        groups = self.unit_of_row if self.group_of_row is None else self.group_of_row
        if groups is None or self.kind == "label-stratified":
            return float(np.count_nonzero(rows))
        drawn = groups[rows]
        if self.n_fixed and len(drawn) and (drawn < 0).all():
            return math.inf  # fixed rows do not contribute to the variance
        sizes = np.bincount(drawn[drawn >= 0]).astype(np.float64)
        return float(sizes.sum() ** 2 / (sizes**2).sum()) if sizes.any() else 0.0

    @property
    def is_plain_rows(self) -> bool:
        """Whether rows are drawn individually, without strata."""
        return self.unit_of_row is None and len(self.strata) == 2 and self.members is None

    def reordered(self, order: IntArray) -> "Plan":
        """Return the plan for the same rows in another order.

        Units are numbered by first appearance within each stratum. Two-level plans are not
        supported, because their units are row positions.
        """
        if self.unit_of_row is None:
            return self
        units = self.unit_of_row[order]
        first = np.full(self.n_units, len(order))
        first[units[::-1]] = np.arange(len(order))[::-1]  # the last position wins
        stratum = np.searchsorted(self.strata[1:], np.arange(self.n_units), side="right")
        place = np.empty(self.n_units, dtype=np.int64)
        place[np.argsort(stratum * (len(order) + 1) + first)] = np.arange(self.n_units)
        groups = None if self.group_of_row is None else self.group_of_row[order]
        return replace(self, unit_of_row=place[units], group_of_row=groups)

    @property
    def is_independent(self) -> bool:
        """Whether rows are independent, within each class or overall."""
        return self.is_plain_rows or self.kind == "label-stratified"

    def draw(
        self,
        counts: NDArray[np.uint8],
        *,
        seed: int,
        first: int,
        order: NDArray[np.int32] | None = None,
        position: NDArray[np.int32] | None = None,
    ) -> int:
        """Fill ``counts`` (units × 64) for 64 resamples from ``first``; return the largest count."""
        if self.members is not None:
            groups = np.empty((len(self.members) - 1, kernel.LANES), dtype=np.uint8)
            kernel.draw(groups, seed=seed, first=first, strata=self.strata)
            return kernel.redraw(counts, groups, offsets=self.members, seed=seed, first=first)
        drawn = counts[: self.strata[-1]]
        if self.n_fixed:
            counts[self.strata[-1] :] = 1
        return kernel.draw(
            drawn, seed=seed, first=first, strata=self.strata, order=order, position=position
        )

    def count_rows(self) -> int:
        """Return the length of a count vector: number of units, or of rows for two-level plans."""
        return self.n_rows if self.members is not None else self.n_units


def _bounds(sizes: IntArray) -> IntArray:
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)


def chosen_plan(
    labels: BoolArray,
    *,
    groups: ArrayLike | None = None,
    stratified: bool = False,
    plan: Plan | None = None,
) -> Plan:
    """Return the plan selected by the caller's arguments; by default, rows are resampled.

    Raise if more than one argument is passed, or the plan is for another number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> chosen_plan(np.array([True, False]), groups=["a", "b"]).kind
    'groups'
    """
    if (groups is not None) + stratified + (plan is not None) > 1:
        raise InvalidInputError(
            "pass only one of `groups`, `stratified` and `plan`; `cluster_bootstrap_ci` draws "
            "groups "
            "by label, `groups_in_strata_plan` groups in strata"
        )
    if plan is not None:
        if plan.n_rows != len(labels):
            raise InvalidInputError(
                f"`plan` is for {plan.n_rows} rows but the data has {len(labels)}"
            )
        return plan
    if groups is not None:
        return groups_plan(groups, n=len(labels))
    return label_stratified_plan(labels) if stratified else rows_plan(len(labels))


def rows_plan(n: int) -> Plan:
    """Draw rows independently.

    Examples
    --------
    >>> rows_plan(3).n_units
    3
    """
    return Plan("rows", n, np.array([0, n], dtype=np.int64))


def label_stratified_plan(labels: BoolArray) -> Plan:
    """Draw positives and negatives separately, so that every resample has both classes.

    Examples
    --------
    >>> import numpy as np
    >>> label_stratified_plan(np.array([True, False, True])).strata.tolist()
    [0, 1, 3]
    """
    unit = np.empty(len(labels), dtype=np.int64)
    unit[np.argsort(labels, kind="stable")] = np.arange(len(labels))
    sizes = np.array([np.count_nonzero(~labels), np.count_nonzero(labels)])
    return Plan("label-stratified", len(labels), _bounds(sizes[sizes > 0]), unit)


def groups_plan(groups: ArrayLike, *, n: int | None = None) -> Plan:
    """Draw whole groups.

    Examples
    --------
    >>> groups_plan([7, 7, 8]).n_units
    2
    """
    n_rows = len(np.asarray(groups)) if n is None else n
    codes, n_groups = group_codes(groups, n_rows)
    return Plan("groups", n_rows, _bounds(np.array([n_groups])), codes)


def groups_in_strata_plan(groups: ArrayLike, strata: ArrayLike) -> Plan:
    """Draw whole groups within each stratum; groups must not span strata.

    Examples
    --------
    >>> groups_in_strata_plan(["a", "a", "b"], ["x", "x", "y"]).strata.tolist()
    [0, 1, 2]
    """
    n = len(np.asarray(groups))
    group, n_groups = group_codes(groups, n)
    stratum, n_strata = group_codes(strata, n, "strata")
    stratum_of_group = np.zeros(n_groups, dtype=np.int64)
    stratum_of_group[group] = stratum
    split = stratum_of_group[group] != stratum
    if split.any():
        row = int(np.argmax(split))
        raise InvalidInputError(
            f"groups[{row}] lies in more than one stratum; every group must lie in a single stratum"
        )
    return _strata_of_units("groups-in-strata", group, stratum_of_group, n_strata)


def _strata_of_units(kind: str, unit: IntArray, stratum_of_unit: IntArray, n_strata: int) -> Plan:
    """Renumber units so that the units of a stratum are adjacent."""
    renumbered = np.empty(len(stratum_of_unit), dtype=np.int64)
    renumbered[np.argsort(stratum_of_unit, kind="stable")] = np.arange(len(stratum_of_unit))
    sizes = np.bincount(stratum_of_unit, minlength=n_strata)
    return Plan(kind, len(unit), _bounds(sizes), renumbered[unit])


def label_group_plan(
    labels: BoolArray, groups: ArrayLike, *, resample_labels: tuple[int, ...] = (0, 1)
) -> Plan:
    """Draw whole (label, group) units within each label; rows with other labels are kept.

    A group with both labels becomes two units, so that every resample has both classes.

    Examples
    --------
    >>> import numpy as np
    >>> plan = label_group_plan(np.array([True, False, False]), ["a", "a", "b"])
    >>> plan.strata.tolist()
    [0, 2, 3]
    """
    selected = sorted(set(resample_labels))
    if not selected or not set(selected) <= {0, 1}:
        raise InvalidInputError(
            f"`resample_labels` is {resample_labels!r}; name at least one of the labels 0 and 1"
        )
    codes, n_groups = group_codes(groups, len(labels))
    absent = [label for label in selected if not (labels == bool(label)).any()]
    if absent:
        raise InvalidInputError(f"`resample_labels` names {absent[0]}, but no row has this label")
    # Units of the drawn labels come first, in order of (label, group); then the fixed rows.
    key = np.where(labels, n_groups, 0) + codes
    drawn = np.isin(labels, [bool(label) for label in selected])
    unique, unit_of_drawn = np.unique(key[drawn], return_inverse=True)
    unit = np.empty(len(labels), dtype=np.int64)
    unit[drawn] = unit_of_drawn
    n_fixed = int(np.count_nonzero(~drawn))
    unit[~drawn] = len(unique) + np.arange(n_fixed)
    sizes = np.array([np.count_nonzero((unique >= n_groups) == bool(label)) for label in selected])
    return Plan(
        "label-groups",
        len(labels),
        _bounds(sizes),
        unit,
        n_fixed,
        group_of_row=np.where(drawn, codes, -1),
    )


def two_level_plan(groups: ArrayLike, *, n: int | None = None) -> Plan:
    """Draw groups, then resample the members (e.g. attempts) of each drawn group.

    Examples
    --------
    >>> two_level_plan(["a", "b", "a"]).members.tolist()
    [0, 2, 3]
    """
    n_rows = len(np.asarray(groups)) if n is None else n
    codes, n_groups = group_codes(groups, n_rows)
    unit = np.empty(n_rows, dtype=np.int64)
    unit[np.argsort(codes, kind="stable")] = np.arange(n_rows)
    members = _bounds(np.bincount(codes, minlength=n_groups))
    return Plan(
        "two-level",
        n_rows,
        _bounds(np.array([n_groups])),
        unit,
        members=members,
        group_of_row=codes,
    )
