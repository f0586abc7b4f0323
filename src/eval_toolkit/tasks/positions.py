"""Measurement of position bias in multiple-choice answers, using rotations of the choices."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_toolkit import metric_specs as ms
from eval_toolkit._internal import validation
from eval_toolkit._internal.display import Displayed
from eval_toolkit._internal.validation import BoolArray, FloatArray, IntArray
from eval_toolkit.analysis.comparison import opened_run
from eval_toolkit.errors import InvalidInputError, InvalidTypeError, UndefinedMetricError
from eval_toolkit.graders.choices import ChoicePosition
from eval_toolkit.inference import mcnemar_test, paired_mean_diff, sign_flip_test
from eval_toolkit.inference.paired_proportions import tango_interval
from eval_toolkit.inference.position_bias import RotationTest, rotation_test
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, Interval, in_own_order
from eval_toolkit.runs import Run
from eval_toolkit.runs.outcome import Outcome
from eval_toolkit.scorecards import MetricResult, Records, summarise
from eval_toolkit.seeds import DEFAULT_SEED
from eval_toolkit.tasks.styles import letters


@dataclass(frozen=True, slots=True)
class PositionResult:
    """Pick rate of a position, and accuracy if the correct choice is at this position."""

    label: str
    picked: MetricResult
    """Fraction of units and rotations in which this position is picked."""
    expected: float
    """Expected fraction of picks without position bias."""
    accuracy: MetricResult
    """Accuracy if the correct choice is at this position."""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "label": self.label,
            "picked": self.picked.to_dict(),
            "expected": self.expected,
            "accuracy": self.accuracy.to_dict(),
        }


@in_own_order
@dataclass(frozen=True, kw_only=True)
class PositionDifference(Interval[float | None]):
    """Paired difference in accuracy between the best and worst positions of the correct choice."""

    best: str
    worst: str
    value: float
    ci_low: float | None
    ci_high: float | None
    confidence: float
    p_value: float | None
    method: str
    n_pairs: int
    """Number of position pairs, the multiplicity for which interval and p-value are corrected."""
    n_units: int

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        payload = asdict(self)
        payload.pop("reason")
        return payload


@dataclass(frozen=True, slots=True, repr=False)
class PositionBias(Displayed):
    """Result of `position_bias`.

    Examples
    --------
    >>> records = [
    ...     Records.from_columns(
    ...         {"choice_position": [0] * 12, "choice_position_right": [right] * 12,
    ...          "choice_position_n": [2] * 12},
    ...     )
    ...     for right in (0, 1)
    ... ]
    >>> found = position_bias(records)  # always the first position
    >>> found.consistency.value, [one.accuracy.value for one in found.positions], found.biased
    (0.0, [1.0, 0.0], True)
    """

    positions: tuple[PositionResult, ...]
    accuracy: MetricResult
    """Mean accuracy over all rotations, which removes position bias."""
    consistency: MetricResult
    """Fraction of units for which the same choice is picked under all rotations."""
    test: RotationTest
    """Test of the null hypothesis that picks do not depend on position."""
    difference: PositionDifference
    confidence: float
    n_units: int
    n_left_out: int
    """Number of units without a pick under some rotation, which are excluded."""

    @property
    def biased(self) -> bool:
        """Whether the test rejects independence of position at the confidence level."""
        return self.test.p_value <= round(1.0 - self.confidence, 12)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "positions": [one.to_dict() for one in self.positions],
            "accuracy": self.accuracy.to_dict(),
            "consistency": self.consistency.to_dict(),
            "test": self.test.to_dict(),
            "difference": self.difference.to_dict(),
            "biased": self.biased,
            "confidence": self.confidence,
            "n_units": self.n_units,
            "n_left_out": self.n_left_out,
        }

    def to_markdown(self) -> str:
        """Return a Markdown table of positions, followed by the overall results."""
        lines = ["| position | picked | if even | accuracy there |", "|---|---|---|---|"]
        lines += [
            f"| {one.label} | {one.picked:.3f} | {one.expected:.3f} | {one.accuracy:.3f} |"
            for one in self.positions
        ]
        gap = self.difference
        between = "" if gap.ci_low is None else f" [{gap.ci_low:.3f}, {gap.ci_high:.3f}]"
        left = f"; {self.n_left_out} left out" if self.n_left_out else ""
        verdict = "matter" if self.biased else "have no significant effect"
        return "\n".join(
            [
                *lines,
                "",
                f"- positions {verdict}: p = {self.test.p_value:.4f}",
                f"- accuracy over all rotations: {self.accuracy:.3f}",
                f"- same choice under all rotations: {self.consistency:.3f}",
                f"- accuracy at {gap.best} minus {gap.worst}: {gap.value:.3f}{between}",
                f"- units: {self.n_units}{left}",
            ]
        )


def position_bias(
    runs: Sequence[Outcome | Run | str | Path | Records],
    *,
    confidence: float = DEFAULT_CONFIDENCE,
    n_permutations: int = 4999,
    seed: int = DEFAULT_SEED,
) -> PositionBias:
    """Measure how much a model's choices depend on the position of the choices.

    Parameters
    ----------
    runs : sequence of Outcome, Run, path or Records
        Runs of rotations 0, 1, 2, … of one task, as returned by `run_rotations`, with the columns
        of `graders.ChoicePosition`.
    confidence : float, default 0.95
        Confidence level of every interval.
    n_permutations : int, default 4999
        Number of permutations in the test.
    seed : int, default 42
        Random seed of the intervals and the test.

    Returns
    -------
    PositionBias
        Pick rates and accuracies by position, test, consistency, and largest difference in
        accuracy.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the runs are not rotations of one task, or lack the required columns.
    UndefinedMetricError
        If no unit has a pick under every rotation.

    Notes
    -----
    Only rotations are used, not all permutations, so adjacent choices remain adjacent. Since the
    largest difference is selected after looking at the data, its interval and p-value are corrected
    for the number of pairs of positions (Bonferroni).

    Examples
    --------
    >>> columns = {"choice_position": [0, 1] * 6, "choice_position_n": [2] * 12}
    >>> records = [
    ...     Records.from_columns({**columns, "choice_position_right": [right] * 12})
    ...     for right in (0, 1)
    ... ]
    >>> [one.picked.value for one in position_bias(records).positions]
    [0.5, 0.5]
    """
    confidence = validation.fraction(confidence, "confidence")
    picks = _Picks.of([_records(run, at) for at, run in enumerate(_listed(runs))])
    test = rotation_test(
        [one.tolist() for one in picks.picked], n_permutations=n_permutations, seed=seed
    )
    card = summarise(
        picks.records(),
        [
            ms.mean_of(column, bounds=(0.0, 1.0), kind=kind)
            for column, kind in picks.kinds().items()
        ],
        confidence=confidence,
        seed=seed,
    )
    n = len(picks.picked)
    labels = picks.labels
    return PositionBias(
        positions=tuple(
            PositionResult(
                label, card[f"picked_{label}"], test.expected[at] / sum(test.expected), card[label]
            )
            for at, label in enumerate(labels)
        ),
        accuracy=card["accuracy"],
        consistency=card["consistency"],
        test=test,
        difference=_largest_difference(picks, confidence, seed),
        confidence=confidence,
        n_units=n,
        n_left_out=picks.n_left_out,
    )


def _listed(runs: Any) -> list[Any]:
    if isinstance(runs, (Outcome, Run, Records, str)) or not isinstance(runs, Sequence):
        raise InvalidTypeError("`runs` must be a list of runs, one per rotation")
    if len(runs) < 2:
        raise InvalidInputError(f"`runs` contains {len(runs)} rotations; at least two are needed")
    return list(runs)


def _records(run: Any, at: int) -> Records:
    if isinstance(run, Outcome):
        run = run.records
    elif isinstance(run, (Run, str, Path)):
        run = opened_run(run, f"runs[{at}]")
        subjects = run.subjects
        if len(subjects) != 1:
            raise InvalidInputError(f"runs[{at}] has {len(subjects)} tasks; it must have one")
        run = run.records(*subjects[0])
    if not isinstance(run, Records):
        raise InvalidTypeError(f"runs[{at}] is {run!r:.80}; it must be a run, a path or records")
    for column in ChoicePosition().columns():
        if column not in run.columns:
            raise InvalidInputError(
                f"runs[{at}] has no column {column!r}; grade it with the grader 'choice_position'"
            )
    if len(np.unique(run.unit_id.astype(str))) < len(run):
        raise InvalidInputError(f"runs[{at}] has several attempts at a unit; it must have one")
    return run


@dataclass(frozen=True)
class _Picks:
    """Position picked for each unit under every rotation of its choices."""

    ids: list[str]
    groups: list[Any]
    picked: list[IntArray]
    right: list[IntArray]
    n_left_out: int

    @classmethod
    def of(cls, rotations: Sequence[Records]) -> "_Picks":
        _same_items(rotations)
        tables = [_table(records) for records in rotations]
        ids: list[str] = []
        groups, picked, right = [], [], []
        for row, unit in enumerate(rotations[0].unit_id.tolist()):
            known = next((table[unit] for table in tables if unit in table), None)
            n = 0 if known is None else known[2]
            lines = [table.get(unit) for table in tables[:n]]
            if n < 2 or n > len(tables) or any(line is None for line in lines):
                continue
            picks, gold, sizes = np.array(lines).T
            if (sizes != n).any() or (gold != (gold[0] - np.arange(n)) % n).any():
                raise InvalidInputError(
                    f"unit {unit!r}: the correct choice is at {gold.tolist()}; `runs` must be "
                    "rotations 0, 1, 2 … of one task"
                )
            ids.append(unit)
            groups.append(rotations[0].group[row])
            picked.append(picks)
            right.append(gold)
        everyone = {unit for records in rotations for unit in records.unit_id.tolist()}
        if not ids:
            raise UndefinedMetricError(
                f"none of the {len(everyone)} units has a pick under every rotation of its choices"
            )
        return cls(ids, groups, picked, right, len(everyone) - len(ids))

    @property
    def labels(self) -> list[str]:
        """Letters of the positions."""
        return letters(max(map(len, self.picked)))

    def kinds(self) -> dict[str, ms.ColumnKind]:
        """Return the type of each column: a proportion, or a mean over rotations."""
        shares: dict[str, ms.ColumnKind] = dict.fromkeys(["consistency", *self.labels], "share")
        rotated = ["accuracy", *(f"picked_{one}" for one in self.labels)]
        return {**shares, **dict.fromkeys(rotated, "bounded")}

    def correct_at(self, position: int) -> tuple[FloatArray, BoolArray]:
        """Return masks of units that are correct at a position and that have the position."""
        there = np.array([position < len(picks) for picks in self.picked])
        right = [
            bool((picks == gold)[gold == position].any())
            for picks, gold in zip(self.picked, self.right, strict=True)
        ]
        return np.array(right, dtype=np.float64), there

    def records(self) -> Records:
        """Return records with one row per unit, from which `summarise` computes the intervals."""
        columns: dict[str, list[float | None]] = {
            "accuracy": [
                float((picks == gold).mean())
                for picks, gold in zip(self.picked, self.right, strict=True)
            ],
            "consistency": [
                float(len({*((picks + np.arange(len(picks))) % len(picks)).tolist()}) == 1)
                for picks in self.picked
            ],
        }
        for at, label in enumerate(self.labels):
            right, there = self.correct_at(at)
            columns[label] = [
                value if can else None
                for value, can in zip(right.tolist(), there.tolist(), strict=True)
            ]
            columns[f"picked_{label}"] = [float((picks == at).mean()) for picks in self.picked]
        return Records.from_columns(columns, unit_id=self.ids, group=self.groups)

    def independent_groups(self) -> NDArray[Any] | None:
        """Return the group of each unit, or None if no units share a group."""
        groups = np.array([str(group) for group in self.groups])
        return None if len(np.unique(groups)) == len(groups) else groups


def _same_items(rotations: Sequence[Records]) -> None:
    """Raise an error if a unit id denotes different items in different rotations."""
    hashes: dict[str, str] = {}
    for at, records in enumerate(rotations):
        for unit, digest in zip(records.unit_id, records.content_hash, strict=True):
            if hashes.setdefault(unit, digest) != digest:
                raise InvalidInputError(
                    f"runs[{at}]: unit {unit!r} differs from the unit in earlier runs"
                )


def _table(records: Records) -> dict[str, tuple[int, int, int]]:
    """Return the picked position, the correct position and the number of choices of each unit."""
    columns = list(ChoicePosition().columns())
    there = np.all([records.status[column] == "ok" for column in columns], axis=0)
    values = np.stack([records.columns[column] for column in columns], axis=1).astype(np.int64)
    lines = zip(records.unit_id.tolist(), values.tolist(), there.tolist(), strict=True)
    return {unit: tuple(line) for unit, line, known in lines if known}


def _largest_difference(picks: _Picks, confidence: float, seed: int) -> PositionDifference:
    """Compare the best and worst positions, using units that have both."""
    labels = picks.labels
    sides = [picks.correct_at(at) for at in range(len(labels))]
    accuracy = [right[there].mean() for right, there in sides]
    best, worst = int(np.argmax(accuracy)), int(np.argmin(accuracy))
    both = sides[best][1] & sides[worst][1]
    a, b = sides[worst][0][both], sides[best][0][both]
    n_pairs = len(labels) * (len(labels) - 1) // 2
    level = 1.0 - (1.0 - confidence) / n_pairs
    value = float((b - a).mean()) if len(a) else 0.0
    groups = picks.independent_groups()
    interval, p_value = _paired(a, b, None if groups is None else groups[both], level, seed)
    low, high, method = interval
    return PositionDifference(
        best=labels[best],
        worst=labels[worst],
        value=value,
        ci_low=low,
        ci_high=high,
        confidence=confidence,
        p_value=None if p_value is None else min(1.0, n_pairs * p_value),
        method=f"{method}, Bonferroni" if method and n_pairs > 1 else method,
        n_pairs=n_pairs,
        n_units=len(a),
    )


def _paired(
    a: FloatArray, b: FloatArray, groups: NDArray[Any] | None, confidence: float, seed: int
) -> tuple[tuple[float | None, float | None, str], float | None]:
    """Return the interval of B − A with its method, and the p-value, or None if undefined."""
    if groups is None and len(a) > 1:
        ci = tango_interval(int((b > a).sum()), int((a > b).sum()), len(a), confidence=confidence)
        return (ci.ci_low, ci.ci_high, ci.method), mcnemar_test(a, b).p_value
    if groups is not None and len(np.unique(groups)) > 1:
        mean = paired_mean_diff(a, b, groups=groups, bounds=(0.0, 1.0), confidence=confidence)
        p_value = sign_flip_test(a, b, groups=groups, seed=seed).p_value
        return (mean.ci_low, mean.ci_high, mean.method), p_value
    return (None, None, ""), None
