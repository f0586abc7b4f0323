"""What the inference functions return: frozen values that say how they were made."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eval_toolkit._display import Displayed
from eval_toolkit._validate import FloatArray

__all__ = [
    "DEFAULT_CONFIDENCE",
    "DEFAULT_METHOD",
    "DEFAULT_N_RESAMPLES",
    "BootstrapCI",
    "PairedBootstrapCI",
]

DEFAULT_N_RESAMPLES = 1000
DEFAULT_CONFIDENCE = 0.95
DEFAULT_METHOD = "BCa"


def _read_only(samples: FloatArray | None) -> FloatArray | None:
    """Return a view of an array through which it cannot be written to."""
    if samples is None:
        return None
    view = np.asarray(samples).view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True, slots=True)
class BootstrapCI(Displayed):
    """A point estimate with its interval, and how both were made.

    Closed-form intervals use the same type with ``n_resamples=0``, so that every estimate of the
    library reads alike. BCa bounds need not bracket the point estimate.

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
    """Resamples on which the metric was undefined and which were left out."""
    reason: str = ""
    """Why this is not the interval that was asked for; empty when it is."""
    n_units: int | None = None
    n_groups: int | None = None
    """Number of independent groups; the units themselves where they are independent."""

    def __post_init__(self) -> None:
        if self.samples is not None:
            object.__setattr__(self, "samples", _read_only(self.samples))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types; both historical spellings of point and bounds are present."""
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


@dataclass(frozen=True, slots=True)
class PairedBootstrapCI(Displayed):
    """The difference metric(B) − metric(A) on the same rows, with interval and p-value.

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
    """Usable resamples: those on which both metrics were defined."""
    method: str = "percentile"
    n_undefined: int = 0
    p_value: float | None = None
    """Two-sided bootstrap p-value of "no difference"; None where none was made."""
    samples: FloatArray | None = field(default=None, compare=False, repr=False)
    value_a: float | None = None
    value_b: float | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        if self.samples is not None:
            object.__setattr__(self, "samples", _read_only(self.samples))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types; both historical spellings of point and bounds are present."""
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
