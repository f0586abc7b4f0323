"""Selection of thresholds on one part of the data, for use on other parts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import ArrayLike

from eval_toolkit.artifacts import error_metric, skipped_metric
from eval_toolkit.errors import (
    InfeasibleError,
    InvalidInputError,
    InvalidTypeError,
    MissingColumnError,
    UndefinedMetricError,
)
from eval_toolkit.harness.rows import Rows
from eval_toolkit.harness.scoring import Scored
from eval_toolkit.metric_specs.at_threshold import OpSpec, op_f1, op_fpr, op_precision, op_recall
from eval_toolkit.protocols import ThresholdSelector
from eval_toolkit.scorecards import MetricResult
from eval_toolkit.thresholds.operating_points import (
    FittedOperatingPoint,
    OperatingPointSpec,
    apply_operating_points,
    fit_operating_points,
)

_IN_SAMPLE = "the threshold was selected on these rows"

_QUANTITIES: Mapping[str, Callable[..., OpSpec]] = {
    "f1": op_f1,
    "precision": op_precision,
    "recall": op_recall,
    "fpr": op_fpr,
}


def checked_selectors(thresholds: Any) -> tuple[ThresholdSelector, ...]:
    """Validate one or more selectors and return them as a tuple; criteria must be unique."""
    if thresholds is None:
        return ()
    single = isinstance(thresholds, ThresholdSelector) and not isinstance(thresholds, type)
    listed = (thresholds,) if single else tuple(_iterable(thresholds))
    seen: set[str] = set()
    for selector in listed:
        if isinstance(selector, type) or not isinstance(selector, ThresholdSelector):
            raise InvalidTypeError(
                f"`thresholds` contains {selector!r}; it must contain only selectors"
            )
        if selector.criterion in seen:
            raise InvalidInputError(
                f"two selectors in `thresholds` have the criterion {selector.criterion!r}"
            )
        seen.add(selector.criterion)
    return listed


def _iterable(values: Any) -> Iterable[Any]:
    if isinstance(values, (type, str)) or not isinstance(values, Iterable):
        raise InvalidTypeError(
            f"`thresholds` is {values!r}; it must be a ThresholdSelector or a list of them"
        )
    return values


@dataclass(frozen=True)
class FittedThresholds:
    """Thresholds selected for one scorer, and the reasons why any selectors failed."""

    scorer: str
    fitted_on: str
    points: Mapping[str, FittedOperatingPoint] = field(default_factory=dict)
    missing: Mapping[str, MetricResult] = field(default_factory=dict)

    def specs(self) -> list[OpSpec]:
        """Return the metrics at the selected thresholds."""
        return [op(point) for point in self.points.values() for op in _QUANTITIES.values()]

    def absent(self) -> dict[str, MetricResult]:
        """Return skipped cells for selectors that found no threshold."""
        return self._cells(self.missing)

    def withheld(self) -> dict[str, MetricResult]:
        """Return skipped cells for the slice on which the thresholds were selected."""
        chosen = dict.fromkeys(self.points, MetricResult(None, "skipped", _IN_SAMPLE))
        return self._cells(chosen) | self.absent()

    def _cells(self, by_criterion: Mapping[str, MetricResult]) -> dict[str, MetricResult]:
        return {
            f"op_{quantity}_at_{criterion}_fitted_on_{self.fitted_on}": cell
            for criterion, cell in by_criterion.items()
            for quantity in _QUANTITIES
        }

    def entries(self, applied_to: Sequence[str]) -> list[dict[str, Any]]:
        """Return one ``threshold_policy`` entry per threshold."""
        common = {"scorer_name": self.scorer, "fitted_on_slice": self.fitted_on}
        found = [
            {
                **{k: v for k, v in point.to_dict().items() if k != "fit_metrics"},
                "applied_to_slices": list(applied_to),
            }
            for point in self.points.values()
        ]
        lost = [
            {"criterion": criterion, **common, "threshold": cell.to_dict()}
            for criterion, cell in self.missing.items()
        ]
        return found + lost


def fit_thresholds(
    labels: ArrayLike,
    scored: Scored,
    selectors: Sequence[ThresholdSelector],
    *,
    fitted_on: str,
    scorer: str,
) -> FittedThresholds:
    """Select thresholds; a selector that finds none does not affect the others."""
    points: dict[str, FittedOperatingPoint] = {}
    missing: dict[str, MetricResult] = {}
    for selector in selectors:
        try:
            if scored.scores is None:
                raise UndefinedMetricError(f"no scores on {fitted_on!r}: {scored.why}")
            points |= fit_operating_points(
                labels, scored.scores, [selector], fitted_on_slice=fitted_on, scorer_name=scorer
            )
        except (MemoryError, AssertionError):
            raise
        except (UndefinedMetricError, InfeasibleError, InvalidInputError) as error:
            missing[selector.criterion] = MetricResult(None, "skipped", str(error))
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            missing[selector.criterion] = MetricResult(None, "error", reason)
    return FittedThresholds(scorer, fitted_on, points, missing)


def checked_op_specs(
    specs: Iterable[OperatingPointSpec],
    slices: Iterable[str],
    shown: Iterable[str],
    scorers: Iterable[str],
) -> tuple[OperatingPointSpec, ...]:
    """Validate operating-point specs: slices and scorers must exist and names must be unique."""
    listed = tuple(specs)
    known = {"slice": list(slices), "reported slice": list(shown), "scorer": list(scorers)}
    for index, spec in enumerate(listed):
        if not isinstance(spec, OperatingPointSpec):
            raise InvalidTypeError(
                f"operating_point_specs[{index}] is {spec!r}; it must be an OperatingPointSpec"
            )
        if spec.name in {other.name for other in listed[:index]}:
            raise InvalidInputError(
                f"two operating-point specs have the name {spec.name!r}; names must be unique"
            )
        named = [("slice", spec.fit_slice)]
        named += [("reported slice", name) for name in spec.apply_slices]
        named += [("scorer", name) for name in spec.scorer_names]
        for kind, name in named:
            if name not in known[kind]:
                raise MissingColumnError(
                    f"operating-point spec {spec.name!r}: no {kind} {name!r}; "
                    f"the {kind}s are {', '.join(map(repr, known[kind]))}"
                )
    return listed


def transferred(
    spec: OperatingPointSpec,
    scorer: str,
    fit: tuple[Rows, Scored],
    targets: Mapping[str, tuple[Rows, Scored]],
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the results of a spec on each target slice, and the provenance of its thresholds.

    The slice on which the thresholds were selected is skipped: its results would be biased.
    """
    rows, scored = fit
    fitted = fit_thresholds(
        rows.labels, scored, spec.selectors, fitted_on=spec.fit_slice, scorer=scorer
    )
    lost = {
        criterion: (skipped_metric if cell.status == "skipped" else error_metric)(cell.reason)
        for criterion, cell in fitted.missing.items()
    }
    applied: dict[str, Any] = {}
    for name, (target, outcome) in targets.items():
        if outcome.scores is None or not target.n:
            applied[name] = {"skipped": outcome.why or "the slice has no rows"}
            continue
        if name == spec.fit_slice:
            applied[name] = lost | {c: skipped_metric(_IN_SAMPLE) for c in fitted.points}
            continue
        applied[name] = lost | apply_operating_points(
            target.labels,
            outcome.scores,
            fitted.points,
            applied_to_slice=name,
            scorer_name=scorer,
        )
    elsewhere = [name for name in targets if name != spec.fit_slice]
    return applied, [{**entry, "spec": spec.name} for entry in fitted.entries(elsewhere)]
