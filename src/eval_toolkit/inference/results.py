"""Result classes of the inference functions."""

import inspect
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Generic, Self, TypeVar

import numpy as np

from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import FloatArray

DEFAULT_N_RESAMPLES = 1000
DEFAULT_CONFIDENCE = 0.95
DEFAULT_METHOD = "BCa"


BoundT = TypeVar("BoundT")
"""Type of a bound: a number, or None if it may be missing."""
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, repr=False)
class Interval(Displayed, Generic[BoundT]):
    """Confidence interval with its method; base class of all results with intervals.

    Examples
    --------
    >>> interval = Interval(0.7, 0.9, 0.95, "wilson")
    >>> interval.low, interval.high, interval.clipped((0.0, 0.8)).high
    (0.7, 0.9, 0.8)
    """

    ci_low: BoundT
    ci_high: BoundT
    confidence: float
    """Confidence level."""
    method: str = ""
    reason: str = ""
    """Reason if this is not the requested interval; otherwise empty."""

    @property
    def low(self) -> BoundT:
        """Lower end."""
        return self.ci_low

    @property
    def high(self) -> BoundT:
        """Upper end."""
        return self.ci_high

    def clipped(self, bounds: tuple[float, float]) -> Self:
        """Return the interval clipped to a range."""
        low: Any = self.ci_low
        high: Any = self.ci_high
        return replace(self, ci_low=max(bounds[0], low), ci_high=min(bounds[1], high))

    def _plain(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the named attributes, and the reason if there is one."""
        payload = {name: getattr(self, name) for name in names}
        return payload | ({"reason": self.reason} if self.reason else {})


def _read_only(samples: FloatArray | None) -> FloatArray | None:
    """Return a read-only view of an array."""
    if samples is None:
        return None
    view = np.asarray(samples).view()
    view.flags.writeable = False
    return view


def in_own_order(cls: type[ResultT]) -> type[ResultT]:
    """Order the fields of a dataclass as listed by the class itself, not base class first.

    Examples
    --------
    >>> [item.name for item in fields(BootstrapCI)][:3]
    ['point_estimate', 'ci_low', 'ci_high']
    """
    given: dict[str, Any] = cls.__dataclass_fields__  # type: ignore[attr-defined]
    own = [name for name in inspect.get_annotations(cls) if name in given]
    cls.__dataclass_fields__ = {name: given[name] for name in (*own, *given)}  # type: ignore[attr-defined]
    return cls


def _set(result: Any, *values: Any) -> None:
    """Set the fields of a frozen result in order."""
    for item, value in zip(fields(result), values, strict=True):
        object.__setattr__(result, item.name, value)


@in_own_order
@dataclass(frozen=True, init=False, repr=False, kw_only=True)
class BootstrapCI(Interval[float]):
    """Point estimate with a confidence interval.

    Closed-form intervals use the same class, with ``n_resamples=0``. BCa intervals need not contain
    the point estimate.

    Examples
    --------
    >>> ci = BootstrapCI(0.8, 0.7, 0.9, 0.95, 1000, "BCa")
    >>> f"{ci:.2f}"
    '0.80 [0.70, 0.90]'
    >>> ci.to_dict()["ci_95"]
    [0.7, 0.9]
    """

    point_estimate: float
    ci_low: float
    ci_high: float
    confidence: float
    n_resamples: int
    method: str
    samples: FloatArray | None = field(default=None, compare=False, repr=False)
    n_undefined: int = 0
    """Number of resamples excluded because the metric was undefined."""
    reason: str = ""
    """Reason if this is not the requested interval; otherwise empty."""
    n_units: int | None = None
    n_groups: int | None = None
    """Number of independent groups, or of units if these are independent."""

    def __init__(
        self,
        point_estimate: float,
        ci_low: float,
        ci_high: float,
        confidence: float,
        n_resamples: int,
        method: str,
        samples: FloatArray | None = None,
        n_undefined: int = 0,
        reason: str = "",
        n_units: int | None = None,
        n_groups: int | None = None,
    ) -> None:
        # Explicit, because the generated one would put the fields of the base class first.
        ends = (ci_low, ci_high, confidence)
        drawn = (n_resamples, method, _read_only(samples), n_undefined)
        _set(self, point_estimate, *ends, *drawn, reason, n_units, n_groups)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict, with both names of the estimate and of the bounds."""
        payload: dict[str, Any] = {
            "point_estimate": self.point_estimate,
            "point": self.point_estimate,
            "ci_low": self.ci_low,
            "ci_high": self.ci_high,
            "low": self.ci_low,
            "high": self.ci_high,
            "ci_95": [self.ci_low, self.ci_high],
            "confidence": self.confidence,
            "n_resamples": self.n_resamples,
            "method": self.method,
            "n_undefined": self.n_undefined,
        }
        if self.reason:
            payload["reason"] = self.reason
        for name in ("n_units", "n_groups"):
            if getattr(self, name) is not None:
                payload[name] = getattr(self, name)
        return payload

    def __format__(self, spec: str) -> str:
        spec = spec or ".3f"
        return f"{self.point_estimate:{spec}} [{self.ci_low:{spec}}, {self.ci_high:{spec}}]"


@in_own_order
@dataclass(frozen=True, init=False, repr=False, kw_only=True)
class PairedBootstrapCI(Interval[float]):
    """Difference metric(B) − metric(A) on the same rows, with interval and p-value.

    Examples
    --------
    >>> diff = PairedBootstrapCI(0.02, 0.01, 0.03, False, 0.95, 1000)
    >>> f"{diff:.2f}"
    '+0.02 [+0.01, +0.03]'
    """

    delta: float
    ci_low: float
    ci_high: float
    overlaps_zero: bool
    confidence: float
    n_resamples: int
    """Number of resamples on which both metrics are defined."""
    method: str = "percentile"
    n_undefined: int = 0
    p_value: float | None = None
    """Two-sided bootstrap p-value for "no difference"; None if not tested."""
    samples: FloatArray | None = field(default=None, compare=False, repr=False)
    value_a: float | None = None
    value_b: float | None = None
    reason: str = ""

    def __init__(
        self,
        delta: float,
        ci_low: float,
        ci_high: float,
        overlaps_zero: bool,
        confidence: float,
        n_resamples: int,
        method: str = "percentile",
        n_undefined: int = 0,
        p_value: float | None = None,
        samples: FloatArray | None = None,
        value_a: float | None = None,
        value_b: float | None = None,
        reason: str = "",
    ) -> None:
        ends = (ci_low, ci_high, overlaps_zero, confidence)
        drawn = (n_resamples, method, n_undefined, p_value, _read_only(samples))
        _set(self, delta, *ends, *drawn, value_a, value_b, reason)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict, with both names of the estimate and of the bounds."""
        payload: dict[str, Any] = {
            "delta": self.delta,
            "point_estimate": self.delta,
            "point": self.delta,
            "ci_low": self.ci_low,
            "ci_high": self.ci_high,
            "low": self.ci_low,
            "high": self.ci_high,
            "ci_95": [self.ci_low, self.ci_high],
            "overlaps_zero": self.overlaps_zero,
            "confidence": self.confidence,
            "n_resamples": self.n_resamples,
            "method": self.method,
            "n_undefined": self.n_undefined,
            "p_value": self.p_value,
        }
        for name in ("value_a", "value_b"):
            if getattr(self, name) is not None:
                payload[name] = getattr(self, name)
        if self.reason:
            payload["reason"] = self.reason
        return payload

    def __format__(self, spec: str) -> str:
        spec = spec or ".3f"
        return f"{self.delta:+{spec}} [{self.ci_low:+{spec}}, {self.ci_high:+{spec}}]"
