"""Layers of forest plots: one row per name, with values on the x axis."""

from collections.abc import Mapping
from typing import Any

from eval_toolkit.report.plots._charts import altair, inline
from eval_toolkit.report.plots._estimates import Estimate
from eval_toolkit.report.plots.style import NEUTRALS, PALETTE


class Rows:
    """Named rows of a forest plot, with values on the x axis and text columns on the right."""

    def __init__(
        self,
        rows: list[Estimate],
        label: str,
        reference: float | None,
        *,
        signed: bool,
        bars: bool,
    ) -> None:
        self._alt = altair()
        self._reference = reference
        self._known = [_record(row, signed=signed) for row in rows if row.status == "ok"]
        self._skipped = [_record(row) for row in rows if row.status == "skipped"]
        self._errors = [_record(row) for row in rows if row.status == "error"]
        self._verdicts = {
            row.name: row.verdict if row.verdict in _COLOURS else "undecided" for row in rows
        }
        self._label = label if self._known else ""
        self._domain = [row.name for row in rows]
        self._span = _span(rows, reference, bars=bars)
        self._with_n = any(row.n is not None for row in rows)
        self._with_p = any(row.p_value is not None for row in rows)
        self._corrected = any(row.p_adjusted not in (None, row.p_value) for row in rows)
        self._text_width = max((_width(row["text"]) for row in self._known), default=0)
        self._n_width = max((_width(row.get("n_text", "")) for row in self._known), default=0)

    def _x(self, field: str) -> Any:
        alt = self._alt
        scale = alt.Scale(domain=self._span, nice=False, zero=False)
        # Without any value the axis has no meaningful ticks.
        axis = alt.Axis(grid=True, tickCount=5) if self._known else None
        return alt.X(f"{field}:Q", title=self._label or None, scale=scale, axis=axis)

    def _y(self) -> Any:
        alt = self._alt
        return alt.Y(
            "name:N",
            title=None,
            sort=None,
            scale=alt.Scale(domain=self._domain),
            axis=alt.Axis(ticks=False, domain=False, labelPadding=8, labelLimit=240),
        )

    def _chart(self, records: list[dict[str, Any]]) -> Any:
        return self._alt.Chart(inline(records)).encode(y=self._y())

    def _tooltip(self) -> list[Any]:
        alt = self._alt
        shown = [alt.Tooltip("name:N", title="Name"), alt.Tooltip("text:N", title="Value")]
        if self._with_n:
            shown.append(alt.Tooltip("n:Q", title="n", format=","))
        if self._with_p:
            shown.append(alt.Tooltip("p:Q", title="p", format=".3~g"))
        if self._corrected:
            shown.append(alt.Tooltip("p_adjusted:Q", title="p (corrected)", format=".3~g"))
        return shown

    def frame(self) -> list[Any]:
        """Draw the reference line."""
        if self._reference is None or not self._known:
            return []
        rule = self._alt.Chart(inline([{"x": self._reference}])).mark_rule(
            color=PALETTE["baseline"], strokeDash=[4, 4], strokeWidth=1.25
        )
        return [rule.encode(x=self._x("x"))]

    def bars(self) -> list[Any]:
        """Draw bars from zero."""
        if not self._known:
            return []
        mark = self._chart(self._known).mark_bar(
            color=PALETTE["negative"], opacity=0.75, height={"band": 0.62}
        )
        return [mark.encode(x=self._x("x"), x2=self._alt.datum(0), tooltip=self._tooltip())]

    def intervals(self, *, dark: bool) -> list[Any]:
        """Draw the intervals, in a dark colour if they are on top of bars."""
        records = [record for record in self._known if "low" in record]
        if not records:
            return []
        layers = []
        for verdict, colour in _COLOURS.items():
            own = [record for record in records if self._verdicts[record["name"]] == verdict]
            if own:
                colour = NEUTRALS["ink"] if dark else colour
                mark = self._chart(own).mark_rule(color=colour, strokeWidth=1.75)
                layers.append(mark.encode(x=self._x("low"), x2="high:Q", tooltip=self._tooltip()))
        return layers

    def points(self, *, open_at: float | None) -> list[Any]:
        """Draw the values, hollow if undecided or if the interval contains ``open_at``."""
        layers = []
        for verdict, colour in _COLOURS.items():
            own = [record for record in self._known if self._verdicts[record["name"]] == verdict]
            away = [record for record in own if _is_clear(record, verdict, open_at)]
            near = [record for record in own if not _is_clear(record, verdict, open_at)]
            for records, fill in ((near, NEUTRALS["paper"]), (away, colour)):
                if records:
                    mark = self._chart(records).mark_point(
                        filled=True, size=60, opacity=1, color=fill, stroke=colour, strokeWidth=1.75
                    )
                    layers.append(mark.encode(x=self._x("x"), tooltip=self._tooltip()))
        return layers

    def absent(self) -> list[Any]:
        """Draw skipped rows in muted text and errors with a distinct mark."""
        alt = self._alt
        tooltip = [alt.Tooltip("name:N", title="Name"), alt.Tooltip("text:N", title="Status")]
        layers = []
        if self._skipped:
            mark = self._chart(self._skipped).mark_text(
                style="muted", align="left", fontStyle="italic", limit=self._room(4)
            )
            layers.append(mark.encode(x=alt.value(4), text="text:N", tooltip=tooltip))
        if self._errors:
            base = self._chart(self._errors)
            sign = base.mark_point(
                shape="triangle-up", filled=True, size=90, opacity=1, color=PALETTE["positive"]
            )
            layers.append(sign.encode(x=alt.value(9), tooltip=tooltip))
            text = base.mark_text(style="error", align="left", limit=self._room(20))
            layers.append(text.encode(x=alt.value(20), text="text:N", tooltip=tooltip))
        return layers

    def numbers(self) -> list[Any]:
        """Draw value, interval and n as text columns to the right of the plot."""
        alt = self._alt
        layers = []
        if self._known:
            mark = self._chart(self._known).mark_text(align="left", dx=10)
            layers.append(mark.encode(x=alt.value("width"), text="text:N"))
        counted = [record for record in self._known if "n_text" in record]
        if counted:
            right = 10 + self._text_width + 14 + self._n_width
            mark = self._chart(counted).mark_text(style="muted", align="right", dx=right)
            layers.append(mark.encode(x=alt.value("width"), text="n_text:N"))
        return layers

    def _room(self, start: int) -> Any:
        """Return the maximum width of text in the plot, up to the end of the columns."""
        columns = self._text_width + (14 + self._n_width if self._n_width else 0)
        return self._alt.ExprRef(f"max(40, width - {start} + {10 + columns if columns else 0})")


_COLOURS = {
    "": PALETTE["negative"],
    "better": PALETTE["negative"],
    "worse": PALETTE["positive"],
    "different": NEUTRALS["ink"],
    "undecided": PALETTE["baseline"],
}
_SIGNS = {"better": "↑", "worse": "↓", "different": "≠"}


def _is_clear(record: Mapping[str, Any], verdict: str, open_at: float | None) -> bool:
    """Return whether a point is filled: its verdict, or else its interval, is decisive."""
    if verdict:
        return verdict != "undecided"
    return open_at is None or ("low" in record and not record["low"] <= open_at <= record["high"])


def _record(row: Estimate, *, signed: bool = False) -> dict[str, Any]:
    if row.status != "ok" or row.value is None:
        said = f"{row.status}: {row.reason}" if row.reason else row.status
        return {"name": row.name, "text": said}
    text = f"{row.shown(signed=signed)} {_SIGNS.get(row.verdict, '')}".strip()
    record: dict[str, Any] = {"name": row.name, "x": row.value, "text": text}
    if row.has_interval:
        record |= {"low": row.low, "high": row.high}
    if row.n is not None:
        record |= {"n": row.n, "n_text": f"n = {row.n:,}"}
    if row.p_value is not None:
        record["p"] = row.p_value
    if row.p_adjusted is not None:
        record["p_adjusted"] = row.p_adjusted
    return record


def _width(text: str) -> int:
    """Estimate the width in pixels of a string at size 11 in a wide font such as DejaVu Sans."""
    return round(sum(4.3 if c in " .,[]" else 9.2 if c in "+−=" else 7.0 for c in text))


def _span(rows: list[Estimate], reference: float | None, *, bars: bool) -> list[float]:
    """Return the limits of the axis: all intervals with a margin, and zero if there are bars."""
    found = [
        number for row in rows for number in (row.value, row.low, row.high) if number is not None
    ]
    if not found:
        return [0.0, 1.0]
    if reference is not None:
        found.append(reference)
    low, high = min(found), max(found)
    room = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
    if bars:
        # The longest bar ends before the edge; zero is an edge unless bars extend in both ways.
        return [low - room if low < 0 else 0.0, 0.0 if high <= 0 > low else high + room]
    # Proportions end at 0 and 1; a margin would suggest possible values beyond them.
    left = 0.0 if low >= 0.0 > low - room else low - room
    right = 1.0 if high <= 1.0 < high + room else high + room
    return [left, right]
