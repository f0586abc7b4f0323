"""Metrics of stored predictions, overall and by part: `score_predictions`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack

import numpy as np

from eval_toolkit._internal.options import gathers
from eval_toolkit._internal.tables import LabelMap
from eval_toolkit._internal.validation import FloatArray, IntArray
from eval_toolkit.errors import InvalidInputError
from eval_toolkit.loaders.columns import IDS, Scale, Wanted
from eval_toolkit.loaders.predictions import Predictions, read_predictions
from eval_toolkit.metric_specs.names import chosen_metrics
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.runs.driver import drive
from eval_toolkit.runs.kinds import Graded, Kind
from eval_toolkit.runs.outcome import Outcome, Subject
from eval_toolkit.runs.specs import SummarySpec
from eval_toolkit.scorecards import MetricResult, Records, Scorecard, summarise
from eval_toolkit.scorecards.parts import WHOLE
from eval_toolkit.scorecards.records import unit_starts

if TYPE_CHECKING:
    from eval_toolkit.runs.kind_display import Estimator
    from eval_toolkit.runs.units import Unit

_PROBABILITIES = ("brier", "log_loss", "ece", "smooth_ece", "op_net_benefit")


class RowOptions(TypedDict, total=False):
    """Options that identify, select and convert rows."""

    group_col: str | None
    id_col: str | None
    positive: str | None
    where: str | Sequence[str]
    drop_missing: bool
    scale: Scale | None


@gathers(
    RowOptions,
    group_col=None,
    id_col=None,
    positive=None,
    where=(),
    drop_missing=False,
    scale=None,
)
def score_predictions(
    source: Any,
    metrics: Sequence[MetricSpec | str] | None = None,
    *,
    label_col: str | None = None,
    score_cols: str | Sequence[str] = (),
    by: str | Sequence[str] = (),
    threshold: float | None = None,
    out: str | Path | None = None,
    summary: SummarySpec | None = None,
    **rows: Unpack[RowOptions],
) -> Outcome:
    """Compute metrics of stored predictions with confidence intervals, overall and by part.

    This is the Python equivalent of ``eval-toolkit score``.

    Parameters
    ----------
    source : path, sequence of paths, DataFrame, mapping of columns or sequence of mappings
        Predictions, one per row, in any form accepted by `loaders.predictions.read_predictions`.
    metrics : sequence of MetricSpec or str, optional
        Metrics, or names such as ``f1@0.5``, as accepted by `metric_specs.named`; by default
        PR-AUC, ROC-AUC, Brier score and log-loss, and with ``threshold`` also F1, precision, recall
        and false-positive rate.
    label_col : str, optional
        Column of labels; by default, the column named label, y_true, y, target, class, truth or
        similar.
    score_cols : str or sequence of str, optional
        Columns of scores; by default, the column named score, prob, probability, p, proba,
        prediction or similar.
    by : str or sequence of str, optional
        Columns whose values define the parts, such as ``language``.
    threshold : float, optional
        Scores at or above the threshold count as positive.
    out : path, optional
        Folder in which to store the run; requires row ids.
    summary : SummarySpec, optional
        Confidence level, method, number of resamples and seed of the intervals.
    group_col : str, optional
        Column of groups; rows that share a group are resampled together.
    id_col : str, optional
        Column of unique row ids; by default, unit_id, row_id, id or another column whose name ends
        in id, such as message_id, and whose values are unique.
    positive : str, optional
        Label of the positive class; by default 1 or true, or the positive word of a known pair such
        as ham and spam.
    where : str or sequence of str, optional
        Conditions that rows must satisfy: ``"lang = 'de' and score >= 0.5"``.
    drop_missing : bool, default False
        Whether to exclude rows without a label, score, group or id.
    scale : {"probability", "percent", "logit"}, optional
        Scale of the scores; percent and log-odds are converted to probabilities.

    Returns
    -------
    Outcome
        ``cards[slice, scorer]`` and ``subjects[slice, scorer]`` for every column of scores, on the
        slice "all"; also ``card`` and ``records`` if there is only one such column.

    Raises
    ------
    InvalidInputError, MissingColumnError
        If a column is missing or a row cannot be read; the message lists the first bad rows.
    ArtifactError
        If the folder already contains a run.

    Examples
    --------
    >>> rows = {"label": [0, 1] * 30, "score": [0.1 * (i % 7) + 0.3 * (i % 2) for i in range(60)],
    ...         "language": ["de"] * 30 + ["fr"] * 30}
    >>> done = score_predictions(rows, ["roc_auc"], by="language")
    >>> round(done.card["roc_auc"].value, 3), list(done.results["by_slice"]["all"]["parts"])
    (0.836, ['language=de', 'language=fr'])
    """
    wanted = Wanted(
        label=label_col,
        scores=(score_cols,) if isinstance(score_cols, str) else tuple(score_cols),
        by=(by,) if isinstance(by, str) else tuple(by),
        group=rows["group_col"],
        id=rows["id_col"],
        labels=LabelMap.of(rows["positive"], None),
        where=(where,) if isinstance(where := rows["where"], str) else tuple(where),
        drop_missing=rows["drop_missing"],
        scale=rows["scale"],
    )
    from eval_toolkit.harness.short_form import naming_positive

    with naming_positive():
        found = read_predictions(source, wanted)
    if out is not None and found.id is None:
        raise InvalidInputError(
            f"`out` requires rows with ids; none of the columns {', '.join(IDS)} exists, and row "
            "numbers are not ids; pass the column as `id_col`"
        )
    if threshold is not None:
        check_threshold(found, threshold)
    specs = chosen_metrics(metrics, at=threshold)
    how = SummarySpec() if summary is None else summary
    kind = PredictionsKind(
        found=found,
        specs=dict.fromkeys(found.scores, specs),
        settings={
            "files": [str(file) for file in found.rows.files],
            "label": found.label,
            "scores": list(found.scores),
            "by": list(found.parts),
            "group": rows["group_col"],
            "id": found.id,
            **used_rows(wanted),
            "metrics": [spec.name for spec in specs],
            **({} if threshold is None else {"threshold": threshold}),
            "confidence": how.confidence,
            "n_resamples": how.n_resamples,
            "seed": how.seed,
            "method": how.method,
        },
        summary=how,
        files={str(file): file for file in found.rows.files},
    )
    return drive(kind, out, name="predictions")


def used_rows(wanted: Wanted) -> dict[str, Any]:
    """Return the options that select or convert rows, to be stored in the run's configuration."""
    used = {"where": list(wanted.where), "drop_missing": wanted.drop_missing, "scale": wanted.scale}
    return {name: value for name, value in used.items() if value}


@dataclass(frozen=True)
class PredictionsKind(Kind[Predictions]):
    """Evaluation kind for stored predictions of one or more scorers."""

    found: Predictions = field(repr=False)
    specs: Mapping[str, Sequence[MetricSpec]] = field(repr=False)
    """Metrics of each scorer; their thresholds may differ."""
    settings: Mapping[str, Any]
    summary: SummarySpec
    files: Mapping[str, Path] = field(default_factory=dict)
    """Source of the rows, as stored in the manifest."""
    leakage: Mapping[str, Any] | None = None
    """Findings of the leakage checks, as stored in the manifest."""
    each: Callable[[Sequence[Any]], Iterable[Any]] = iter
    """Progress display over the parts."""

    name = "rows"
    asks = False

    def config(self) -> Mapping[str, Any]:
        """Return the columns, the metrics and the interval settings."""
        return self.settings

    def units(self) -> Sequence[Unit]:
        """Return the texts of the rows, if any; all other data are in the records."""
        from eval_toolkit.runs.units import Unit

        found = self.found
        if found.texts is None:
            return ()
        rows = zip(found.origin.tolist(), found.unit_ids().tolist(), found.texts, strict=True)
        return [Unit(id=str(unit), input=text, slice=WHOLE, row=row) for row, unit, text in rows]

    def produce(self, context: Any) -> Predictions:
        """Return the predictions, which already exist."""
        return self.found

    def grade(self, attempts: Predictions) -> Graded:
        """Compute the results overall and for every part."""
        measured = {name: attempts.records(name, coded=True) for name in attempts.scores}
        jobs = [
            ((WHOLE, name), part, measured[name], rows)
            for part, rows in attempts.slices()
            for name in attempts.scores
        ]
        specs = {(WHOLE, name): of_scorer for name, of_scorer in self.specs.items()}
        cards, by_slice = summarised_parts(self.each(jobs), specs, self.summary)
        return Graded(subjects=_LazyRecords(attempts), cards=cards, by_slice=by_slice, n_errors=0)

    def manifest(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the seed, the files, the original labels, and any leakage found."""
        names = self.found.label_names
        return {
            "seeds": {"bootstrap": self.summary.seed},
            "data_files": dict(self.files),
            **({"label_names": names} if names else {}),
            **({} if self.leakage is None else {"leakage_report": dict(self.leakage)}),
        }


class _LazyRecords(Mapping[Subject, Records]):
    """Records of each scorer, created lazily because a million rows take a second."""

    def __init__(self, found: Predictions) -> None:
        self._found = found
        self._made: dict[str, Records] = {}

    def __getitem__(self, subject: Subject) -> Records:
        place, scorer = subject
        if place != WHOLE or scorer not in self._found.scores:
            raise KeyError(subject)
        if scorer not in self._made:
            self._made[scorer] = self._found.records(scorer)
        return self._made[scorer]

    def __iter__(self) -> Iterator[Subject]:
        return ((WHOLE, scorer) for scorer in self._found.scores)

    def __len__(self) -> int:
        return len(self._found.scores)


Job: TypeAlias = tuple[Subject, str, Records, IntArray | None]
"""Slice, scorer, part, records of the slice, and mask of the rows in the part."""


def summarised_parts(
    jobs: Iterable[Job],
    specs: Mapping[Subject, Sequence[MetricSpec]],
    how: SummarySpec,
    estimated: Estimator | None = None,
) -> tuple[dict[Subject, Scorecard], dict[str, Any]]:
    """Summarise slices and their parts, each slice before its parts.

    ``estimated`` is an estimator as returned by `Shown.estimator`. Returns the scorecard of each
    subject including its parts, and the cells in the stored format.
    """
    cards: dict[Subject, dict[str, Scorecard]] = {}
    by_slice: dict[str, Any] = {}
    for (place, scorer), part, records, rows in jobs:
        some = records if rows is None else records.take(rows)
        card = summarise(
            some,
            specs[place, scorer],
            on_error=how.on_error,
            confidence=how.confidence,
            method=how.method,
            n_resamples=how.n_resamples,
            seed=how.seed,
            executor=how.executor,
        )
        if "score" in some.columns and len(some):
            card = Scorecard(explained(card, some.columns["score"]))
        if estimated is not None:
            card = Scorecard({**card, **estimated(some, specs[place, scorer])})
        cards.setdefault((place, scorer), {})[part] = card
        n, labels = len(unit_starts(some.unit_id)), some.columns.get("label")
        n_positive = 0 if labels is None else int(np.count_nonzero(labels == 1.0))
        counts = {"n": n, "n_positive": n_positive, "is_single_class": n_positive in (0, n)}
        entry = {name: counts[name] for name in ("n", "n_positive")}
        if part == WHOLE:
            entry = by_slice.setdefault(place, {**entry, "by_scorer": {}})
        else:
            parts = by_slice[place].setdefault("parts", {})
            entry = parts.setdefault(part, {**entry, "by_scorer": {}})
        entry["by_scorer"][scorer] = {**card.to_dict(), **counts}
    whole = {subject: Scorecard(dict(own.pop(WHOLE)), own) for subject, own in cards.items()}
    return whole, by_slice


def not_probabilities(scores: FloatArray) -> str:
    """Return why probability metrics are undefined, or "" if they are defined."""
    low, high = float(scores.min()), float(scores.max())
    if low >= 0.0 and high <= 1.0:
        return ""
    return f"needs probabilities, but the scores range from {low:g} to {high:g}"


def check_threshold(found: Predictions, threshold: float) -> None:
    """Raise an error if a threshold is a percentage but the scores are probabilities."""
    if not 1.0 < threshold <= 100.0:
        return
    for name, scores in found.scores.items():
        if not not_probabilities(scores):
            raise InvalidInputError(
                f"`threshold` is {threshold:g}, but {name!r} is read as probabilities from 0 to 1; "
                f"pass {threshold / 100:g}"
            )


def scale_note(scores: FloatArray) -> str:
    """Return a note on scores outside [0, 1], with their likely scale and the option to pass."""
    low, high = float(scores.min()), float(scores.max())
    logits = low < 0.0 < high
    may_be = "log-odds: pass scale='logit'" if logits else "percent: pass scale='percent'"
    return (
        f"the scores range from {low:g} to {high:g}; Brier score and log-loss need probabilities; "
        f"if these are {may_be}"
    )


def needs_probability(name: str) -> bool:
    """Return whether a metric requires probabilities."""
    return name.startswith(_PROBABILITIES)


def explained(card: Mapping[str, MetricResult], scores: FloatArray) -> dict[str, MetricResult]:
    """Return the cells, marking failures due to non-probability scores as skipped."""
    why = not_probabilities(scores)
    return {
        name: replace(cell, status="skipped", reason=why)
        if why and cell.status == "error" and needs_probability(name)
        else cell
        for name, cell in card.items()
    }
