"""Folds with training and validation parts from a pool builder."""

from collections.abc import Iterator, Mapping

from numpy.typing import ArrayLike

from eval_toolkit.errors import InvalidInputError
from eval_toolkit.protocols import PoolBuilder, Splitter
from eval_toolkit.slices import EvalSlice


def iter_folds_with_pool(
    splitter: Splitter,
    slice_: EvalSlice,
    *,
    pool_builder: PoolBuilder,
    groups: ArrayLike | None = None,
) -> Iterator[dict[str, EvalSlice]]:
    """Yield folds with training and validation parts built from the training rows.

    Parameters
    ----------
    splitter : Splitter
        Splitter that creates the folds; test parts are unchanged.
    slice_ : EvalSlice
        Slice to divide.
    pool_builder : PoolBuilder
        ``build(train, fold_idx=i)`` returns at least ``train`` and ``val``; it never receives test
        rows.
    groups : array-like, optional
        Passed to the splitter.

    Yields
    ------
    dict of str to EvalSlice
        Output of the builder, with ``test`` added.

    Raises
    ------
    InvalidInputError
        If the builder returns no dict, ``train`` or ``val`` is missing, or ``test`` is present.

    Examples
    --------
    >>> from eval_toolkit.splits import StratifiedKFoldSplitter
    >>> class Halves:
    ...     def build(self, train, *, fold_idx):
    ...         return {"train": train.take(range(0, 4)), "val": train.take(range(4, 8))}
    >>> slice_ = EvalSlice("all", {"text": list("abcdefghijkl"), "label": [0, 1] * 6})
    >>> folds = iter_folds_with_pool(StratifiedKFoldSplitter(k=3), slice_, pool_builder=Halves())
    >>> {name: part.n for name, part in next(folds).items()}
    {'train': 4, 'val': 4, 'test': 4}
    """
    for fold_idx, fold in enumerate(splitter.iter_folds(slice_, groups=groups)):
        pool = pool_builder.build(fold["train"], fold_idx=fold_idx)
        who = f"{type(pool_builder).__name__}.build for fold {fold_idx}"
        if not isinstance(pool, Mapping):
            raise InvalidInputError(
                f"{who} returned a {type(pool).__name__}; it must return a dict with 'train' "
                "and 'val'"
            )
        missing = [name for name in ("train", "val") if name not in pool]
        if missing or "test" in pool:
            rule = f"lacks {missing}" if missing else "contains 'test', which the splitter provides"
            raise InvalidInputError(
                f"{who} returned {sorted(pool)}: it {rule}; return 'train' and 'val'"
            )
        yield {**pool, "test": fold["test"]}
