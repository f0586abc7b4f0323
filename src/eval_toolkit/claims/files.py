"""Claims in TOML files, with one validated ``[[claim]]`` table per claim."""

import difflib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_toolkit._internal.files import is_there, read_document
from eval_toolkit.claims.paths import MetricPath
from eval_toolkit.claims.reports import Severity
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.runs.addresses import Address
from eval_toolkit.scorecards.parts import parse_part

_REQUIRE = re.compile(r"(value|ci_low|ci_high)\s*(<=|>=|==|<|>)\s*(\S+)")
_ALWAYS = ("name", "severity", "description")
_CELL = ("slice", "scorer", "metric")
_AT = "at"
"""Key that contains the address of a cell (for sizes, of a part), instead of separate keys."""
_FORMS: dict[str, tuple[str, ...]] = {
    "require": _CELL,
    "non_inferior_by": (*_CELL, "higher_is_better", "baseline_scorer", "allow_missing"),
    "min_n": ("slice", "min_positive", "min_negative"),
    "min_positive": ("slice", "min_n", "min_negative"),
    "min_negative": ("slice", "min_n", "min_positive"),
    "max_fpr": ("slice",),
    "no_leakage": (),
    "no_errors": (),
}
"""Forms of a claim, with the keys that each form accepts in addition to the common keys."""
_OPTIONAL = ("higher_is_better", "baseline_scorer", "allow_missing")
_SIZES = ("min_n", "min_positive", "min_negative")
_AT_EXAMPLE = 'at = "recall@fpr=0.01"'
_KEYS = (*_ALWAYS, _AT, *_CELL, *_FORMS, *_OPTIONAL)


@dataclass(frozen=True, slots=True)
class Requirement:
    """Condition such as ``ci_low >= 0.80``: a field of a cell, an operator and a number.

    Examples
    --------
    >>> str(Requirement.parse("ci_low >= 0.80"))
    'ci_low >= 0.8'
    """

    part: str
    """Field of the cell: "value", "ci_low" or "ci_high"."""
    op: str
    threshold: float

    @classmethod
    def parse(cls, text: Any) -> "Requirement":
        """Parse a requirement.

        Raises
        ------
        InvalidInputError
            If the text does not have the form ``value|ci_low|ci_high < | <= | > | >= | == number``.

        Examples
        --------
        >>> Requirement.parse("value < 0.1").op
        '<'
        """
        match = _REQUIRE.fullmatch(text.strip()) if isinstance(text, str) else None
        try:
            threshold = float(match[3]) if match else math.nan
        except ValueError:
            threshold = math.nan
        if match is None or not math.isfinite(threshold):
            raise InvalidInputError(
                f'`require` is {text!r}; it must have the form "ci_low >= 0.80": value, ci_low or '
                "ci_high, one of < <= > >= ==, and a number"
            )
        return cls(match[1], match[2], threshold)

    def __str__(self) -> str:
        return f"{self.part} {self.op} {self.threshold:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim of a claims file; created by `load_claims`.

    Exactly one form is set: ``require``, ``non_inferior_by``, sizes (``min_n``, ``min_positive``,
    ``min_negative``), ``max_fpr``, ``no_leakage`` or ``no_errors``.

    Examples
    --------
    >>> Claim(name="enough rows", slice="test", min_n=200).form
    'size'
    """

    name: str
    severity: Severity = "error"
    description: str = ""
    at: str | None = None
    """Address of the cell, ``metric @ part / system``, which replaces the next three fields; for
    sizes and ``max_fpr``, only the part."""
    slice: str | None = None
    scorer: str | None = None
    metric: MetricPath | None = None
    require: Requirement | None = None
    non_inferior_by: float | None = None
    """Largest acceptable loss relative to the baseline run."""
    higher_is_better: bool | None = None
    """Whether higher is better; required if the direction of the metric is unknown."""
    baseline_scorer: str | None = None
    """Name of the scorer in the baseline run, if it is different."""
    allow_missing: bool = False
    """Whether to compare even if units of the baseline have no value in the run."""
    min_n: int | None = None
    min_positive: int | None = None
    min_negative: int | None = None
    max_fpr: float | None = None
    """False-positive rate that the slice must have enough negatives to demonstrate."""
    no_leakage: bool = False
    no_errors: bool = False

    @property
    def form(self) -> str:
        """Form of the claim; "size" for minimum numbers of rows."""
        for form in ("require", "non_inferior_by", "max_fpr"):
            if getattr(self, form) is not None:
                return form
        return "no_leakage" if self.no_leakage else "no_errors" if self.no_errors else "size"


def load_claims(path: str | Path) -> list[Claim]:
    """Read a claims file.

    Parameters
    ----------
    path : path
        TOML with one ``[[claim]]`` table per claim. See Notes.

    Returns
    -------
    list of Claim
        Claims for `evaluate_gate`, in the order of the file.

    Raises
    ------
    InvalidInputError
        If the file is missing or not valid TOML, or a claim has an unknown key, a missing key, an
        invalid value, or a duplicate name; the message names the file and the claim.

    Notes
    -----
    Every claim has a ``name`` and, optionally, a ``severity`` ("error" or "warning") and a
    ``description``. In addition, it has exactly one of the following forms:

    ``at = "exact_match @ subject=Africa / model-b"``, ``require = "ci_low >= 0.80"``
        Value or interval bound of the cell at an address, ``metric @ part / system``; part and
        system may be omitted if they are unambiguous.
    ``slice``, ``scorer``, ``metric``, ``require = "ci_low >= 0.80"``
        The same condition, with the cell specified by names, which are matched exactly; ``metric``
        may be a list of keys for a nested metric.
    ``at`` (or ``slice``, ``scorer``, ``metric``), ``non_inferior_by = 0.01``
        The loss relative to the baseline run is shown to be less than 0.01. Set
        ``higher_is_better`` for metrics of unknown direction, and ``baseline_scorer`` if the scorer
        has another name in the baseline. The claim fails if units of the baseline have no value in
        the run, unless ``allow_missing = true``.
    ``slice`` (or ``at = "language=de"``), ``min_n``, ``min_positive``, ``min_negative``
        Minimum numbers of rows; at least one of the three keys.
    ``slice`` (or ``at = "language=de"``), ``max_fpr = 0.01``
        The slice has enough negatives to demonstrate such a low false-positive rate.
    ``no_leakage = true``
        Leakage checks were run and found no errors.
    ``no_errors = true``
        No scorer, no metric and no unit failed.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "claims.toml"
    >>> _ = file.write_text('''
    ... [[claim]]
    ... name = "good enough"
    ... slice = "test"
    ... scorer = "guard"
    ... metric = "pr_auc"
    ... require = "ci_low >= 0.80"
    ... ''')
    >>> load_claims(file)[0].require.threshold
    0.8
    """
    file = Path(path)
    tables = _tables(file)
    claims: dict[str, Claim] = {}
    for number, table in enumerate(tables, start=1):
        named = table.get("name") if isinstance(table, Mapping) else None
        where = f"{file}: claim {number}" + (f" ({named!r})" if isinstance(named, str) else "")
        try:
            claim = _claim(table)
        except InvalidInputError as error:
            raise InvalidInputError(f"{where}: {error}") from None
        if claim.name in claims:
            raise InvalidInputError(
                f"{where}: another claim has the same name; names must be unique"
            )
        claims[claim.name] = claim
    return list(claims.values())


def _tables(file: Path) -> list[Any]:
    if not is_there(file):
        raise InvalidInputError(f"{file}: there is no such file")
    payload = read_document(file, suffix=".toml")
    unknown = [key for key in payload if key != "claim"]
    if unknown:
        raise InvalidInputError(
            f"{file}: unknown key {unknown[0]!r}; a claims file contains only [[claim]] tables"
        )
    tables = payload.get("claim")
    if not isinstance(tables, list) or not tables:
        raise InvalidInputError(f"{file}: has no [[claim]] tables; write one per claim")
    return tables


def _claim(table: Any) -> Claim:
    if not isinstance(table, Mapping):
        raise InvalidInputError(f"is {table!r}; it must be a [[claim]] table")
    for key in table:
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the keys are {', '.join(_KEYS)}"
            raise InvalidInputError(f"unknown key {key!r}; {hint}")
    _check_form(table)
    return Claim(**{key: _READERS[key](value, key) for key, value in table.items()})


def _check_form(table: Mapping[str, Any]) -> None:
    """Raise unless the table has exactly one form and the keys that it requires."""
    if "name" not in table:
        raise InvalidInputError('has no name; every claim needs one: name = "finds spam"')
    forms = [form for form in _FORMS if form in table]
    if not forms:
        example = f'require = "ci_low >= 0.8"; {_AT_EXAMPLE}'
        raise InvalidInputError(
            f"has no condition; it needs one of {', '.join(_FORMS)}, as in {example}"
        )
    extra = [form for form in forms[1:] if not (form in _SIZES and forms[0] in _SIZES)]
    if extra:
        raise InvalidInputError(f"has both {forms[0]} and {extra[0]}; split it into two claims")
    takes = _FORMS[forms[0]]
    if _AT in table and "slice" in takes:
        takes = (_AT, *(key for key in takes if key not in _CELL))
        known = next((key for key in _CELL if key in table), None)
        if known is not None:
            raise InvalidInputError(
                f"has both at and {known}; remove {known}, since it is part of the address"
            )
        (Address.parse if forms[0] in ("require", "non_inferior_by") else parse_part)(
            _text(table[_AT], _AT)
        )
    for key in table:
        if key not in (*_ALWAYS, forms[0], *takes):
            raise InvalidInputError(f"the key {key!r} does not apply to claims with {forms[0]!r}")
    for key in takes:
        if key not in table and key not in _OPTIONAL and key not in _SIZES:
            example = _AT_EXAMPLE if "metric" in takes else 'at = "language=de"'
            if isinstance(table.get("metric"), str):
                example = f'at = "{table["metric"]}" instead of metric'
            raise InvalidInputError(
                f"{forms[0]} needs the key {key!r}, or only 'at' with an address: {example}"
            )


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str) or not (value or key == "description"):
        raise InvalidInputError(f"`{key}` is {value!r}; it must be a non-empty string")
    return value


def _severity(value: Any, key: str) -> str:
    if value not in ("error", "warning"):
        raise InvalidInputError(f'`{key}` is {value!r}; it must be "error" or "warning"')
    return str(value)


def _path(value: Any, key: str) -> MetricPath:
    if isinstance(value, list) and value:
        return tuple(_text(part, key) for part in value)
    return _text(value, key)


def _count(value: Any, key: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInputError(f"`{key}` is {value!r}; it must be a positive integer")
    return value


def _number(value: Any, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise InvalidInputError(f"`{key}` is {value!r}; it must be a positive number")
    if key == "max_fpr" and value > 1:
        raise InvalidInputError(f"`{key}` is {value!r}; a rate is at most 1")
    return float(value)


def _flag(value: Any, key: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidInputError(f"`{key}` is {value!r}; it must be true or false")
    if not value and key not in _OPTIONAL:
        raise InvalidInputError(f"`{key}` is false, which claims nothing; write true or omit it")
    return value


_READERS: dict[str, Callable[[Any, str], Any]] = {
    **dict.fromkeys(("name", "description", "at", "slice", "scorer", "baseline_scorer"), _text),
    **dict.fromkeys(_SIZES, _count),
    **dict.fromkeys(("non_inferior_by", "max_fpr"), _number),
    **dict.fromkeys(("higher_is_better", "allow_missing", "no_leakage", "no_errors"), _flag),
    "severity": _severity,
    "metric": _path,
    "require": lambda value, key: Requirement.parse(value),
}
