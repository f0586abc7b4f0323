"""Splitters that divide a slice into folds of ``{"train": EvalSlice, "test": EvalSlice}``.

Folds keep the frame type and the column roles of the slice. To choose a splitter:

- independent rows: `StratifiedKFoldSplitter`, or `HoldoutSplitter` for a single split;
- rows in groups (an author, a template): `GroupKFoldSplitter`,
  `StratifiedGroupKFoldSplitter`;
- generalisation to new sources: `SourceDisjointKFoldSplitter`;
- generalisation to later data: `TimeSeriesSplitter`, `PurgedKFoldSplitter`.

Splitters that ignore groups (`StratifiedKFoldSplitter`, `TimeSeriesSplitter`,
`PurgedKFoldSplitter`) reject a slice with a ``group_col`` unless ``ignore_groups=True``.

`split_slice` divides a slice into named parts (train, val, test).
"""

from typing import TYPE_CHECKING

from eval_toolkit._internal.optional import names_on_use

if TYPE_CHECKING:
    from eval_toolkit.splits.grouped import *
    from eval_toolkit.splits.parts import *
    from eval_toolkit.splits.pools import *
    from eval_toolkit.splits.rows import *
    from eval_toolkit.splits.temporal import *

__all__, __getattr__ = names_on_use(
    __name__,
    {
        "grouped": "GroupKFoldSplitter SourceDisjointKFoldSplitter StratifiedGroupKFoldSplitter",
        "parts": "split_slice",
        "pools": "iter_folds_with_pool",
        "rows": "HoldoutSplitter StratifiedKFoldSplitter",
        "temporal": "PurgedKFoldSplitter TimeSeriesSplitter compute_label_overlap",
    },
)
