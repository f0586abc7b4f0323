"""Result cells: metrics of a scorer on a slice and its parts, and paired differences."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eval_toolkit import metric_specs as ms
from eval_toolkit._internal import validation
from eval_toolkit._internal.validation import FloatArray
from eval_toolkit.errors import InfeasibleError, InvalidInputError, UndefinedMetricError
from eval_toolkit.harness.rows import Rows
from eval_toolkit.harness.scoring import Scored
from eval_toolkit.inference import mde_from_ci, paired_bootstrap_diff
from eval_toolkit.inference.resampling import Executor
from eval_toolkit.protocols import MetricSpec
from eval_toolkit.scorecards import MetricResult, Records, Scorecard, summarise
from eval_toolkit.scorecards.parts import format_part
from eval_toolkit.scorecards.specs import check_specs
from eval_toolkit.seeds import SeedLike, resolve_seed
from eval_toolkit.thresholds.operating_points import headline_metrics

_RESERVED = frozenset(
    {"n", "n_positive", "is_single_class", "headline", "transferred_operating_points", "scores"}
    | {"scores_calibrated", "attack_style", "skipped", "error", "error_state", "exc_type"}
    | {"traceback"}
)


@dataclass(frozen=True)
class CellSettings:
    """Metrics to compute, and the settings of their confidence intervals."""

    specs: tuple[MetricSpec, ...]
    n_resamples: int
    confidence: float
    seed: int
    executor: Executor | None
    paired_spec: MetricSpec

    @classmethod
    def of(
        cls,
        metrics: Sequence[MetricSpec | str] | None,
        *,
        n_resamples: Any,
        confidence: Any,
        seed: SeedLike,
        rng: SeedLike,
        executor: Executor | None,
        paired_metric: MetricSpec | None = None,
    ) -> "CellSettings":
        """Validate the options and return them as settings."""
        specs = check_specs(metrics)
        for spec in specs:
            if spec.name in _RESERVED:
                raise InvalidInputError(
                    f"`metrics` contains a metric named {spec.name!r}, which is reserved; rename it"
                )
        return cls(
            tuple(specs),
            validation.integer(n_resamples, "n_resamples", low=0),
            validation.fraction(confidence, "confidence"),
            resolve_seed(seed, rng),
            executor,
            ms.pr_auc if paired_metric is None else check_specs([paired_metric])[0],
        )

    def card(
        self, records: Records, more: Iterable[MetricSpec] = (), by: str | None = None
    ) -> Scorecard:
        """Compute the cells of a slice and of its parts from its records."""
        return summarise(
            records,
            [*self.specs, *more],
            by=by,
            confidence=self.confidence,
            n_resamples=self.n_resamples,
            seed=self.seed,
            executor=self.executor,
        )


def _no_rows(specs: Iterable[MetricSpec]) -> Scorecard:
    cell = MetricResult(None, "skipped", "the slice has no rows", n_units=0, n_groups=0)
    return Scorecard({spec.name: cell for spec in specs})


def scored_block(
    rows: Rows,
    scores: FloatArray,
    records: Records,
    how: CellSettings,
    more: Sequence[MetricSpec] = (),
    absent: Mapping[str, MetricResult] | None = None,
) -> tuple[dict[str, Any], Scorecard]:
    """Compute a scorer's results and scorecard on a slice, including its parts."""
    by = None if rows.strata is None else rows.part_name
    card = how.card(records, more, by) if rows.n else _no_rows([*how.specs, *more])
    block: dict[str, Any] = {
        **rows.counts,
        "is_single_class": rows.n_positive in (0, rows.n),
        **card.to_dict(),
        **{name: cell.to_dict() for name, cell in (absent or {}).items()},
    }
    if rows.n:  # records are sorted by id: sums are bit-identical
        parts = None if by is None else records.slices[by]
        columns = records.columns
        block["headline"] = headline_metrics(columns["label"], columns["score"], parts)
    return block | {"scores": scores.tolist()}, card


def part_blocks(
    rows: Rows, cards: Mapping[str, Scorecard], scored: Mapping[str, Scored]
) -> dict[str, Any]:
    """Return the cells of each part of a slice, including scorers that produced no scores."""
    if rows.strata is None:
        return {}
    parts = rows.strata
    blocks: dict[str, Any] = {}
    for part in np.unique(parts).tolist():
        inside = parts == part
        n, n_positive = int(inside.sum()), int(rows.labels[inside].sum())
        counts = {"n": n, "n_positive": n_positive}
        by_scorer: dict[str, Any] = {}
        for name, outcome in scored.items():
            if name in cards:
                cells = cards[name].slices[part].to_dict()
                by_scorer[name] = counts | {"is_single_class": n_positive in (0, n)} | cells
            else:
                key = "error" if outcome.is_failure else "skipped"
                by_scorer[name] = {key: outcome.why, **counts, "scores": []}
        blocks[format_part({rows.part_name: part})] = {**counts, "by_scorer": by_scorer}
    return blocks


def paired_entry(
    rows: Rows, unit_ids: Sequence[str], a: Scored, b: Scored, how: CellSettings
) -> dict[str, Any]:
    """Return the paired difference B − A on a slice, or the reason why it is missing."""
    for outcome in (a, b):
        if outcome.scores is None:
            return {"skipped": outcome.why}
    if not rows.n:
        return {"skipped": "the slice has no rows"}
    if not how.n_resamples:
        return {"skipped": "no interval requested (`n_resamples` is 0)"}
    order = np.argsort(np.array(unit_ids, dtype=object), kind="stable")
    groups = rows.groups
    try:
        diff = paired_bootstrap_diff(
            rows.labels[order],
            a.scores[order],  # type: ignore[index]
            b.scores[order],  # type: ignore[index]
            how.paired_spec,
            n_resamples=how.n_resamples,
            confidence=how.confidence,
            seed=how.seed,
            groups=None if groups is None else groups[order],
            executor=how.executor,
        )
    except (UndefinedMetricError, InvalidInputError) as error:
        return {"skipped": str(error)}
    try:
        mde: float | None = mde_from_ci(diff).mde
    except InfeasibleError:  # no resample differs; see `reason`
        mde = None
    return {"metric": how.paired_spec.name, **diff.to_dict(), "mde_at_80_power": mde}
