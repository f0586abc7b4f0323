"""Result classes for corrected rates and differences."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eval_toolkit.inference.results import Interval, in_own_order


@in_own_order
@dataclass(frozen=True, kw_only=True, repr=False)
class CorrectedRate(Interval[float]):
    """Rate or mean according to a judge, corrected with human labels for some of the units.

    Examples
    --------
    >>> from eval_toolkit.inference import corrected_rate
    >>> judge = [1, 0, 1, 1, 0, 1, 0, 1, 1, 1] * 10
    >>> human = [1, 0, 0, 1] + [None] * 96
    >>> f"{corrected_rate(judge, human, method='raw'):.2f}"
    '0.70 [0.60, 0.78]'
    """

    value: float
    ci_low: float
    ci_high: float
    confidence: float
    method: str
    """"ppi++", "ppi", "rogan-gladen", "labels-only" or "raw"."""
    se: float | None
    raw: float
    """Uncorrected rate of the judge over all units."""
    n_units: int
    n_labels: int
    n_groups: int | None = None
    lam: float | None = None
    """Weight of the judge: 0 ignores it, 1 is plain prediction-powered inference."""
    narrowest: str = ""
    """Method with the narrowest interval on these data, other than "raw"."""
    widths: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    """Warnings about the estimate; empty if there are none."""

    @property
    def width(self) -> float:
        """Width of the interval."""
        return self.ci_high - self.ci_low

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        payload = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return payload | {"widths": dict(self.widths)}

    def __format__(self, spec: str) -> str:
        spec = spec or ".3f"
        return f"{self.value:{spec}} [{self.ci_low:{spec}}, {self.ci_high:{spec}}]"


@in_own_order
@dataclass(frozen=True, kw_only=True, repr=False)
class CorrectedDifference(Interval[float]):
    """Difference B − A according to a judge, corrected with human labels for some of the units.

    Examples
    --------
    >>> from eval_toolkit.inference import corrected_difference
    >>> a, b = [0, 1, 0, 1] * 10, [1, 1, 0, 1] * 10
    >>> corrected_difference(a, a[:20] + [None] * 20, b, b[:20] + [None] * 20).delta
    0.25
    """

    delta: float
    ci_low: float
    ci_high: float
    confidence: float
    p_value: float
    """Two-sided p-value for "no difference"."""
    method: str
    se: float
    raw_delta: float
    """Uncorrected difference of the judge over all units."""
    n_units: int
    n_labels: int
    """Number of units with human labels for both A and B."""
    n_groups: int | None
    lam: float
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def __format__(self, spec: str) -> str:
        spec = spec or ".3f"
        return f"{self.delta:+{spec}} [{self.ci_low:+{spec}}, {self.ci_high:+{spec}}]"
