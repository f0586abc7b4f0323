"""Cells of a grid: coverage, refusals and widths of intervals."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

Interval = tuple[float, float] | None


@dataclass
class Tally:
    """Running counts for one metric in one cell."""

    n: int = 0
    refused: int = 0
    held: int = 0
    width: float = 0.0
    first_n: int = 0
    first_held: int = 0
    first_width: float = 0.0
    compared_width: float = 0.0

    def add(self, truth: float, interval: Interval, first: Interval = None) -> None:
        """Count one data set; ``first`` is the interval of the first edition, if computed."""
        self.n += 1
        if interval is None:
            self.refused += 1
            return
        low, high = interval
        slack = 1e-9 * max(1.0, abs(truth))
        self.held += low - slack <= truth <= high + slack
        self.width += high - low
        if first is not None:
            self.first_n += 1
            self.first_held += first[0] - slack <= truth <= first[1] + slack
            self.first_width += first[1] - first[0]
            self.compared_width += high - low


@dataclass(frozen=True)
class Cell:
    """Result for one metric, data-generating process and sample size."""

    grid: str
    metric: str
    process: dict[str, Any] = field(default_factory=dict)
    n_draws: int = 0
    refused: float = 0.0
    """Fraction of data sets without an interval."""
    rate: float | None = None
    """Coverage on the other data sets; for tests and gates, the fraction of rejections or passes."""
    error: float | None = None
    """Monte-Carlo standard error of the rate."""
    width: float | None = None
    width_ratio: float | None = None
    """Mean width relative to the first edition's default interval on the same data sets."""
    first_rate: float | None = None
    """Coverage of the first edition's default interval on the same data sets."""

    @classmethod
    def of(cls, grid: str, metric: str, process: dict[str, Any], tally: Tally) -> "Cell":
        """Create a cell from its counts."""
        kept = tally.n - tally.refused
        rate = tally.held / kept if kept else None
        error = None
        if rate is not None:
            smooth = (tally.held + 1) / (kept + 2)
            error = math.sqrt(smooth * (1.0 - smooth) / kept)
        ratio = tally.compared_width / tally.first_width if tally.first_width > 0.0 else None
        return cls(
            grid,
            metric,
            process,
            tally.n,
            tally.refused / tally.n,
            rate,
            error,
            tally.width / kept if kept else None,
            ratio,
            tally.first_held / tally.first_n if tally.first_n else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return asdict(self)
