"""Validation of verdicts and labels, including a test that labels were sampled at random."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError, UndefinedMetricError
from eval_toolkit.inference.distributions import upper_tail

_NOT_BY_CHANCE = 1e-4
"""P-value below which labels are considered not to be a random sample."""


@dataclass(frozen=True, eq=False)
class Judged:
    """Judge verdicts on all units, and human labels for some of them."""

    judge: FloatArray
    human: FloatArray
    """Human labels; undefined for unlabelled units."""
    labelled: BoolArray
    groups: IntArray | None

    @property
    def n(self) -> int:
        """Number of units."""
        return len(self.judge)

    @property
    def n_labels(self) -> int:
        """Number of units with a human label."""
        return int(self.labelled.sum())

    @property
    def n_groups(self) -> int | None:
        """Number of independent groups; None if units are independent."""
        return None if self.groups is None else len(np.unique(self.groups))

    @property
    def binary_judge(self) -> bool:
        """Whether verdicts are 0 or 1."""
        return bool(np.isin(self.judge, (0.0, 1.0)).all())

    @property
    def binary(self) -> bool:
        """Whether verdicts and labels are 0 or 1."""
        return self.binary_judge and self.is_rate

    @property
    def is_rate(self) -> bool:
        """Whether labels are 0 or 1 and verdicts are in [0, 1], e.g. probabilities."""
        labels = self.human[self.labelled]
        inside = float(self.judge.min()) >= 0.0 and float(self.judge.max()) <= 1.0
        return inside and bool(np.isin(labels, (0.0, 1.0)).all())

    def take(self, rows: BoolArray) -> "Judged":
        """Return a subset of the units."""
        groups = None if self.groups is None else self.groups[rows]
        return Judged(self.judge[rows], self.human[rows], self.labelled[rows], groups)

    def check_random(self) -> None:
        """Raise if verdicts differ between labelled and unlabelled units."""
        if self.n_labels == self.n or float(self.judge.std()) == 0.0:
            return
        p_value = self._share_p_value() if self.groups is None else self._rank_p_value()
        if p_value < _NOT_BY_CHANCE:
            there, rest = self.judge[self.labelled].mean(), self.judge[~self.labelled].mean()
            raise InvalidInputError(
                f"`human` labels were not chosen at random: the judge's mean is {there:.3g} on "
                f"labelled units and {rest:.3g} on the others (p = {p_value:.1g}). Pass `strata` "
                "(the verdicts, if labels were sampled by verdict) or `weights` (1 / probability of "
                "a label)"
            )

    def _share_p_value(self) -> float:
        """Return the p-value for the number of high verdicts in the labelled units.

        "High" means at or above a cut point; cut points are the deciles and the extremes. The
        smallest p-value is multiplied by the number of cut points (Bonferroni).
        """
        from scipy.special import bdtr, bdtrc

        levels = np.unique(self.judge)
        deciles = np.quantile(self.judge, np.arange(0.1, 0.95, 0.1), method="inverted_cdf")
        cuts = np.unique(np.concatenate([deciles, levels[[1, -1]]]))
        cuts = cuts[cuts > levels[0]]
        high = self.judge[:, None] >= cuts
        share, hits = high.mean(axis=0), high[self.labelled].sum(axis=0)
        fewer = bdtr(hits, self.n_labels, share)
        more = np.where(hits > 0, bdtrc(np.maximum(hits - 1, 0), self.n_labels, share), 1.0)
        return 2.0 * len(cuts) * float(np.minimum(fewer, more).min())

    def _rank_p_value(self) -> float:
        """Return the p-value for the mean rank of the labelled units.

        The variance accounts for clusters that were labelled as a whole.
        """
        n, n_labels = self.n, self.n_labels
        rank = np.searchsorted(np.sort(self.judge), self.judge).astype(np.float64)
        off, chosen = rank - rank.mean(), self.labelled - n_labels / n
        variance = float(off @ off) / (n - 1) * n_labels * (1.0 - n_labels / n)
        if self.groups is not None:
            sums = np.bincount(self.groups, off * chosen)
            variance = max(variance, float(sums @ sums))
        return 2.0 * upper_tail(abs(float(off @ chosen)) / math.sqrt(variance))


def read_judged(
    judge: ArrayLike,
    human: Any,
    groups: ArrayLike | None,
    names: tuple[str, str] = ("judge", "human"),
) -> Judged:
    """Return verdicts and labels as validated arrays.

    Raise `UndefinedMetricError` if fewer than two units have a human label.
    """
    verdicts = validation.vector(judge, names[0])
    entries = validation.as_array(human, names[1], dtype=object)
    if entries.ndim != 1:
        raise InvalidInputError(f"`{names[1]}` must be 1-D, got shape {entries.shape}")
    validation.same_length(verdicts, entries, names)
    labelled = np.array([not validation.is_missing(value) for value in entries], dtype=np.bool_)
    if labelled.sum() < 2:
        raise UndefinedMetricError(
            f"a correction is undefined: `{names[1]}` has {int(labelled.sum())} labels; "
            "at least two are needed"
        )
    labels = np.zeros(len(entries))
    labels[labelled] = validation.vector(entries[labelled], names[1])
    codes = None if groups is None else validation.group_codes(groups, len(verdicts))[0]
    if codes is not None and len(np.unique(codes[labelled])) < 2:
        raise UndefinedMetricError(
            "a correction is undefined: all human labels are in one group; at least two are needed"
        )
    return Judged(verdicts, labels, labelled, codes)
