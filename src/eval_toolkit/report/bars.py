"""Rows of a forest plot as text with a bar, for narrow screens."""

from collections.abc import Mapping
from typing import Any

from eval_toolkit._internal.display import Estimate
from eval_toolkit.report.sections import Bar

_TONES = ("better", "worse", "different")
_MARGIN = 4.0
"""Margin at both ends, in percent."""


def bars_of(
    values: Mapping[str, Mapping[str, Any]], *, reference: float | None = None, signed: bool = False
) -> list[Bar]:
    """Return one row per value in the chart, on a common scale.

    Takes the values of `plot_forest`, or with ``signed`` the differences of `plot_differences`.

    Examples
    --------
    >>> (bar,) = bars_of({"en": {"value": 0.5, "ci_low": 0.0, "ci_high": 1.0, "status": "ok"}})
    >>> bar.shown, bar.place, bar.low, bar.high
    ('0.500 [0.000, 1.000]', 50.0, 4.0, 96.0)
    """
    known = [
        number
        for one in values.values()
        for number in (one.get("value"), one.get("ci_low"), one.get("ci_high"))
        if number is not None
    ]
    ends = [*known, *([] if reference is None else [reference])]
    low, high = min(ends, default=0.0), max(ends, default=1.0)

    def place(value: Any) -> float | None:
        if value is None:
            return None
        share = 0.5 if high <= low else (float(value) - low) / (high - low)
        return round(_MARGIN + share * (100.0 - 2 * _MARGIN), 2)

    return [_bar(name, one, place, reference, signed) for name, one in values.items()]


def _bar(
    name: str, one: Mapping[str, Any], place: Any, reference: float | None, signed: bool
) -> Bar:
    value, n = one.get("value"), one.get("n_units", one.get("n"))
    counted = "" if n is None else f"n = {n:,}"
    if value is None:
        return Bar(name=name, shown=str(one.get("status") or "skipped"), n=counted)
    verdict = one.get("verdict", "")
    ends = one.get("ci_low"), one.get("ci_high")
    return Bar(
        name=name,
        shown=str(Estimate(value, *ends, "+" if signed else "")),
        n=counted,
        place=place(value),
        low=place(ends[0]),
        high=place(ends[1]),
        line=place(reference),
        tone=verdict if verdict in _TONES else "undecided" if verdict else "",
    )
