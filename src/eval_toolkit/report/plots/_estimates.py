"""Parse values with intervals from results, JSON or triples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

from eval_toolkit._internal import validation
from eval_toolkit._internal.words import value_and_ends
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.report.plots._charts import clean, nice, unique_names

_POINTS = ("point_estimate", "delta", "value", "estimate", "point", "mean", "diff")
_LOWS = ("ci_low", "low")
_HIGHS = ("ci_high", "high")


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Row of a forest plot: a value with its interval, or the reason why the value is missing."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    status: str = "ok"
    reason: str = ""
    confidence: float | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    verdict: str = ""
    """Verdict of a comparison, such as "better" or "worse"."""

    @property
    def has_interval(self) -> bool:
        """Whether the interval has both bounds."""
        return self.low is not None and self.high is not None

    def shown(self, *, signed: bool = False) -> str:
        """Return the value and its interval as a string."""
        if self.value is None:
            return ""
        sign = "+" if signed else ""
        known = [abs(end) for end in (self.value, self.low, self.high) if end is not None]
        if self.has_interval and max(known) < 100:  # with the digits of tables
            shown = " ".join(value_and_ends(self.value, self.low, self.high, sign))
            return shown.replace("-", "−")
        if self.low is None and self.high is None:
            return nice(self.value, signed)
        low, high = ("?" if end is None else nice(end, signed) for end in (self.low, self.high))
        return f"{nice(self.value, signed)} [{low}, {high}]"


def estimates(values: Mapping[Any, Any], argument: str) -> list[Estimate]:
    """Convert every entry of a mapping to an `Estimate` with a unique name, in order.

    Raises if a value is not finite or the mapping is empty.
    """
    if not isinstance(values, Mapping):
        raise InvalidTypeError(
            f"`{argument}` is {values!r:.80}; it must be a mapping of name to value"
        )
    if not values:
        raise InvalidInputError(f"`{argument}` is empty; nothing to draw")
    names = unique_names(values)
    return [
        _estimate(value, name, f"{argument}[{clean(key, limit=40)!r}]")
        for name, (key, value) in zip(names, values.items(), strict=True)
    ]


def _estimate(value: Any, name: str, where: str) -> Estimate:
    if isinstance(value, Real):
        return Estimate(name=name, value=validation.number(value, where))
    if isinstance(value, (tuple, list)):
        return _from_sequence(value, name, where)
    if isinstance(value, (str, bytes)) or value is None:
        raise _no_number(value, where)
    status = _first(value, ("status",)) or "ok"
    if status not in ("ok", "skipped", "error"):
        raise InvalidInputError(
            f"{where} has the status {status!r:.40}; it must be 'ok', 'skipped' or 'error'"
        )
    n = _first(value, ("n_units", "n"))
    count = None if n is None else validation.integer(n, f"{where}.n")
    reason = clean(_first(value, ("reason",)) or "")
    if status != "ok":
        return Estimate(name=name, value=None, n=count, status=status, reason=reason)
    interval = _first(value, ("ci",))
    source = value if interval is None else interval
    point = _first(value, _POINTS)
    if point is None:
        point = _first(source, _POINTS)
    if point is None:
        raise _no_number(value, where)
    low, high = _ends(source, where)
    if count is None and (units := _first(source, ("n_units",))) is not None:
        count = validation.integer(units, f"{where}.n")
    return Estimate(
        name=name,
        value=validation.number(point, where),
        low=low,
        high=high,
        n=count,
        reason=reason,
        confidence=_first(source, ("confidence",)),
        p_value=_first(value, ("p_value",)),
        p_adjusted=_first(value, ("p_adjusted",)),
        verdict=str(_first(value, ("verdict",)) or ""),
    )


def _from_sequence(value: Sequence[Any], name: str, where: str) -> Estimate:
    if len(value) != 3:
        raise InvalidInputError(
            f"{where} has {len(value)} entries; a triple must be (value, lower, upper)"
        )
    point, low, high = (validation.number(part, where) for part in value)
    _in_order(low, high, where)
    # Some methods yield intervals that exclude the value and flag it; a triple has no such flag.
    if not low <= point <= high:
        raise InvalidInputError(
            f"{where} has the value {point:g} outside of [{low:g}, {high:g}]; a triple must be "
            "(value, lower, upper)"
        )
    return Estimate(name=name, value=point, low=low, high=high)


def _ends(source: Any, where: str) -> tuple[float | None, float | None]:
    low, high = _first(source, _LOWS), _first(source, _HIGHS)
    low = None if low is None else validation.number(low, f"{where}.ci_low")
    high = None if high is None else validation.number(high, f"{where}.ci_high")
    if low is not None and high is not None:
        _in_order(low, high, where)
    return low, high


def _in_order(low: float, high: float, where: str) -> None:
    if low > high:
        raise InvalidInputError(
            f"{where} has the interval [{low:g}, {high:g}]; the lower bound must come first"
        )


def _first(source: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        found = source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)
        if found is not None and not callable(found):
            return found
    return None


def _no_number(value: Any, where: str) -> InvalidTypeError:
    return InvalidTypeError(
        f"{where} is {value!r:.80}; pass a number, a result with `ci_low` and `ci_high`, or a "
        "triple (value, lower, upper)"
    )
