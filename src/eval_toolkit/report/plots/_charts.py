"""Chart helpers: inline data, sanitised text, sizes."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from eval_toolkit._internal import validation
from eval_toolkit._internal.optional import require
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.errors import InvalidInputError, InvalidTypeError
from eval_toolkit.report.plots.style import DEFAULT_FIGSIZE

MAX_TEXT = 120
"""Maximum length of a name or reason in a chart."""

_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff]+"
)
"""Characters that break lines, change the text direction, or are invalid in XML."""

PIXELS_PER_INCH = 72


class Chart(Protocol):
    """Protocol of Altair charts, such as ``Chart`` and ``LayerChart``."""

    def to_dict(self, **options: Any) -> dict[str, Any]:
        """Return the Vega-Lite specification with its data."""
        ...

    def properties(self, **properties: Any) -> Any:
        """Return a copy with other properties, such as ``width="container"``."""
        ...

    def __add__(self, other: Any) -> Any:
        """Layer another chart on top."""
        ...


def altair() -> Any:
    """Return the altair module; if it is missing, raise an error with installation advice."""
    return require("altair", feature="eval_toolkit.report.plots", extra="report")


def clean(text: object, *, limit: int = MAX_TEXT) -> str:
    r"""Return a string as one line without control characters, truncated to ``limit`` characters.

    Examples
    --------
    >>> clean("a\nb"), clean("x" * 9, limit=4)
    ('a b', 'xxx…')
    """
    shown = _HIDDEN.sub(" ", str(text)[: 8 * limit]).strip()
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def unique_names(names: Iterable[object]) -> list[str]:
    """Return clean, unique names.

    Examples
    --------
    >>> unique_names(["a", "b", "a "])
    ['a', 'b', 'a (2)']
    """
    seen: dict[str, None] = {}
    for name in names:
        base = clean(name) or "(no name)"
        shown, copy = base, 1
        while shown in seen:
            copy += 1
            shown = f"{base} ({copy})"
        seen[shown] = None
    return list(seen)


def rounded(value: float, digits: int = 4) -> float:
    """Round a number for use in a specification, replacing −0 by 0."""
    return round(float(value), digits) + 0.0


def significant(values: Sequence[float] | np.ndarray[Any, Any], digits: int = 5) -> list[float]:
    """Round numbers to the precision that is visible on an axis spanning their range.

    Examples
    --------
    >>> significant([-100000.123456, -99999.0])
    [-100000.1235, -99999.0]
    """
    array = np.asarray(values, dtype=np.float64)
    low, high = (array.min(), array.max()) if array.size else (0.0, 0.0)
    # Halve first: the difference of two large numbers may overflow.
    half = float(high / 2 - low / 2) or float(abs(high) / 2)
    places = digits - 1 - (math.floor(math.log10(half) + math.log10(2)) if half > 0 else 0)
    if not -300 < places < 300:
        return [float(value) for value in array]
    return [rounded(value, places) for value in array.tolist()]


def even_edges(low: float, high: float, n_bins: int, name: str) -> FloatArray:
    """Return the edges of equal-width bins, widening the range if its ends are too close.

    Examples
    --------
    >>> even_edges(0.0, 1.0, 2, "x").tolist(), even_edges(3.0, 3.0, 2, "x").tolist()
    ([0.0, 0.5, 1.0], [2.5, 3.0, 3.5])
    """
    if not math.isfinite(high - low):
        raise InvalidInputError(
            f"`{name}` ranges from {low:g} to {high:g}; this range is too large to draw"
        )
    edges = np.linspace(low, high, n_bins + 1)
    if (np.diff(edges) > 0).all():
        return edges
    room = max(0.5, 1e-6 * max(abs(low), abs(high)))
    return np.linspace(low - room, high + room, n_bins + 1)


def nice(value: float, signed: bool = False) -> str:
    """Format a number for tables: three decimals, or significant figures for large and tiny values.

    Examples
    --------
    >>> nice(0.8369), nice(0.02, signed=True), nice(0.00012), nice(12345.6)
    ('0.837', '+0.020', '0.00012', '12,346')
    """
    sign = "+" if signed else ""
    size = abs(value)
    if size >= 1000:
        text = f"{value:{sign},.0f}"
    elif size >= 100:
        text = f"{value:{sign}.1f}"
    elif size == 0 or size >= 0.001:
        text = f"{value:{sign}.3f}"
    else:
        text = f"{value:{sign}.2g}"
    return text.replace("-", "−")


def inline(rows: Iterable[Mapping[str, Any]]) -> Any:
    """Return rows as inline data of a specification."""
    # `InlineData`, not `Data`: layers with the same rows then refer to them by name.
    return altair().InlineData(values=[dict(row) for row in rows])


def finished(
    chart: Any,
    *,
    title: str | None,
    figsize: tuple[float, float] | None,
    description: str,
    default: tuple[float, float] = DEFAULT_FIGSIZE,
) -> Chart:
    """Set the size, title and description of a chart."""
    width, height = _size(default if figsize is None else figsize)
    properties: dict[str, Any] = {"width": width, "height": height, "description": description}
    if title is not None:
        properties["title"] = heading(title, "title")
    done: Chart = chart.properties(**properties)
    return done


def heading(value: object, name: str) -> str:
    r"""Return a string that is safe as an axis title or in tooltips.

    Vega-Lite inserts titles into expressions and escapes quotes but not backslashes, so a title
    could end its string literal. Backslashes are replaced by a similar-looking character.

    Examples
    --------
    >>> heading('C:\\"', "label")
    'C:⧵"'
    """
    if not isinstance(value, str):
        raise InvalidTypeError(f"`{name}` is {value!r:.80}; it must be a str")
    return clean(value).replace("\\", "\u29f5")


def _size(figsize: tuple[float, float]) -> tuple[int, int]:
    if not isinstance(figsize, Sequence) or isinstance(figsize, str) or len(figsize) != 2:
        raise InvalidInputError(f"`figsize` is {figsize!r:.80}; pass width and height in inches")
    sizes = [
        validation.number(value, f"figsize[{place}]", low=0.5, high=100.0)
        for place, value in enumerate(figsize)
    ]
    return round(sizes[0] * PIXELS_PER_INCH), round(sizes[1] * PIXELS_PER_INCH)
