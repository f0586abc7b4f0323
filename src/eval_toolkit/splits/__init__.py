"""Splitters: divide a slice into folds of ``{"train": EvalSlice, "test": EvalSlice}``.

Every fold keeps the parent's kind of frame and all its column roles. Choice of the splitter:

- independent rows: `StratifiedKFoldSplitter`, or `HoldoutSplitter` for a single split;
- rows in groups (an author, a template): `GroupKFoldSplitter`,
  `StratifiedGroupKFoldSplitter`;
- generalisation to new sources: `SourceDisjointKFoldSplitter`;
- generalisation to later data: `TimeSeriesSplitter`, `PurgedKFoldSplitter`.

Splitters of single rows (`StratifiedKFoldSplitter` and the last two) reject a slice with a
``group_col`` unless ``ignore_groups=True``.

`split_slice` divides a slice once into named parts (train, val, test), to be saved as files.
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
