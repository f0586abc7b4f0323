"""Partial area under the ROC curve, up to a maximum false-positive rate."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np

from eval_toolkit import metrics
from eval_toolkit._internal.validation import BoolArray
from eval_toolkit.inference.column_statistics import CallableStatistic
from eval_toolkit.inference.columns import Columns


@dataclass(frozen=True)
class PartialRocAuc(CallableStatistic):
    """`metrics.roc_auc` with ``max_fpr``.

    It depends on the positives and on the highest-scoring fraction ``max_fpr`` of the negatives,
    e.g. three of 30 negatives for a rate of 0.1.
    """

    max_fpr: float = 1.0

    @classmethod
    def up_to(cls, max_fpr: float) -> PartialRocAuc:
        """Return the statistic for the area up to a false-positive rate."""
        function = functools.partial(metrics.roc_auc, max_fpr=max_fpr)
        least = 0.5 - 0.5 * max_fpr / (2.0 - max_fpr)  # value for zero area
        return cls(function, (least, 1.0), label=f"roc_auc_max_fpr_{max_fpr:g}", max_fpr=max_fpr)

    @property
    def among(self) -> str:
        """Description of the relevant rows, used in messages."""
        return f" up to a false-positive rate of {self.max_fpr:g}"

    def support(self, data: Columns) -> tuple[BoolArray, ...]:
        """Return the positives, and the negatives up to the false-positive rate."""
        negatives = data.order[~data.labels[data.order]]  # by descending score
        inside = np.zeros(data.n, dtype=np.bool_)
        inside[negatives[: math.floor(self.max_fpr * len(negatives) + 1e-9)]] = True
        return data.labels, inside
