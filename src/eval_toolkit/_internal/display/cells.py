"""Table cells; the type of a cell determines its text and its machine-readable values."""

import math
import numbers
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from eval_toolkit._internal.words import fitting, formatted, value_and_ends


@dataclass(frozen=True, slots=True)
class Cell:
    """A table cell; `str` returns its text."""

    kind: ClassVar[str] = "missing"
    numeric: ClassVar[bool] = False
    """Whether the cell belongs in a numeric column."""
    holds: ClassVar[tuple[str, ...]] = ()
    """Field names in machine-readable formats."""

    @property
    def text(self) -> str:
        """Text of the cell."""
        return ""

    @property
    def parts(self) -> dict[str, Any]:
        """Return the values at full precision by field name; the main value has the name ""."""
        return {"" if name in _OWN else name: getattr(self, name) for name in self.holds}

    def __bool__(self) -> bool:
        return None not in self.parts.values()

    def __str__(self) -> str:
        return self.text


_OWN = ("value", "word", "words")


@dataclass(frozen=True, slots=True)
class Missing(Cell):
    """An empty cell without a reason."""

    def __bool__(self) -> bool:
        return False


MISSING = Missing()


@dataclass(frozen=True, slots=True)
class Text(Cell):
    """A text cell.

    Examples
    --------
    >>> Text("0.5").numeric, str(Text("0.5"))
    (False, '0.5')
    """

    words: str
    kind = "text"
    holds = ("words",)

    @property
    def text(self) -> str:
        return self.words

    def __bool__(self) -> bool:
        return bool(self.words)


@dataclass(frozen=True, slots=True)
class Status(Cell):
    """A status with an optional reason.

    The status is a word such as "ok", "skipped", "error", "better" or "FAIL", or empty for a
    remark. ``mark`` is the number of the footnote that gives the reason.

    Examples
    --------
    >>> str(Status("skipped", "one class")), Status("skipped").meaning
    ('skipped: one class', 'skipped')
    >>> str(Status("error", "a long story", mark=1)), Status("worse").meaning
    ('error (1)', 'bad')
    """

    word: str
    reason: str = ""
    mark: int | None = None
    kind = "status"
    holds = ("word", "reason")

    @property
    def text(self) -> str:
        why = self.reason if self.mark is None else f"({self.mark})"
        return (": " if self.mark is None else " ").join(filter(None, (self.word, why)))

    def __bool__(self) -> bool:
        return bool(self.word or self.reason)

    @property
    def meaning(self) -> str:
        """Styling category: good, bad, separate, warning, error, skipped, or empty."""
        return _MEANINGS.get(self.word, "")


_MEANINGS = {
    "better": "good",
    "pass": "good",
    "worse": "bad",
    "FAIL": "bad",
    "different": "apart",
    "warning": "warning",
    "incomplete": "warning",
    "error": "error",
    "failed": "error",
    "altered": "error",
    "skipped": "skipped",
    "not tested": "skipped",
}


@dataclass(frozen=True, slots=True)
class Number(Cell):
    """A numeric cell; empty if there is no value.

    ``bound`` is the sign displayed before a number that is a bound, such as "≥". See
    `words.formatted` for the number formats.

    Examples
    --------
    >>> str(Number(0.5)), str(Number(0.0001, "p")), str(Number(0.8, "g", bound=">="))
    ('0.500', '<0.001', '>= 0.8')
    """

    value: float | None
    spec: str = ".3f"
    bound: str = ""
    kind = "number"
    numeric = True
    holds = ("value",)

    @property
    def text(self) -> str:
        shown = "" if self.value is None else formatted(self.value, self.spec)
        return f"{self.bound} {shown}".strip()

    @property
    def parts(self) -> dict[str, Any]:
        return {"": self.value, **({"bound": self.bound} if self.bound else {})}


@dataclass(frozen=True, slots=True)
class Share(Number):
    """A cell with a fraction, displayed as a percentage.

    Examples
    --------
    >>> str(Share(0.5)), str(Share(0.0125, ".2f%"))
    ('50 %', '1.25 %')
    """

    spec: str = "g%"
    kind = "share"


@dataclass(frozen=True, slots=True)
class Count(Cell):
    """A cell with a count; weighted counts may not be integers.

    Examples
    --------
    >>> str(Count(12345)), str(Count(2.5)), str(Count(2.0))
    ('12,345', '2.50', '2')
    """

    value: float | None
    kind = "count"
    numeric = True
    holds = ("value",)

    @property
    def text(self) -> str:
        value = exact(self.value)
        if value is None:
            return ""
        return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}".removesuffix(".00")


@dataclass(frozen=True, slots=True)
class Interval(Cell):
    """A cell with an interval; empty if a limit is missing.

    The limits are inclusive. A ``plain`` interval is a range of values, shown without brackets.

    Examples
    --------
    >>> str(Interval(0.4, 0.6)), str(Interval(1, 3, "d", plain=True)), str(Interval(None, 0.6))
    ('[0.400, 0.600]', '1 to 3', '')
    """

    low: float | None
    high: float | None
    spec: str = ".3f"
    plain: bool = False
    kind = "interval"
    numeric = True
    holds = ("low", "high")

    @property
    def text(self) -> str:
        if self.low is None or self.high is None or not self.plain:
            return value_and_ends(None, self.low, self.high, self.spec)[1]
        low, high = formatted(self.low, self.spec), formatted(self.high, self.spec)
        return low if low == high else f"{low} to {high}"


@dataclass(frozen=True, slots=True)
class Estimate(Cell):
    """A cell with a value and an optional interval, formatted to the same number of decimals.

    With the formats "" and "+", the number of decimals suits all three numbers.

    Examples
    --------
    >>> str(Estimate(0.5, 0.4, 0.6)), str(Estimate(-0.00042, -0.001, 0.0017, "+"))
    ('0.500 [0.400, 0.600]', '-0.0004 [-0.0010, +0.0017]')
    >>> [str(cell) for cell in Estimate(0.00042, 0.0001, 0.0017).split()]
    ['0.0004', '[0.0001, 0.0017]']
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    spec: str = ""
    kind = "estimate"
    numeric = True
    holds = ("value", "low", "high")

    @property
    def text(self) -> str:
        return " ".join(filter(None, self.texts))

    @property
    def texts(self) -> tuple[str, str]:
        """Return the strings of the value and of the interval; either may be empty."""
        return value_and_ends(self.value, self.low, self.high, self.spec)

    def __bool__(self) -> bool:
        return self.value is not None

    def split(self) -> tuple[Number, Interval]:
        """Return the value and the interval as two cells with the same number of decimals."""
        ends = self.value, self.low, self.high
        spec = self.spec if self.spec not in ("", "+") else fitting(ends, self.spec)
        return Number(self.value, spec), Interval(self.low, self.high, spec)


CellLike: TypeAlias = Cell | str | float | None
"""Values that `cell_of` converts by type: strings, integers, floats, None."""
Rows: TypeAlias = list[list[CellLike]]


def cell_of(value: CellLike) -> Cell:
    """Convert a value to a cell: text, count or number; `MISSING` if there is no value.

    Examples
    --------
    >>> cell_of("0.5").kind, cell_of(12).kind, cell_of(0.5).kind, cell_of(Number(None)).kind
    ('text', 'count', 'number', 'missing')
    """
    if isinstance(value, Cell):
        return value if value else MISSING
    if value is None or value == "":
        return MISSING
    if isinstance(value, str | bool):
        return Text(str(value))
    plain = exact(value)
    return Count(plain) if isinstance(plain, int) else Number(float(value))


def exact(value: Any) -> Any:
    """Return an attribute of a cell as a plain Python value; None for non-finite numbers.

    Examples
    --------
    >>> exact(0.1 + 0.2), exact(float("nan")), exact("a")
    (0.30000000000000004, None, 'a')
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return value
    plain = int(value) if isinstance(value, numbers.Integral) else float(value)
    return plain if math.isfinite(plain) else None
