"""Splitters: divide a slice into folds of ``{"train": EvalSlice, "test": EvalSlice}``.

Every fold keeps the parent's kind of frame and all its column roles. Which splitter?

- rows are independent: `StratifiedKFoldSplitter`, or `HoldoutSplitter` for one cut;
- rows come in groups (an author, a template): `GroupKFoldSplitter`,
  `StratifiedGroupKFoldSplitter`;
- the question is how a new source would do: `SourceDisjointKFoldSplitter`;
- the model is used on later data: `TimeSeriesSplitter`, `PurgedKFoldSplitter`.

Splitters that look at single rows (`StratifiedKFoldSplitter` and the last two) refuse a slice with
a ``group_col`` unless they are made with ``ignore_groups=True``.

`split_slice` makes named parts (train, val, test) once, for files that are kept.
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.splits.grouped import (
        GroupKFoldSplitter,
        SourceDisjointKFoldSplitter,
        StratifiedGroupKFoldSplitter,
    )
    from eval_toolkit.splits.parts import split_slice
    from eval_toolkit.splits.pools import iter_folds_with_pool
    from eval_toolkit.splits.rows import HoldoutSplitter, StratifiedKFoldSplitter
    from eval_toolkit.splits.temporal import (
        PurgedKFoldSplitter,
        TimeSeriesSplitter,
        compute_label_overlap,
    )

__all__ = [
    "GroupKFoldSplitter",
    "HoldoutSplitter",
    "PurgedKFoldSplitter",
    "SourceDisjointKFoldSplitter",
    "StratifiedGroupKFoldSplitter",
    "StratifiedKFoldSplitter",
    "TimeSeriesSplitter",
    "compute_label_overlap",
    "iter_folds_with_pool",
    "split_slice",
]

__getattr__ = names_on_use(
    __name__,
    {
        "grouped": "GroupKFoldSplitter SourceDisjointKFoldSplitter StratifiedGroupKFoldSplitter",
        "parts": "split_slice",
        "pools": "iter_folds_with_pool",
        "rows": "HoldoutSplitter StratifiedKFoldSplitter",
        "temporal": "PurgedKFoldSplitter TimeSeriesSplitter compute_label_overlap",
    },
)
