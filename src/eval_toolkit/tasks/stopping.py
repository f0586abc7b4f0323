"""Early stopping of runs, with inference that is valid under continuous monitoring.

Units are requested in random order. After each unit, a stopping rule evaluates a confidence
sequence, and the run stops at the first unit at which the rule is satisfied. This unit depends only
on the answers, not on the number of concurrent requests: answers beyond it are kept but not
counted. Since a failed grade could have had any value, every failure widens the interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import BoolArray
from eval_toolkit.errors import ArtifactError, InvalidInputError, InvalidTypeError
from eval_toolkit.inference.results import DEFAULT_CONFIDENCE, BootstrapCI
from eval_toolkit.seeds import DEFAULT_SEED

if TYPE_CHECKING:
    from eval_toolkit.metric_specs import ColumnSpec
    from eval_toolkit.protocols import MetricSpec
    from eval_toolkit.runs import Run
    from eval_toolkit.scorecards import Records
    from eval_toolkit.tasks.sequential_draws import Looks
    from eval_toolkit.tasks.stopping_watch import Watch
    from eval_toolkit.tasks.types import Sample

_SCOPES = ("benchmark", "population")


@dataclass(frozen=True, slots=True)
class UntilWidth:
    """Stopping rule that is satisfied once the interval of a metric is narrow enough.

    Parameters
    ----------
    width : float
        Maximum width of the interval.
    metric : str, optional
        Metric to watch, which must be a mean with bounds, or ``<metric>_macro`` for the mean over
        subjects. By default, the first suitable metric of the task.
    scope : {"population", "benchmark"}, default "population"
        Target of the intervals: the expected score for similar items, in groups and subjects of the
        same number and sizes ("population", as for all other intervals), or the score of this run
        after all planned units ("benchmark"), which is known exactly at the end.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the width is not positive or the scope is unknown.

    Examples
    --------
    >>> UntilWidth(0.02).to_dict()
    {'rule': 'until_width', 'width': 0.02, 'metric': None, 'scope': 'population'}
    """

    width: float
    metric: str | None = None
    scope: str = "population"

    def __post_init__(self) -> None:
        width = validation.number(self.width, "width", low=0.0, include_low=False)
        object.__setattr__(self, "width", width)
        validation.choice(self.scope, "scope", _SCOPES)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "rule": "until_width",
            "width": self.width,
            "metric": self.metric,
            "scope": self.scope,
        }

    def watch(
        self,
        samples: Sequence[Sample],
        metrics: Sequence[MetricSpec],
        *,
        seed: int = DEFAULT_SEED,
        order: str = "shuffled",
        confidence: float = DEFAULT_CONFIDENCE,
    ) -> Watch:
        """Bind the rule to a run.

        Parameters
        ----------
        samples : sequence of Sample
            Samples of the run.
        metrics : sequence of MetricSpec
            Metrics of the task, as returned by `scorecards.task_metrics`.
        seed : int, default 42
            Random seed of the order; use the seed of the task.
        order : {"shuffled", "file"}
            Order of the run; "file" is rejected, since it is not random.
        confidence : float, default 0.95
            Simultaneous confidence level of all interim analyses.

        Returns
        -------
        Watch
            Watch to pass to `ask_until`.

        Raises
        ------
        InvalidInputError
            If the samples are in file order, or the metric has no confidence sequence.
        """
        from eval_toolkit.tasks.stopping_watch import set_watch

        spec, macro = _chosen(metrics, self.metric, samples)
        if self.width >= spec.bounds[1] - spec.bounds[0]:
            raise InvalidInputError(
                f"`width` is {self.width:g}, but it must be smaller than the range of "
                f"{spec.name}, which is between {spec.bounds[0]:g} and {spec.bounds[1]:g}"
            )
        return set_watch(self, spec, macro, samples, seed, order, confidence)

    def holds(self, found: Looks) -> BoolArray:
        """Return whether the rule is satisfied after each number of draws."""
        return found.high - found.low <= self.width

    def said(self, name: str, ci: BootstrapCI, holds: bool) -> tuple[str, str]:
        """Return the reason for stopping, and an empty verdict."""
        compared = "not more" if holds else "more"
        wide = f"{ci.ci_high - ci.ci_low:.4g}"
        return f"the interval of {name} is {wide} wide, {compared} than {self.width:g}", ""


@dataclass(frozen=True, slots=True)
class UntilDecided:
    """Stopping rule that is satisfied once a run is known to be better or worse than another run.

    Parameters
    ----------
    against : Run or path
        Finished run of the same task. Only units that it contains are requested.
    metric : str, optional
        As in `UntilWidth`.
    margin : float, default 0.0
        Largest negligible difference. The rule is satisfied once the interval of the difference is
        above the margin, below its negative, or between the two ("equivalent").
    scope : {"population", "benchmark"}, default "population"
        As in `UntilWidth`. With "benchmark", the sign of any difference is known after all units.

    Raises
    ------
    InvalidInputError, InvalidTypeError
        If the margin is negative, the scope is unknown, or ``against`` is not a run.
    ArtifactError
        If the path does not contain a finished run.

    Notes
    -----
    The rule uses a confidence sequence for the paired difference, this run minus the other. If
    there is no difference in the scope, the probability of ever reporting one is at most 1 −
    confidence. For "population", group sizes are taken as planned; no claim is made for groups of
    other sizes, for which the mean over items may differ. If all units have been used, the run ends
    undecided.

    Examples
    --------
    >>> import tempfile
    >>> from eval_toolkit.runs import write_run
    >>> results = {"schema_version": "v1", "run_id": "r1", "config": {}, "by_slice": {}}
    >>> run = write_run(tempfile.mkdtemp() + "/r1", results=results, manifest={"run_id": "r1"})
    >>> UntilDecided(run, margin=0.01).to_dict()["against"]
    'r1'
    """

    against: Run
    metric: str | None = None
    margin: float = 0.0
    scope: str = "population"

    def __post_init__(self) -> None:
        from eval_toolkit.runs import Run

        against: Any = self.against
        if isinstance(against, (str, Path)):
            against = Run.open(against)
            object.__setattr__(self, "against", against)
        if not isinstance(against, Run):
            raise InvalidTypeError(f"`against` is {against!r:.80}; it must be a run or a path")
        object.__setattr__(self, "margin", validation.number(self.margin, "margin", low=0.0))
        validation.choice(self.scope, "scope", _SCOPES)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serialisable dict."""
        return {
            "rule": "until_decided",
            "against": self.against.run_id,
            "metric": self.metric,
            "margin": self.margin,
            "scope": self.scope,
        }

    def watch(
        self,
        samples: Sequence[Sample],
        metrics: Sequence[MetricSpec],
        *,
        seed: int = DEFAULT_SEED,
        order: str = "shuffled",
        confidence: float = DEFAULT_CONFIDENCE,
    ) -> Watch:
        """Bind the rule to a run.

        Arguments are as in `UntilWidth.watch`. The other run must contain the metric and the units,
        with the same content.
        """
        from eval_toolkit.tasks.sequential_draws import known_values
        from eval_toolkit.tasks.stopping_watch import set_watch

        spec, macro = _chosen(metrics, self.metric, samples)
        records = _records_of(self.against, spec)
        common = _common(samples, records, self.against)
        other = known_values(records, spec)
        watch = set_watch(self, spec, macro, common, seed, order, confidence)
        return replace(watch, other=other)

    def holds(self, found: Looks) -> BoolArray:
        """Return whether the rule is satisfied after each number of draws."""
        apart = (found.low > self.margin) | (found.high < -self.margin)
        holding: BoolArray = apart | self._within(found.low, found.high)
        return holding

    def _within(self, low: Any, high: Any) -> Any:
        return (low >= -self.margin) & (high <= self.margin)

    def said(self, name: str, ci: BootstrapCI, holds: bool) -> tuple[str, str]:
        """Return the reason for stopping and the verdict, for a metric whose higher values are better."""
        shown = f"{ci.point_estimate:+.4g} [{ci.ci_low:+.4g}, {ci.ci_high:+.4g}]"
        than = f"than in {self.against.run_id!r}"
        by = f" by more than {self.margin:g}" if self.margin else ""
        if not holds:
            return f"{name} may be higher or lower{by} {than}: {shown}", "undecided"
        if self._within(ci.ci_low, ci.ci_high):
            near = f"by at most {self.margin:g} from {self.against.run_id!r}"
            return f"{name} differs {near}: {shown}", "equivalent"
        up = ci.ci_low > self.margin
        word = "higher" if up else "lower"
        return f"{name} is {word}{by} {than}: {shown}", "better" if up else "worse"


def _chosen(
    metrics: Sequence[MetricSpec], name: str | None, samples: Sequence[Sample]
) -> tuple[ColumnSpec, bool]:
    """Return the metric to watch, and whether to use its mean over subjects."""
    from eval_toolkit.tasks.stopping_watch import MACRO, is_bounded

    if not samples:
        raise InvalidInputError("`samples` is empty; pass at least one sample")
    fitting = {spec.name: spec for spec in metrics if is_bounded(spec)}
    if name is None and fitting:
        return next(iter(fitting.values())), False
    if name in fitting:
        return fitting[name], False
    plain = "" if name is None else name.removesuffix(MACRO)
    if plain in fitting and len({sample.subject for sample in samples}) > 1:
        return fitting[plain], True
    problem = "no metric can" if name is None else f"`metric` is {name!r}, which cannot"
    there = f"; choose one of {', '.join(fitting)}" if fitting else ""
    raise InvalidInputError(
        f"{problem} be watched: a stopping rule needs a mean of values with known bounds{there}"
    )


def _records_of(run: Run, spec: ColumnSpec) -> Records:
    """Return the records of a run with a single task and model."""
    if len(run.subjects) != 1:
        raise InvalidInputError(
            f"`against`: run {run.run_id!r} has records of {len(run.subjects)} tasks and models; "
            "it must have exactly one"
        )
    records = run.records(*run.subjects[0])
    if spec.column not in records.columns:
        raise InvalidInputError(
            f"`against`: run {run.run_id!r} has no {spec.column!r}; it has "
            f"{', '.join(sorted(records.columns))}"
        )
    return records


def _common(samples: Sequence[Sample], records: Records, run: Run) -> list[Sample]:
    """Return the samples that a run also contains; raise an error if their content differs."""
    there = dict(zip(records.unit_id.tolist(), records.content_hash.tolist(), strict=True))
    common = [sample for sample in samples if sample.id in there]
    for sample in common:
        digest = there[sample.id]
        if digest and sample.content_hash and digest != sample.content_hash:
            raise ArtifactError(
                f"`against`: unit {sample.id!r} has different content in run {run.run_id!r}; it is "
                "not the same unit"
            )
    if not common:
        raise InvalidInputError(
            f"`against`: run {run.run_id!r} contains none of the units of this run"
        )
    return common
