"""Propagation of column roles, in particular groups, to folds."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import frames, validation
from eval_toolkit.slices import EvalSlice


def with_groups(slice_: Any, splitter: Any, groups: ArrayLike | None) -> Any:
    """Return the slice with the groups that the splitter uses.

    Rows that a splitter keeps together are also resampled together. As in the splitters, the
    argument takes precedence over the splitter's column, and that column over the slice's groups.

    Raises an error unless every row has a group.
    """
    if not isinstance(slice_, EvalSlice):
        return slice_
    if groups is None:
        column = getattr(splitter, "group_col", None)
        known = isinstance(column, str) and column in frames.names(slice_.df)
        return replace(slice_, group_col=column) if known else slice_
    validation.group_codes(groups, slice_.n)
    names = [str(group) for group in validation.identifiers(groups, "groups")]
    column = "groups"
    while column in frames.names(slice_.df):
        column += "_"
    frame = frames.with_column(slice_.df, column, np.array(names, dtype=object))
    return replace(slice_, df=frame, group_col=column)


def with_parent_roles(part: Any, parent: Any) -> Any:
    """Return a fold's slice with any column roles that the splitter did not propagate."""
    if not (isinstance(part, EvalSlice) and isinstance(parent, EvalSlice)):
        return part
    have = frames.names(part.df)
    roles = {
        role: getattr(parent, role)
        for role in ("strata_col", "group_col", "id_col", "time_col")
        if getattr(part, role) is None and getattr(parent, role) in have
    }
    return replace(part, **roles) if roles else part
