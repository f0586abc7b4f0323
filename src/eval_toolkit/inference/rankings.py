"""Result classes for rankings."""

from dataclasses import dataclass
from typing import Any

from eval_toolkit._internal.display import Displayed
from eval_toolkit.inference.results import BootstrapCI, Interval, in_own_order


@dataclass(frozen=True, slots=True)
class RankedSystem(Displayed):
    """Rank of a system, with its uncertainty."""

    name: str
    value: float
    """Mean over the part means."""
    ci: BootstrapCI | None
    """Confidence interval for this system alone."""
    ci_simultaneous: BootstrapCI | None
    """Simultaneous confidence interval, valid jointly for all systems."""
    rank: int
    """Rank, starting with 1 for the best system; ties have equal ranks."""
    rank_low: int
    rank_high: int
    """Upper bound of the rank; bounds hold jointly for all systems (see `rank_systems`,
    ``adjust``)."""
    p_best: float
    """Fraction of draws in which the system is best; ties are split."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        intervals = {"ci": self.ci, "ci_simultaneous": self.ci_simultaneous}
        plain = {k: None if v is None else v.to_dict() for k, v in intervals.items()}
        names = ("name", "value", "rank", "rank_low", "rank_high", "p_best")
        return {name: getattr(self, name) for name in names} | plain


@in_own_order
@dataclass(frozen=True, kw_only=True, repr=False)
class SystemPair(Interval[float | None]):
    """Comparison of two systems."""

    a: str
    b: str
    difference: float
    """Value of A minus value of B."""
    ci_low: float | None
    ci_high: float | None
    """Uncorrected upper bound; None if there is no interval (see ``reason``)."""
    p_value: float | None
    """P-value; at most 1 − confidence iff the interval excludes 0. None without an interval."""
    p_adjusted: float | None
    """P-value corrected for the number of pairs."""
    p_a_better: float
    """Fraction of draws in which A is better; ties are split."""
    better: str | None
    """Significantly better system (by the corrected p-value), or None."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        names = (
            *("a", "b", "difference", "ci_low", "ci_high", "p_value", "p_adjusted"),
            *("p_a_better", "better", "reason"),
        )
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True, repr=False)
class Ranking(Displayed):
    """Systems from best to worst, with all pairwise comparisons.

    Examples
    --------
    >>> from eval_toolkit.inference import rank_systems
    >>> ranking = rank_systems([[[1, 0], [1, 1], [1, 0], [0, 0]]], names=["new", "old"])
    >>> [system.name for system in ranking.systems]
    ['new', 'old']
    """

    systems: tuple[RankedSystem, ...]
    pairs: tuple[SystemPair, ...]
    """All pairs, each with the better system first."""
    confidence: float
    adjust: str
    method: str
    n_draws: int
    seed: int
    n_units: int
    n_groups: int
    n_parts: int
    higher_is_better: bool = True

    @property
    def best(self) -> tuple[str, ...]:
        """Systems that are not significantly worse than any other."""
        return tuple(system.name for system in self.systems if system.rank_low == 1)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        names = (
            *("confidence", "adjust", "method", "n_draws", "seed"),
            *("n_units", "n_groups", "n_parts", "higher_is_better"),
        )
        return {
            "systems": [system.to_dict() for system in self.systems],
            "pairs": [pair.to_dict() for pair in self.pairs],
            "best": list(self.best),
            **{name: getattr(self, name) for name in names},
        }
